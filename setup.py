"""Build the optional C extensions; everything else is in pyproject.toml.

Without a C compiler the package installs all the same: workers of one node talk over Unix sockets, and
the innermost loops run in Python.
"""

from setuptools import Extension, setup

RING_SOURCES = ["ringmodule", "ring_map", "ring_peers", "ring_protocol", "ring_side", "ring_wait", "ring_watch"]

setup(
    ext_modules=[
        Extension(
            "tailrace.transport._ring",
            sources=[f"native/{name}.c" for name in RING_SOURCES],
            depends=["native/ring.h"],
            include_dirs=["native"],
            extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        ),
        Extension(
            "tailrace._hot",
            sources=["native/hotmodule.c"],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        ),
    ],
)
