"""Reads checkpoints from outside a query: which epochs there are, whether they are whole, and the states in them.

``tailrace state``, ``format("tailrace-state")`` and savepoints use it. Blocking; only reads, so it may look into the
checkpoint of a query that runs, whose old epochs go away meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.checkpoint.errors import CheckpointError
from tailrace.checkpoint.log import PARTS, ManifestLog
from tailrace.checkpoint.objects import faults_of, missing, read_object
from tailrace.checkpoint.part import decode_part
from tailrace.checkpoint.stores.errors import ObjectMissingError
from tailrace.state.gathered import gathered
from tailrace.state.named import user_key
from tailrace.transport import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.checkpoint.manifest import Manifest, TaskRow
    from tailrace.checkpoint.part import TaskPart, WorkerPart
    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.state.snapshot import KeyedPart, OperatorSnapshot


class FoundEntry(NamedTuple):
    """One entry of the log as it was found; without a manifest it cannot be read, and ``faults`` says why."""

    number: int
    manifest: Manifest | None
    faults: tuple[CheckpointError, ...]


@dataclass
class OperatorState:
    """The state of one operator in one task, put together from the objects that it was written to."""

    operator: str
    task: int
    #: Values as they are, and values that were encoded one by one; a key is in one of them.
    values: dict[Any, Any] = field(default_factory=dict)
    encoded: dict[Any, bytes] = field(default_factory=dict)
    #: What ``snapshot()`` of the user's object gave, encoded; None where there is no such object.
    user: bytes | None = None
    #: How many objects have something of it, and how many bytes of them.
    parts: int = 0
    size_bytes: int = 0

    def __len__(self) -> int:
        return len({user_key(key) for keys in (self.values, self.encoded) for key in keys})

    def add(self, snapshot: OperatorSnapshot) -> None:
        """Take in what a further part says; the oldest comes first."""
        self.parts += 1
        self.user = snapshot.user
        self.size_bytes += 0 if snapshot.user is None else len(snapshot.user)
        for keyed in snapshot.keyed:
            self._add_keyed(keyed)

    def _add_keyed(self, keyed: KeyedPart) -> None:
        self.size_bytes += len(keyed.values) + len(keyed.encoded) + len(keyed.deleted)
        if keyed.since is None and keyed.groups is None:
            self.values.clear()
            self.encoded.clear()
        for found, own, other in (
            (keyed.values, self.values, self.encoded),
            (keyed.encoded, self.encoded, self.values),
        ):
            for key, value in codec.loads_here(found).items() if found else ():
                other.pop(key, None)
                own[key] = value
        for key in codec.loads_here(keyed.deleted) if keyed.deleted else ():
            self.values.pop(key, None)
            self.encoded.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values, decoded as far as their classes are here; declared states are a dict by their names."""
        yield from gathered(self._entries(), codec.loads_here)

    def _entries(self) -> Iterator[tuple[Any, Any]]:
        yield from self.values.items()
        for key, data in self.encoded.items():
            yield key, codec.loads_here(data)


class CheckpointReader:
    """One checkpoint, looked at from outside."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._log = ManifestLog(store)

    def entries(self) -> list[FoundEntry]:
        """All entries, the newest first, with what is missing; objects are not read."""
        found = [self._entry(number) for number in reversed(self._log.numbers())]
        there = {each.name for each in self._store.list(PARTS)}
        entries = [_without(entry, there) for entry in found if entry is not None]
        left = set(self._log.numbers())  # a query that runs may have retired some meanwhile, and their objects
        return [entry for entry in entries if entry.number in left]

    def _entry(self, number: int) -> FoundEntry | None:
        try:
            return FoundEntry(number, self._log.read(number), ())
        except CheckpointError as error:
            return FoundEntry(number, None, (error,))
        except ObjectMissingError:
            return None

    def faults(self, manifest: Manifest) -> list[CheckpointError]:
        """What is wrong with the objects of an entry; reads them all."""
        return faults_of(self._store, manifest)

    def part(self, name: str) -> WorkerPart:
        """What one worker wrote; raises if it is missing or not whole."""
        return decode_part(read_object(self._store, name), name)

    def tasks(self, manifest: Manifest) -> list[tuple[TaskRow, frozenset[str]]]:
        """The tasks with state, each with the operators that it may have state of."""
        heads = {row.operator for row in manifest.tasks}
        of_head: dict[str, set[str]] = {}
        head = ""
        for row in manifest.operators:  # in the order of the stages, and the first of each is its head
            head = row.name if row.name in heads else head
            of_head.setdefault(head, set()).add(row.name)
        return [(row, frozenset(of_head.get(row.operator, {row.operator}))) for row in manifest.tasks]

    def states(
        self, manifest: Manifest, operator: str | None = None, task: int | None = None
    ) -> Iterator[OperatorState]:
        """The states of an entry, of one operator or of all, of one task or of all."""
        wanted = [
            (row, names)
            for row, names in self.tasks(manifest)
            if task in {None, row.task} and (operator is None or operator in names)
        ]
        uses = _uses(row for row, _ in wanted)
        held: dict[str, WorkerPart] = {}
        for row, names in wanted:
            found: dict[str, OperatorState] = {}
            for name in row.objects:
                held[name] = part = held[name] if name in held else self.part(name)
                for state in found.values():
                    state.user = None  # an object's state is whole in each part, and gone when its task has ended
                for known, snapshot in _of(part, row.task, names):
                    if operator in {None, known}:
                        found.setdefault(known, OperatorState(known, row.task)).add(snapshot)
                uses[name] -= 1
                if not uses[name]:  # an object of a worker holds all of its tasks: keep it while one needs it
                    del held[name]
            yield from found.values()


def _without(entry: FoundEntry, there: set[str]) -> FoundEntry:
    if entry.manifest is None:
        return entry
    return entry._replace(faults=tuple(missing(name) for name in sorted(entry.manifest.objects - there)))


def _uses(rows: Iterable[TaskRow]) -> dict[str, int]:
    uses: dict[str, int] = {}
    for row in rows:
        for name in row.objects:
            uses[name] = uses.get(name, 0) + 1
    return uses


def _of(part: WorkerPart, task: int, operators: frozenset[str]) -> Iterator[tuple[str, OperatorSnapshot]]:
    """The operators of one task in a part."""
    found: Iterable[TaskPart] = (each for each in part.tasks if each.snapshot.task == task)
    for each in found:
        for name, snapshot in each.snapshot.operators.items():
            if name in operators:
                yield name, snapshot
