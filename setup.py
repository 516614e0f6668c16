"""Build what is native: the C extensions, and the modules of native/compiled.txt; the rest is in pyproject.toml.

All of it is optional. Without a C compiler the package installs all the same: workers of one node talk over Unix
sockets, and everything runs as the Python that it is. ``TAILRACE_PURE=1`` leaves the compiled modules out.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

RING = ("map", "peers", "protocol", "side", "wait", "watch", "face_send", "face_receive", "face_span", "face_wait")
HOT = ("common", "bundles", "roots", "pack", "unpack", "weigh")
#: The library that holds the compiled modules; each module is a small extension of its own that asks it.
GROUP = "tailrace"


def compiled_modules() -> list[Extension]:
    """The modules that mypyc turns into C; none where it is missing or does not like them."""
    if os.environ.get("TAILRACE_PURE"):
        return []
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - the build goes on without it
    except ImportError:
        return []
    lines = Path("native/compiled.txt").read_text(encoding="utf-8").splitlines()
    sources = [line for line in lines if line and not line.startswith("#")]
    # Checking is `make lint`'s work: the build sees no other packages, and only what it compiles.
    options = ["--config-file=", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]
    options += ["--explicit-package-bases"]
    os.environ["MYPYPATH"] = "src"
    try:
        extensions: list[Extension] = mypycify([*options, *sources], opt_level="2", debug_level="0", group_name=GROUP)
    except SystemExit:
        logging.getLogger("tailrace").warning("mypyc did not compile: workers run as plain Python")
        return []
    for extension in extensions:
        extension.optional = True
    return extensions


class BuildNative(build_ext):
    """Builds the extensions, with the compiled modules among them."""

    def finalize_options(self) -> None:
        """Compile to C now: everything else that setuptools is asked for does without."""
        self.distribution.ext_modules += compiled_modules()
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        """Build; then leave no compiled module without the library behind it, for it could not be imported."""
        super().run()
        built = {extension.name: Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions}
        library = built.get(f"{GROUP}__mypyc")
        if library is not None and not library.exists():
            for name, path in built.items():
                if name not in {"tailrace._hot", "tailrace.transport._ring"}:
                    path.unlink(missing_ok=True)


setup(
    cmdclass={"build_ext": BuildNative},
    ext_modules=[
        Extension(
            "tailrace.transport._ring",
            sources=["native/ringmodule.c", *(f"native/ring_{part}.c" for part in RING)],
            depends=["native/ring.h", "native/ring_face.h"],
            include_dirs=["native"],
            extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        ),
        Extension(
            "tailrace._hot",
            sources=["native/hotmodule.c", *(f"native/hot_{part}.c" for part in HOT)],
            depends=["native/hot.h"],
            include_dirs=["native"],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        ),
    ],
)
