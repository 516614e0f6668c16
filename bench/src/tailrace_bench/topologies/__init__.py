"""``tailrace bench topologies``: the papers' topologies on the runtime, placed by each policy, on several nodes.

``texts`` makes the data, ``flows`` draws the topologies (workers import it), ``arms`` runs them side by side on nodes
that are processes with host names of their own, ``cases`` says what is compared and where the bars are, ``run`` puts
the parts together.
"""

from __future__ import annotations
