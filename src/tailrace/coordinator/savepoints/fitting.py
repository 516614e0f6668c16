"""What has changed between a savepoint and the query that begins from it, and whether that is meant. Pure.

Operators are matched by name. Whatever would lose state, or give it to somebody it was not made for, is listed in one
error, with what allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.checkpoint.errors import ForeignCheckpointError, TopologyChangedError
from tailrace.errors import ConfigError, nearest
from tailrace.topology.operators import KEYED_VERBS, holds_state

from .shape import edge_rows, operator_rows, route_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.checkpoint.manifest import Manifest, OperatorRow
    from tailrace.checkpoint.savepoint import FoundSavepoint, Savepoint
    from tailrace.program.program import Program
    from tailrace.topology.operators import OperatorSpec


def check_change(restore: Savepoint, found: FoundSavepoint, program: Program, partitions: list[list[Any]]) -> bool:
    """Refuse changes that are not meant, or not possible; tells whether the state is to be dealt anew."""
    manifest = found.manifest
    name = restore.query or program.plan.name
    if manifest.query != name:
        raise ForeignCheckpointError(
            f"The savepoint at {found.store.address} is of query {manifest.query!r}; this one is {name!r}.",
            f"If the query was renamed, say so: tr.Savepoint(PATH, query={manifest.query!r}).",
        )
    _check_names(restore, manifest, program)
    wrong = _operators(restore, manifest, program) + _partitions(restore, manifest, program, partitions)
    if wrong:
        raise TopologyChangedError(
            f"The topology is another one than when the savepoint at {found.store.address} was made: "
            f"{'; '.join(what for what, _ in wrong)}.",
            f"What is meant is said with tr.Savepoint: {'; '.join(dict.fromkeys(way for _, way in wrong))}.",
        )
    differs = differences(manifest, program, partitions)
    if restore.new or restore.dropped or restore.migrate:
        differs.append("state is given up, begun or migrated")
    routed = other_routes(manifest, program)
    if (differs or routed) and not manifest.drained:
        raise TopologyChangedError(
            f"The savepoint at {found.store.address} was made while tuples were in flight, which only the topology "
            f"that made it can go on with; {', '.join(differs + routed)}.",
            "Make a drained one with query.stop(savepoint=PATH), or begin with what it was made with; other numbers of "
            "workers will do.",
        )
    return bool(differs)


def differences(manifest: Manifest, program: Program, partitions: list[list[Any]]) -> list[str]:
    """What a checkpoint with tuples in flight could not be resumed with, in words."""
    plan, found = program.plan, []
    before = {row.name: (row.verb, row.tasks) for row in manifest.operators}
    now = {row.name: (row.verb, row.tasks) for row in operator_rows(plan)}
    if before != now:
        names = sorted({name for name, _ in before.items() ^ now.items()})
        found.append(f"operators or their task counts differ: {', '.join(names)}")
    elif [row.name for row in manifest.operators] != [row.name for row in operator_rows(plan)]:
        found.append("the operators are chained or ordered otherwise")
    if manifest.edges is not None and manifest.edges != edge_rows(plan):
        found.append("the operators are connected otherwise")
    rows = [(row.number, row.operator, row.name) for row in manifest.partitions]
    if rows != [(number, plan.stages[stage].head.name, name) for number, stage, _, name in partitions]:
        found.append("the sources have other partitions")
    if manifest.key_groups not in {0, program.settings.key_groups}:
        found.append(f"key_groups was {manifest.key_groups} and is {program.settings.key_groups}")
    return found


def other_routes(manifest: Manifest, program: Program) -> list[str]:
    """What of the policy has changed so that tuples in flight would go other ways when they are sent again."""
    now = route_rows(program)
    if not manifest.routes or manifest.drained:
        return []
    return [
        f"{what} ({manifest.routes.get(what, 'no')} before, now {now.get(what, 'no')})"
        for what in sorted(now.keys() | manifest.routes.keys())
        if now.get(what) != manifest.routes.get(what)
    ]


def specs_of(program: Program) -> dict[str, OperatorSpec]:
    """The operators of a query by name."""
    return {spec.name: spec for stage in program.plan.stages for spec in stage.operators}


def _check_names(restore: Savepoint, manifest: Manifest, program: Program) -> None:
    """Refuse names that mean nothing: a change that was meant would not be made."""
    now, before = specs_of(program), {row.name for row in manifest.operators}
    _check_known("new", restore.new, now, "the topology")
    _check_known("migrate", restore.migrate, now.keys() & before, "both the topology and the savepoint")
    _check_known("dropped", restore.dropped, before, "the savepoint")
    _check_known("dropped_partitions", restore.dropped_partitions, {row.name for row in manifest.partitions}, "it")
    if both := set(restore.migrate) & {*restore.new, *restore.dropped}:
        raise ConfigError(f"The state of {min(both)!r} is both migrated and given up.", "Say one of the two.")


def _check_known(what: str, names: Iterable[str], known: Iterable[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"Savepoint {what} names {name!r}, which is not in {where}.", nearest(name, known))


def _operators(restore: Savepoint, manifest: Manifest, program: Program) -> list[tuple[str, str]]:
    """What is wrong with operators, and what would allow it."""
    before = {row.name: row for row in manifest.operators if row.stateful or row.verb == "source"}
    now = {name: spec for name, spec in specs_of(program).items() if holds_state(spec) or spec.verb == "source"}
    wrong = [
        (f"{name!r} had state and is gone", f"dropped=[{name!r}] leaves its state behind")
        for name in sorted(before.keys() - now.keys() - set(restore.dropped))
    ]
    wrong += [
        (f"{name!r} is new", f"new=[{name!r}] lets it begin empty")
        for name in sorted(now.keys() - before.keys() - set(restore.new))
    ]
    for name in sorted(before.keys() & now.keys()):
        row, spec = before[name], now[name]
        anew = name in restore.new and name in restore.dropped
        if row.verb == spec.verb or anew or (name in restore.migrate and _both_keyed(row, spec)):
            continue
        ways = f"new=[{name!r}] and dropped=[{name!r}] together let it begin empty"
        if _both_keyed(row, spec):
            ways += f", migrate={{{name!r}: fn}} makes its states by fn(key, state)"
        wrong.append((f"{name!r} was a {row.verb} and is a {spec.verb}", ways))
    return wrong


def _both_keyed(row: OperatorRow, spec: OperatorSpec) -> bool:
    return row.verb in KEYED_VERBS and spec.verb in KEYED_VERBS


def _partitions(
    restore: Savepoint, manifest: Manifest, program: Program, partitions: list[list[Any]]
) -> list[tuple[str, str]]:
    """What is wrong with partitions of sources that are in both, and what would allow it."""
    wrong: list[tuple[str, str]] = []
    before = _by_source(manifest)
    for stage in program.plan.stages:
        name = stage.head.name
        if not stage.is_source or name not in before or name in restore.new:
            continue
        now = {part for _, at, _, part in partitions if at == stage.id}
        gone = sorted(before[name] - now - set(restore.dropped_partitions))
        if stage.head.fn.divided and before[name] != now:
            what = f"source {name!r} had {len(before[name])} partitions and has {len(now)}, among which it is divided"
            wrong.append((what, f"nothing allows that, give {name!r} {len(before[name])} partitions"))
        elif gone:
            wrong.append(
                (
                    f"source {name!r} had partitions that are gone: {', '.join(gone)}",
                    f"dropped_partitions={gone!r} reads no more of them",
                )
            )
    return wrong


def _by_source(manifest: Manifest) -> dict[str, set[str]]:
    sources = {row.name for row in manifest.operators if row.verb == "source"}
    found: dict[str, set[str]] = {name: set() for name in sources}
    for row in manifest.partitions:
        if row.operator in sources:
            found[row.operator].add(row.name)
    return found
