"""The benches behind ``tailrace bench NAME``: each runs its arms in turn, several times, and reports ratios.

``registry`` finds a ``bench`` by name. ``arms`` are what is compared, ``peers`` the part of them that runs without
Tailrace, ``flows`` the topologies they run; ``measurement`` takes the windows, ``reporting`` makes rows, tables
and plots. ``comparison``, ``dataframe``, ``migrate``, ``scale``, ``metrics``, ``ring``, ``tails``, ``topologies``,
``lever`` and ``placement`` measure what their names say; ``papers`` holds the figures against what the papers claim.
A distribution of its own: nothing in the runtime imports it, and the ``tailrace`` command finds it by entry point.
"""
