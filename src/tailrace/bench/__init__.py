"""The benches behind ``tailrace bench NAME``: each runs its arms in turn, several times, and reports ratios.

``arms`` are what is compared, ``peers`` the part of them that runs without Tailrace, ``rows`` and ``report`` the
arithmetic and the paper it is written on. Nothing in the engine imports this room.
"""
