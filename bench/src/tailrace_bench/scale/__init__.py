"""``tailrace bench scale``: how cost grows with tasks and workers.

``simulated`` gives the coordinator's brain the reports of many workers, ``run`` measures the rest.
"""

from __future__ import annotations
