"""The named errors of placement: files that cannot be read, names that are not known, and room that is not there.

Every module of this folder raises these and nothing else on purpose; the command line prints them.
"""

from __future__ import annotations

from tailrace.errors import ConfigError, TailraceError


class PlacementError(TailraceError):
    """Base of everything placement refuses."""

    exit_code = 5


class UnknownPolicyError(ConfigError):
    """No placement policy has this name, or the policy has no such option."""


class NodeSpecError(ConfigError):
    """Nodes are described in a way that cannot be read, or twice by one name."""


class TopologyFileError(PlacementError):
    """A topology file does not follow the documented schema."""


class GraphFileError(PlacementError):
    """A METIS graph file is malformed."""


class CyclicGraphError(PlacementError):
    """A policy that needs a topological order was given a graph with a cycle."""


class CapacityError(PlacementError):
    """The tasks do not fit on the nodes."""


class BalanceError(PlacementError):
    """Tasks were placed, but a node carries more than the bound that was asked for."""

    exit_code = 9


class PartitionerMissingError(PlacementError):
    """The optional METIS binding is not installed."""
