"""Finds the topology in a user's file, for ``tailrace run``. The only module that runs the file's code.

What the file defines, and modules beside it that it imports, travels to the workers by value: executors need not have
the file.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from tailrace.errors import TailraceError, nearest
from tailrace.topology.beside import ship_beside
from tailrace.topology.graph import Topology

from . import errors

FLOW_NAME = "flow"
#: In front of the file's own name, so that a file called ``random.py`` does not stand in for the standard module.
MODULE_PREFIX = "tailrace_run_"
_EXAMPLE = "Put for example flow = tr.Topology('name') at the top level of the file."


def load_flow(target: str) -> Topology:
    """Load ``FILE`` or ``FILE:NAME`` and return its topology."""
    path, name = split_target(target)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing"
        raise errors.FlowFileMissingError(
            f"Expected a Python file at {str(path)!r}, found {what} there.", "Give the path as FILE or FILE:NAME."
        )
    module = _load(path)
    return _named(module, path, name) if name else _only(module, path)


def split_target(target: str) -> tuple[Path, str]:
    """Part the name after the last colon from the file; a file whose name has the colon comes first."""
    file, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).exists():
        return Path(file), name
    return Path(target), ""


def _load(path: Path) -> ModuleType:
    folder = path.resolve().parent
    name = MODULE_PREFIX + "".join(letter if letter.isalnum() else "_" for letter in path.stem)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    sys.path.insert(0, str(folder))  # as python FILE does
    _execute(path, module)
    cloudpickle.register_pickle_by_value(module)  # wherever it lies
    ship_beside(folder)
    return module


def _execute(path: Path, module: ModuleType) -> None:
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise errors.FlowSyntaxError(
            f"{path}{where} is no Python that {sys.version_info[0]}.{sys.version_info[1]} reads: {error}.",
            f"python {path} shows the place.",
        ) from error
    try:
        exec(code, module.__dict__)  # noqa: S102 - running the user's file is what was asked for
    except TailraceError:
        raise
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f", line {frames[-1].lineno}," if frames else ""
        raise errors.FlowImportError(
            f"{path}{where} raised {type(error).__name__} while it was loaded: {error}.",
            "The file should only draw the topology; put what starts it under if __name__ == '__main__'.",
        ) from error


def _named(module: ModuleType, path: Path, name: str) -> Topology:
    if not hasattr(module, name):
        known = _topologies(module)
        hint = nearest(name, known) if known else _EXAMPLE
        raise errors.NoFlowError(f"Expected a topology called {name!r} in {path}, found no such name.", hint)
    found = getattr(module, name)
    if callable(found):
        found = _called(found, path, name)
    if isinstance(found, Topology):
        return found
    raise errors.NoFlowError(
        f"Expected {name!r} in {path} to be a topology or a function that returns one, "
        f"found {type(found).__module__}.{type(found).__qualname__}.",
        _EXAMPLE,
    )


def _called(function: Any, path: Path, name: str) -> object:
    try:
        return function()
    except TailraceError:
        raise
    except Exception as error:
        raise errors.FlowImportError(
            f"{name}() in {path} raised {type(error).__name__}: {error}.",
            "A function that makes a topology is called without arguments.",
        ) from error


def _only(module: ModuleType, path: Path) -> Topology:
    if hasattr(module, FLOW_NAME):
        return _named(module, path, FLOW_NAME)
    found = _topologies(module)
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise errors.NoFlowError(f"Expected a topology in {path}, found none.", _EXAMPLE)
    raise errors.SeveralFlowsError(
        f"Expected one topology in {path}, found {len(found)}: {', '.join(found)}.",
        f"Name one, for example {path}:{next(iter(found))}.",
    )


def _topologies(module: ModuleType) -> dict[str, Topology]:
    """The module's topologies by name; of two names for the same one the first."""
    found: dict[int, tuple[str, Topology]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Topology):
            found.setdefault(id(value), (name, value))
    return dict(found.values())
