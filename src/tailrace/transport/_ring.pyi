from typing import TypeAlias, final

Buffer: TypeAlias = bytes | bytearray | memoryview

HAVE_FUTEX: bool

@final
class Ring:
    # One inbox ring: many producers, one consumer.
    ring_bytes: int
    ring_bytes_max: int
    max_message_bytes: int
    used_bytes: int
    pending_records: int
    full_count: int
    skipped_count: int
    released_count: int
    wakeups: int  # how often wakeup() was called
    path: str

    # Make the file exclusively (0600) with its memory allocated, so that a full /dev/shm is OSError(ENOSPC).
    @staticmethod
    def create(path: str, ring_bytes: int, ring_bytes_max: int = 0) -> Ring: ...

    # Map an existing ring; one that is foreign, linked, damaged or of another namespace is refused.
    @staticmethod
    def attach(path: str) -> Ring: ...

    # Send a message of any size, a large one by a side file; False: no room within the timeout. 0 does not wait, below
    # 0 waits for ever; the GIL is released meanwhile. For one that can wait, a patient receiver is not woken. Aside: a
    # receiver that is woken gets this core for a moment.
    def post(
        self, target: int, payload: Buffer, timeout_us: int, can_wait: bool = False, aside: bool = True, /
    ) -> bool: ...

    # Wait like wait, unless something is ready, then take what is, as (target, payload); empty at the timeout or at a
    # wakeup. A patient one is not woken by what can wait.
    def receive(self, max_records: int, timeout_us: int, patient: bool = False, /) -> list[tuple[int, bytes]]: ...

    # Like receive, but large payloads are views of the ring itself, which hold until the next call that waits or takes.
    def borrow(
        self, max_records: int, timeout_us: int, patient: bool = False, /
    ) -> list[tuple[int, bytes | memoryview]]: ...

    # Free what was lent before the next call does.
    def end_borrowing(self) -> None: ...

    # How many records this Ring has received since the last tally, their bytes, and those of the largest.
    def tally(self) -> tuple[int, int, int]: ...

    # Wait, GIL released, until a record is ready or a wakeup came since the last wait; False at the timeout.
    def wait(self, timeout_us: int, /) -> bool: ...

    # Wake the waiter, from any thread of any attached process.
    def wakeup(self) -> None: ...

    # Call wakeup() at each event of an epoll set of edge-triggered descriptors, until stop_watching().
    def watch_fd(self, epoll_fd: int, /) -> None: ...

    # End the running watch_fd, or the next one if none runs.
    def stop_watching(self) -> None: ...

    # 0: futex, 1: spin for spin_us and then futex, 2: spin until the timeout.
    def set_waiting(self, strategy: int, spin_us: int = 1000) -> None: ...

    # Change the ring's size within ring_bytes_max, with traffic under way.
    def resize(self, ring_bytes: int, /) -> None: ...

    # Free what was lent, leave the ring and unmap it; the file stays.
    def close(self) -> None: ...
