"""Build the optional C extensions; everything else is in pyproject.toml.

Without a C compiler the package installs all the same: workers of one node talk over Unix sockets, and
the innermost loops run in Python.
"""

from setuptools import Extension, setup

RING = ("map", "peers", "protocol", "side", "wait", "watch", "face_send", "face_receive", "face_span", "face_wait")
HOT = ("common", "bundles", "roots", "pack", "unpack")

setup(
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
