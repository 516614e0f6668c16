"""Writes the tables of docs/settings.md and docs/exit-codes.md from the sources: ``python -m tailrace.cli.reference``.

Settings come from ``config.py`` with their ``#:`` comments, exit codes from the classes of errors. A test holds that
the pages say the same as the sources.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from pathlib import Path

from tailrace import config
from tailrace.errors import TailraceError

from .main import EXIT_UNEXPECTED

PACKAGE = Path(__file__).parents[1]
DOCS = Path(__file__).parents[3] / "docs"
COMMAND = "python -m tailrace.cli.reference"
END = "<!-- end of table -->"
_FIELD = re.compile(r"((?:^    #: .*\n)*)^    (\w+): \w+ = ", re.MULTILINE)
_ERROR = re.compile(r"^class \w+Error\(", re.MULTILINE)
#: The end of a name gives the unit; the longest that fits counts.
_UNITS = {
    "_s": "seconds",
    "_ms": "milliseconds",
    "_us": "microseconds",
    "_bytes": "bytes",
    "_bytes_max": "bytes",
    "_bytes_per_s": "bytes per second",
    "_tuples": "tuples",
    "_port": "port",
}
_PLAIN = {
    "placement": "Where tasks are placed when a query starts; see [placement](placement.md).",
    "routing": "To which task of an operator a shuffled tuple goes; see [policies](policies.md).",
    "chaining": "Whether operators that need no exchange run as one task.",
}


def tables() -> dict[str, dict[str, str]]:
    """The generated tables: per page, by the name of their marker."""
    return {
        "settings.md": {"Settings": settings_table(config.Settings), "Policy": settings_table(config.Policy)},
        "exit-codes.md": {"exit codes": exit_table()},
    }


def settings_table(cls: type) -> str:
    """One row per field: name, default, unit or choices, meaning."""
    comments = {
        name: " ".join(line.strip().removeprefix("#:").strip() for line in text.splitlines())
        for text, name in _FIELD.findall(inspect.getsource(cls))
    }
    lines = ["| name | default | unit or choices | what it means |", "|---|---|---|---|"]
    for field in dataclasses.fields(cls):
        meaning = comments.get(field.name) or _PLAIN.get(field.name, "")
        lines.append(f"| `{field.name}` | `{_shown(field.default)}` | {_unit(field)} | {_cell(meaning)} |")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _unit(field: dataclasses.Field[object]) -> str:
    choices = config.KNOWN_POLICIES.get(field.name) or config._CHOICES.get(field.name)  # noqa: SLF001 - its own page
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    if isinstance(field.default, bool):
        return "`True`, `False`"
    ends = [end for end in _UNITS if field.name.endswith(end)]
    return _UNITS[max(ends, key=len)] if ends else "number"


def exit_table() -> str:
    """One row per exit code, with the errors that end a command by it."""
    by_code: dict[int, list[type[TailraceError]]] = {}
    for error in sorted(_errors(), key=lambda each: each.__name__):
        by_code.setdefault(error.exit_code, []).append(error)
    lines = ["| code | errors |", "|---|---|", "| 0 | none: the command did what was asked |"]
    for code, errors in sorted(by_code.items()):
        said = "; ".join(f"`{error.__name__}`: {_cell(_summary(error))}" for error in errors)
        lines.append(f"| {code} | {said} |")
    lines.append(f"| {EXIT_UNEXPECTED} | an error without a name: a mistake in Tailrace; `--debug` shows where |")
    lines.append("| 130 | interrupted by Ctrl-C |")
    return "\n".join(lines)


def _errors() -> set[type[TailraceError]]:
    for path in PACKAGE.rglob("*.py"):
        if _ERROR.search(path.read_text(encoding="utf-8")):
            importlib.import_module(".".join(("tailrace", *path.relative_to(PACKAGE).with_suffix("").parts)))
    found: set[type[TailraceError]] = set()
    waiting = [TailraceError]
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if error.__module__.startswith("tailrace"):
            found.add(error)
    return found


def _summary(error: type) -> str:
    """The first line of a class's docstring, read from its source: a compiled class may have none."""
    path = PACKAGE.parent.joinpath(*error.__module__.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == error.__name__]
    return (ast.get_docstring(found) or "").partition("\n")[0].rstrip(".")


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def filled(page: str, parts: dict[str, str]) -> str:
    """A page with its tables in place."""
    for name, table in parts.items():
        begin = f"<!-- {name}: written by {COMMAND} -->"
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}\n{table}\n{rest[rest.index(END) :]}"
    return page


def main() -> None:
    """Write all tables into their pages."""
    for name, parts in tables().items():
        path = DOCS / name
        path.write_text(filled(path.read_text(encoding="utf-8"), parts), encoding="utf-8")


if __name__ == "__main__":
    main()
