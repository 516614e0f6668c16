"""``tailrace state PATH``: what lies in a checkpoint, its epochs, operators, keys and values.

Reads only, and needs neither Spark nor the query's code: what cannot be decoded here is shown by its class's name. What
is broken is named and makes the exit code; all else is listed nevertheless.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from tailrace.checkpoint.errors import CheckpointError, NoCheckpointError
from tailrace.checkpoint.reader import CheckpointReader
from tailrace.checkpoint.shown import as_json, as_text
from tailrace.checkpoint.stores import open_store
from tailrace.errors import ConfigError, nearest
from tailrace.transport import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.reader import FoundEntry, OperatorState

#: Keys shown unless told otherwise.
LIMIT = 20
_ENTRY = ("entry", "kind", "epoch", "attempt", "written (UTC)", "drained", "objects", "state")


@dataclass(frozen=True)
class StateOptions:
    """What was asked for on the command line."""

    path: str
    epoch: int | None = None
    operator: str | None = None
    key: str | None = None
    limit: int = LIMIT
    check: bool = False
    as_json: bool = False


class Findings:
    """What was found, to be shown as tables or as JSON."""

    def __init__(self, options: StateOptions) -> None:
        self._options = options
        self._reader = CheckpointReader(open_store(options.path, writable=False))
        self.entries = self._reader.entries()
        if not self.entries:
            raise NoCheckpointError(
                f"There is no checkpoint at {options.path}: its log has no entry.", "Is it the path that the query has?"
            )
        if options.check:
            self.entries = [self._checked(entry) for entry in self.entries]
        self.shown = self._chosen()
        self.states: list[OperatorState] = []
        self.fault: CheckpointError | None = None
        if self.shown is not None:
            try:
                self.states = list(self._reader.states(self.shown, options.operator))
            except CheckpointError as error:
                self.fault = error

    def _checked(self, entry: FoundEntry) -> FoundEntry:
        if entry.manifest is None:
            return entry
        return entry._replace(faults=tuple(self._reader.faults(entry.manifest)))

    def _chosen(self) -> Manifest | None:
        """The entry asked for, or the newest that is whole as far as is known."""
        options, readable = self._options, [entry for entry in self.entries if entry.manifest is not None]
        if options.epoch is None:
            chosen = next((entry.manifest for entry in readable if not entry.faults), None)
        else:
            epochs = [entry.manifest.epoch for entry in readable if entry.manifest is not None]
            if options.epoch not in epochs:
                known = ", ".join(str(each) for each in dict.fromkeys(epochs)) or "none that can be read"
                raise ConfigError(f"The checkpoint has no epoch {options.epoch}; it has {known}.")
            chosen = readable[epochs.index(options.epoch)].manifest
        if chosen is not None and options.operator is not None:
            names = [row.name for row in chosen.operators]
            if options.operator not in names:
                raise ConfigError(
                    f"The checkpoint has no operator {options.operator!r}.", nearest(options.operator, names)
                )
        return chosen

    def rows(self) -> Iterator[tuple[OperatorState, Any, Any]]:
        """Keys and values of the operator asked for; the state of an object has no key."""
        wanted = self._options.key
        for state in self.states:
            for key, value in state.items():
                if wanted is None or as_text(key) == wanted:
                    yield state, key, value
            if state.user is not None and wanted is None:
                yield state, None, codec.loads_here(state.user)

    def failure(self) -> CheckpointError | None:
        """What the command leaves with: the first thing that is broken, of the newest entry that has any."""
        faults = [fault for entry in self.entries for fault in entry.faults]
        return self.fault or (faults[0] if faults else None)


def show_state(options: StateOptions) -> None:
    """Show a checkpoint; raises what is broken in it once everything else is shown."""
    if options.key is not None and options.operator is None:
        raise ConfigError("--key needs --operator: keys are those of one operator.", "For example --operator counts.")
    found = Findings(options)
    if options.as_json:
        typer.echo(json.dumps(_as_json(found, options), indent=1, ensure_ascii=False))
    else:
        _show(Console(), found, options)
    failure = found.failure()
    if failure is not None:
        raise failure
    if options.key is not None and next(found.rows(), None) is None:
        raise ConfigError(f"The operator {options.operator!r} has no key {options.key!r}.")


def _show(console: Console, found: Findings, options: StateOptions) -> None:
    named = next((entry.manifest.query for entry in found.entries if entry.manifest is not None), "an unknown query")
    if options.operator is None:
        table = Table(*_ENTRY, title=f"Checkpoint of {_literal(named)}")
        for entry in found.entries:
            table.add_row(*_entry_cells(entry, found))
        console.print(table)
    if found.shown is None or found.fault is not None:
        return
    if options.operator is None:
        console.print(_operators(found))
        return
    rows = Table("task", "key", "value", title=f"{options.operator}, epoch {found.shown.epoch}")
    for state, key, value in islice(found.rows(), options.limit):
        rows.add_row(str(state.task), _literal(as_text(key)), _literal(as_text(value)))
    console.print(rows)
    total = sum(len(state) for state in found.states)
    if options.key is None and total > options.limit:
        console.print(f"{options.limit} of {total:,} keys; --limit shows more, --key one.", highlight=False)


def _operators(found: Findings) -> Table:
    epoch = 0 if found.shown is None else found.shown.epoch
    table = Table("operator", "task", "keys", "bytes", "parts", "object", title=f"Epoch {epoch}")
    for state in found.states:
        has = "" if state.user is None else "yes"
        table.add_row(
            _literal(state.operator), str(state.task), f"{len(state):,}", f"{state.size_bytes:,}", str(state.parts), has
        )
    return table


def _entry_cells(entry: FoundEntry, found: Findings) -> list[str]:
    manifest, faults = entry.manifest, list(entry.faults)
    if found.fault is not None and manifest is not None and manifest is found.shown:
        faults.append(found.fault)
    state = "; ".join(_literal(fault.message) for fault in faults) or "whole"
    if manifest is None:
        return [str(entry.number), "", "", "", "", "", "", state]
    written = datetime.fromtimestamp(manifest.created_unix_s, timezone.utc).strftime("%y-%m-%d %H:%M:%S")
    return [
        str(entry.number), manifest.kind, str(manifest.epoch), str(manifest.attempt), written,
        "yes" if manifest.drained else "no", str(len(manifest.objects)), state,
    ]  # fmt: skip


def _literal(text: str) -> str:
    return text.replace("[", r"\[")


def _as_json(found: Findings, options: StateOptions) -> dict[str, Any]:
    told: dict[str, Any] = {
        "entries": [
            {
                "entry": entry.number,
                **({} if entry.manifest is None else _manifest_json(entry.manifest)),
                "faults": [fault.message for fault in entry.faults],
            }
            for entry in found.entries
        ],
        "epoch": None if found.shown is None else found.shown.epoch,
        "fault": None if found.fault is None else found.fault.message,
        "operators": [
            {
                "operator": state.operator,
                "task": state.task,
                "keys": len(state),
                "bytes": state.size_bytes,
                "parts": state.parts,
                "object": state.user is not None,
            }
            for state in found.states
        ],
    }
    if options.operator is not None:
        told["rows"] = [
            {"task": state.task, "key": as_json(key), "value": as_json(value)}
            for state, key, value in islice(found.rows(), options.limit)
        ]
    return told


def _manifest_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "kind": manifest.kind,
        "query": manifest.query,
        "epoch": manifest.epoch,
        "attempt": manifest.attempt,
        "written_unix_s": manifest.created_unix_s,
        "drained": manifest.drained,
        "objects": sorted(manifest.objects),
    }
