"""What the papers claim, run here: ``tailrace papers`` runs every claim of ``claims.toml`` and writes docs/results.

``claims`` reads the file, ``jobs`` are the simulations and benches behind it, ``runner`` runs them and remembers,
``verdict`` judges, ``pages`` and ``plots`` write; ``watch`` compares ratios with those of an earlier commit. Nothing in
the engine imports this room.
"""
