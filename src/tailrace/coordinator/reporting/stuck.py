"""Who does not come back: what workers say of stuck user code, for the progress, ``status``, ``explain()`` and errors.

Pure; asked by the brain, the progress book and the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.coordinator.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.coordinator.membership import Member

#: Rows that the progress shows; the longest first.
ROWS_MAX = 32
_INDENT = "      "


def stuck_rows(members: Mapping[int, Member]) -> list[dict[str, Any]]:
    """Operator, task, worker, seconds and stack of each piece of user code that does not come back."""
    rows: list[dict[str, Any]] = [
        {"operator": call.operator, "task": call.task, "worker": slot, "seconds": call.seconds, "stack": call.stack}
        for slot, member in members.items() if member.alive
        for call in member.stuck.calls
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row["seconds"])[:ROWS_MAX]


def explained(members: Mapping[int, Member]) -> list[str]:
    """The section of ``explain()``: a line each, and the stack below it."""
    rows = stuck_rows(members)
    lines = ["", "Stuck"] if rows else []
    for row in rows:
        whose = f"{row['operator']}[{row['task']}] on worker {row['worker']}"
        lines.append(f"  {whose}: has not come back for {row['seconds']:,.1f} s")
        lines += [f"{_INDENT}{line}" for line in row["stack"].splitlines()]
    return lines


def told_of(member: Member) -> str:
    """What a worker said last of its user code, as a sentence to add to an error."""
    if not member.stuck.calls:
        return ""
    call = member.stuck.calls[0]
    return f" Operator {call.operator!r}, task {call.task}, had not come back for {call.seconds:,.0f} s then."


def named(members: Mapping[int, Member]) -> str:
    """Who is stuck, as a sentence to add to an error; empty where nobody is."""
    rows = stuck_rows(members)
    shown = [f"{row['operator']}[{row['task']}] on worker {row['worker']} for {row['seconds']:,.0f} s" for row in rows]
    return f" Not come back: {', '.join(shown)}." if shown else ""


def _waited_for(members: Mapping[int, Member]) -> list[str]:
    """Who has not opened: the operator and task where the worker has said so, else the worker."""
    return [
        f"{call.operator!r}, task {call.task}, on worker {slot} ({member.peer.host}) for {call.seconds:,.0f} s"
        if member.stuck.calls and (call := member.stuck.calls[0])
        else f"worker {slot} ({member.peer.host})"
        for slot, member in sorted(members.items())
        if not member.open
    ]


def waited_for(members: Mapping[int, Member]) -> str:
    """What a query that starts waits for, for its ``status``; empty unless some ``open()`` takes its time."""
    stuck = any(member.stuck.calls for member in members.values() if not member.open)
    return f": {'; '.join(_waited_for(members))}" if stuck else ""


def not_opened(members: Mapping[int, Member], limit_s: float) -> StartError:
    """The error of a query whose workers have all registered and do not all open their operators."""
    stacks = [f"\n{call.stack}" for member in members.values() if not member.open for call in member.stuck.calls[:1]]
    return StartError(
        f"All workers registered, and not all opened their operators within {limit_s:.0f} s; still waited for: "
        f"{'; '.join(_waited_for(members))}.",
        "Look at open() of these operators and at what their sources open, or raise register_timeout_s."
        + "".join(stacks),
    )
