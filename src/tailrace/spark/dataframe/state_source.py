"""``format("tailrace-state")``: Spark reads the states in a checkpoint, one row per key, one partition per task.

Spark makes these objects in Python processes of its own, which open the store by themselves: it must be one that
workers can reach. Values of classes that are not installed there are shown by their class's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tailrace.checkpoint.errors import NoCheckpointError
from tailrace.checkpoint.reader import CheckpointReader
from tailrace.checkpoint.shown import as_text
from tailrace.checkpoint.stores import open_store
from tailrace.errors import ConfigError, nearest
from tailrace.routing.fields import group_count, group_of
from tailrace.transport import codec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.checkpoint.manifest import Manifest

SCHEMA = "operator string, task int, key string, value string, key_group int, epoch bigint"
_OPTIONS = ("path", "epoch", "operator")
#: Operator, task, key, value, key group, epoch; a state that is not by key has neither key nor group.
Row = tuple[str, int, "str | None", str, "int | None", int]


class TaskOfState(InputPartition):  # type: ignore[misc]
    """What one Spark task reads: the state of one task as of an entry of the log."""

    def __init__(self, manifest: Manifest, operator: str, task: int) -> None:
        self.manifest = manifest
        self.operator = operator
        self.task = task


class StateSource(DataSource):  # type: ignore[misc]
    """A checkpoint. Options: ``path`` (or ``load(PATH)``), ``epoch`` (the newest if left out), and ``operator``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "tailrace-state"

    def schema(self) -> str:
        """What a row is."""
        return SCHEMA

    def reader(self, schema: Any) -> StateReader:
        """Read what the options name."""
        del schema
        for option in self.options:
            if option not in _OPTIONS:
                raise ConfigError(f"format('tailrace-state') has no option {option!r}.", nearest(option, _OPTIONS))
        path, epoch = self.options.get("path", ""), self.options.get("epoch", "")
        if not path:
            raise ConfigError("format('tailrace-state') needs the path of a checkpoint.", "Call load(PATH).")
        if epoch and not epoch.isdigit():
            raise ConfigError(f"The option 'epoch' must be a whole number; found {epoch!r}.")
        return StateReader(path, int(epoch) if epoch else None, self.options.get("operator"))


class StateReader(DataSourceReader):  # type: ignore[misc]
    """Reads the states of one entry; the entry is chosen once, so that all partitions are of one epoch."""

    def __init__(self, path: str, epoch: int | None, operator: str | None) -> None:
        self._path = path
        self._epoch = epoch
        self._operator = operator

    def partitions(self) -> Sequence[TaskOfState]:
        """One for each operator and task that has state."""
        reader = self._open()
        manifest = self._manifest(reader)
        names = [row.name for row in manifest.operators]
        if self._operator is not None and self._operator not in names:
            raise ConfigError(f"The checkpoint has no operator {self._operator!r}.", nearest(self._operator, names))
        stateful = {row.name for row in manifest.operators if row.stateful}
        wanted = stateful if self._operator is None else {self._operator}
        return [
            TaskOfState(manifest, operator, row.task)
            for row, operators in reader.tasks(manifest)
            for operator in sorted(operators & wanted)
        ]

    def _open(self) -> CheckpointReader:
        return CheckpointReader(open_store(self._path, writable=False))

    def _manifest(self, reader: CheckpointReader) -> Manifest:
        entries = reader.entries()
        for entry in entries:
            if entry.manifest is not None and self._epoch in {None, entry.manifest.epoch}:
                if entry.faults and self._epoch is not None:
                    raise entry.faults[0]
                if not entry.faults:
                    return entry.manifest
        found = ", ".join(str(entry.manifest.epoch) for entry in entries if entry.manifest is not None)
        wanted = "epoch that is whole" if self._epoch is None else f"epoch {self._epoch}"
        raise NoCheckpointError(
            f"There is no {wanted} at {self._path}; found: {found or 'none'}.",
            "tailrace state PATH lists what is there.",
        )

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Give the keys and values of one task."""
        manifest, epoch = partition.manifest, partition.manifest.epoch
        tasks = {row.name: row.tasks for row in manifest.operators}
        for state in self._open().states(manifest, partition.operator, partition.task):
            groups = group_count(tasks[state.operator], manifest.key_groups)
            for key, value in state.items():
                yield state.operator, state.task, as_text(key), as_text(value), _group(key, groups), epoch
            if state.user is not None:
                yield state.operator, state.task, None, as_text(codec.loads_here(state.user)), None, epoch


def _group(key: Any, groups: int) -> int | None:
    """The group of a key; None for one whose class is not here, whose hash nobody knows."""
    return None if isinstance(key, codec.Undecoded) else group_of(key, groups)
