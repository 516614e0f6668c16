"""Build the optional C extension; everything else is in pyproject.toml.

Without a C compiler the package installs all the same and workers of one node talk over Unix sockets.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "tailrace.transport._ring",
            sources=["native/ringmodule.c"],
            depends=["native/ring.h"],
            include_dirs=["native"],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        ),
    ],
)
