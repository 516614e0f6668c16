"""Topologies on a virtual clock: the runtime's policies, with nodes, links and service times that are made up.

``model`` says what is simulated, ``engine`` runs it, ``scenarios`` holds the papers' and our own, ``cli`` is the
command ``tailrace simulate``. Routing, sending, receiving and acking policies are imported, never
copied.
"""
