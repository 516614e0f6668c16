"""Modules that lie beside a user's script travel to the workers by value: executors need not have the files.

``tr.start`` asks for those beside the script that Python runs, ``tailrace run`` for those beside the file it was given.
Installed packages, extensions and Python's own modules travel by name, as ever.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import cloudpickle

_INSTALLED = {"site-packages", "dist-packages"}
#: Where executors must have the same anyway, wherever it lies.
_NEVER = {"tailrace", "tailrace_bench", "pyspark", "py4j", "cloudpickle"}


def ship_beside(folder: Path) -> None:
    """Let all modules that were imported from a folder, or from below it, travel by value."""
    own = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and _lies_beside(module, folder, own):
            cloudpickle.register_pickle_by_value(module)


def ship_beside_script() -> None:
    """Let the modules beside the script that Python runs travel by value; there is none in a shell or a notebook."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file:
        ship_beside(Path(file).resolve().parent)


def _lies_beside(module: ModuleType, folder: Path, own: list[Path]) -> bool:
    """Tell whether a module came from the user's folder and is no installed package, which that folder may hold too."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or module.__name__ == "__main__" or module.__name__.partition(".")[0] in _NEVER:
        return False
    where = Path(file).resolve()
    if where.suffix != ".py":  # an extension has no functions that could travel by value
        return False
    if folder not in where.parents or _INSTALLED & set(where.parts):
        return False
    return sys.modules.get(module.__name__) is module and not any(each in where.parents for each in own)
