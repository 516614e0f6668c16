"""The loop of a worker: waits, moves bytes, runs user code, and lets the brain decide. Thin on purpose.

Tasks run in the loop's thread, one after the other, because that is cheapest. A task that holds the loop for longer
than ``handoff_ms`` gets the thread it sits in for itself, and a new thread takes the loop over: a watchdog sees to
that, so a blocking function stalls its node_peers once, and only for that long. The watchdog also tells the coordinator
of user code that does not come back (``stuck``).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from tailrace.program.errors import LeaseLostError
from tailrace.protocol import Deploy, Leave, PeerUp
from tailrace.transport.waiting import sharpen_timers
from tailrace.worker.execution.executors import AWAITED_TASK, AsyncThread, Returns, TaskThread, run_piece
from tailrace.worker.execution.stall_watchdog import Call, CallWatch, LoopThread
from tailrace.worker.execution.task import CloseWork, TickWork, Work

from .stuck import StuckWatch, told_at_end

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.transport.connections import Connections
    from tailrace.worker.checkpoint.shadows import ShadowReader
    from tailrace.worker.checkpoint.writer import PartWriter
    from tailrace.worker.execution.task import Task

    from .brain import WorkerBrain
    from .control import ControlLine

_SWITCH_S = 0.0005
_PIECES_PER_ROUND = 16
_HOUSEKEEPING_S = 0.05
#: How often the watchdog looks at least, however patient ``handoff_ms`` is.
_LOOK_S = 0.5
_NS_PER_S = 1_000_000_000


class WorkerLoop:
    """Runs one worker until the coordinator says stop, the lease runs out or something fails."""

    def __init__(
        self,
        brain: WorkerBrain,
        connections: Connections,
        control: ControlLine,
        settings: Settings,
        writer: PartWriter | None = None,
        reader: ShadowReader | None = None,
    ) -> None:
        self._brain = brain
        #: Writes parts of checkpoints, where the query has some, and reads those of others for a standby.
        self._writer = writer
        self._reader = reader
        self._connections = connections
        self._control = control
        self._settings = settings
        self._returns = Returns(connections.wakeup)
        self._threads: dict[Task, TaskThread] = {}
        self._async: AsyncThread | None = None
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._owner = 0
        self._calling: Call | None = None
        # Below its lease by far, so that a worker whose user code computes for long is not taken for lost.
        self._watch = CallWatch(settings.handoff_ms, min(settings.stuck_after_s, settings.lease_s / 4))
        self._stuck = StuckWatch(self, brain, control, settings.stuck_after_s)
        self._loop_thread = LoopThread()
        self._next_housekeeping_s = 0.0
        self._main_ident = threading.get_ident()
        #: When the loop came round last, by ``time.monotonic``.
        self.round_s = time.monotonic()
        #: Tasks whose user code had not come back when the worker ended.
        self.left_behind: set[Task] = set()

    def run(self) -> None:
        """Run to the end; the calling thread is the watchdog. Raises what ended the loop, if anything did."""
        # A task's thread must not keep the loop waiting for Python's lock longer than this.
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            self._start_loop()
            self._watch_over()
            self._end_threads()
        finally:
            sys.setswitchinterval(switch_s)  # the process may go on to other work
        if self._error is not None:
            raise self._error

    def _watch_over(self) -> None:
        handoff_s = self._settings.handoff_ms / 1000
        next_s = time.monotonic() + handoff_s
        while not self._ended.wait(min(handoff_s, _LOOK_S)):
            if (now_s := time.monotonic()) >= next_s:
                next_s = now_s + handoff_s
                self._hand_off_if_stuck()
            self._stuck.look(now_s)

    def _end_threads(self) -> None:
        """End all threads of user code, so that ``close()`` runs beside none; whoever does not come back is told."""
        self._returns.end()
        for thread in self._threads.values():
            thread.stop()
        if self._async is not None:
            self._async.stop()
        deadline_s = time.monotonic() + self._settings.close_timeout_s
        for task, thread in self._threads.items():
            if not thread.join(max(0.0, deadline_s - time.monotonic())):
                self.left_behind.add(task)
        if self._async is not None and not self._async.join(max(0.0, deadline_s - time.monotonic())):
            self.left_behind.update(task for task in self._brain.tasks if task.mode == "async")
        told_at_end(self, self._brain, self.left_behind)

    # -- asked by other threads ----------------------------------------------------------------------------------

    def thread_of(self, work: Work) -> int | None:
        """The thread that runs a piece of work; None where it waits for one, or is awaited."""
        calling = self._calling
        if calling is not None and calling.work is work:
            return calling.thread.ident
        thread = self._threads.get(work.task)
        return None if thread is None else thread.thread.ident

    @property
    def async_ident(self) -> int | None:
        """The thread of the event loop, if there is one."""
        return None if self._async is None else self._async.thread.ident

    @property
    def loop_ident(self) -> int:
        """The thread that has the loop."""
        return self._loop_thread.ident

    @property
    def in_a_call(self) -> bool:
        """Whether the loop runs a piece of work."""
        return self._calling is not None

    def at_work(self) -> tuple[str, int] | None:
        """The operator and task whose code the calling thread runs, if it runs any."""
        ident = threading.get_ident()
        calling = self._calling
        task: Task | None = None
        if calling is not None and calling.thread.ident == ident:
            task = calling.work.task
        elif ident in {self._loop_thread.ident, self._main_ident}:
            return self._brain.at_hand
        else:
            threads = list(self._threads.items())
            task = next((each for each, thread in threads if thread.thread.ident == ident), None) or AWAITED_TASK.get()
        return None if task is None else (task.chain.at.operator, task.index)

    # -- the loop ------------------------------------------------------------------------------------------------

    def _start_loop(self) -> None:
        self._owner += 1
        threading.Thread(target=self._serve, name=f"tailrace-loop-{self._owner}", daemon=True).start()

    def _hand_off_if_stuck(self) -> None:
        calling = self._calling
        if calling is None or not self._watch.stuck(calling):
            return
        with self._lock:
            if not self._in(calling):
                return
            self._calling = None
            if calling.work.task.mode == "inline":  # the values of an awaited operator are still awaited
                calling.work.task.mode = "thread"
            self._threads[calling.work.task] = TaskThread(self._returns, calling.work.task.name, calling.thread.thread)
            self._start_loop()

    def _serve(self) -> None:
        self._loop_thread = LoopThread()
        sharpen_timers()
        try:
            while not self._brain.stopped and not self._ended.is_set():
                if not self._round():
                    return  # the loop went on in another thread while a task kept this one
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._error = error
        self._ended.set()

    def _round(self) -> bool:
        """Once around: take in, work, send, wait. False when this thread has lost the loop to another."""
        brain, connections = self._brain, self._connections
        if messages := connections.poll():
            for message in messages:
                brain.on_message(message)
            connections.end_borrowing()
        if connections.control_ready:
            connections.control_ready = False
            self._take_orders()
        if self._returns:
            for work in self._returns.take():
                brain.finish(work)
        idle = False
        for _ in range(_PIECES_PER_ROUND):
            next_work = brain.next_work()
            if next_work is None:
                idle = True
                break
            if not self._carry_out(next_work):
                return False
        brain.flush(idle=idle)
        if self._writer is not None:
            self._writer.exchange(brain)
        if self._reader is not None:
            self._reader.attend(brain.shadows)
        self._housekeeping()
        # Handing over within the worker may have made work.
        if idle and not brain.has_ready and (wait_us := brain.wait_us()):
            connections.wait(wait_us, patient=brain.patient)
        return True

    def _take_orders(self) -> None:
        for message in self._control.poll():
            self._brain.on_control(message)
            if isinstance(message, Deploy):
                self._control.excuse()  # a user's open() may take longer than a lease
                self._brain.wake_with(self._connections.wakeup)
                for peer in message.peers:
                    self._connections.introduce(peer)
            elif isinstance(message, PeerUp):
                self._connections.introduce(message.peer)
            elif isinstance(message, Leave):
                self._connections.forget(message.slot)

    def _carry_out(self, work: Work) -> bool:
        task = work.task
        if task.mode == "async" and not isinstance(work, TickWork | CloseWork):
            self._async = self._async or AsyncThread(self._returns)
            self._async.submit(work)
            return True
        thread = self._threads.get(task)
        if task.mode == "thread" or thread is not None:
            if thread is None:
                thread = self._threads[task] = TaskThread(self._returns, task.name)
            thread.submit(work)
            return True
        calling = Call(work, self._loop_thread)
        self._calling = calling
        run_piece(work)
        with self._lock:
            if self._in(calling):
                self._calling = None
                self._brain.finish(work)
                return True
        self._returns.put(work)
        self._threads[task].serve()
        return False

    def _in(self, calling: Call) -> bool:
        """Whether the loop is still in this call; asked here, because another thread may say otherwise meanwhile."""
        return self._calling is calling

    def _housekeeping(self) -> None:
        now_s = time.monotonic()
        last_s, self.round_s = self.round_s, now_s
        late_ns = self._brain.late_ns
        late = late_ns is not None and now_s * _NS_PER_S >= late_ns
        if now_s < self._next_housekeeping_s and not self._brain.control_out and not late:
            return
        self._next_housekeeping_s = now_s + _HOUSEKEEPING_S
        brain = self._brain
        brain.on_time()
        for slot in self._connections.reconnected:
            brain.on_reconnect(slot)
        self._connections.reconnected.clear()
        self._connections.cut_off_silent()
        for task in brain.moved_away():
            if (thread := self._threads.pop(task, None)) is not None:
                thread.stop()
        while brain.control_out:
            self._control.send(brain.control_out.popleft())
        brain.told_driver(self._control.waiting_bytes)
        if now_s - last_s > self._settings.lease_s / 2:
            self._control.excuse()  # it was user code on this loop that did not listen
        if self._control.silent_s > self._settings.lease_s:
            raise LeaseLostError(
                f"The coordinator was silent for {self._control.silent_s:.1f} s; "
                f"the lease is {self._settings.lease_s} s.",
                "Spark starts this worker again; if it happens often, look at the driver's load and the network.",
            )
