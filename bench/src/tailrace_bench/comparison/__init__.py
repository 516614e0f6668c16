"""``tailrace bench wordcount`` and ``exclaim``: Tailrace beside the bare loop and Bytewax.

``measure`` lets the arms take turns, ``rows`` holds them against each other, ``run`` makes the benches.
"""

from __future__ import annotations
