"""``tailrace bench migrate``: what moving tasks and key groups costs under load, and what it gains.

``flow`` is the query of all cases, ``run`` the bench with the cases [stateless] and [keyed]; ``hot_key`` and
``relief`` have the cases in which the rebalancing loop decides by itself.
"""

from __future__ import annotations
