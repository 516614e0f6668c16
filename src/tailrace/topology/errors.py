"""Everything that can be wrong with a topology, one class each; raised while drawing it or by ``validate``.

Both come before Spark starts. All of them are the user's to fix, so all exit the command line with the same code.
"""

from __future__ import annotations

from ..errors import TailraceError


class TopologyError(TailraceError):
    """Base: the topology as drawn cannot run."""

    exit_code = 2


class EmptyTopologyError(TopologyError):
    """There is no source, or nothing at all."""


class CycleError(TopologyError):
    """A tuple could come back to an operator it has passed."""


class DanglingStreamError(TopologyError):
    """A stream leads nowhere, or an edge starts or ends at something that does not exist."""


class DuplicateNameError(TopologyError):
    """Two operators have the same name."""


class OperatorNameError(TopologyError):
    """A name given to an operator or topology is no usable name."""


class TaskCountError(TopologyError):
    """The number of tasks is not a whole number within the limits."""


class OptionError(TopologyError):
    """An operator was given an option it does not have, or a value out of the option's range."""


class ErrorPolicyError(TopologyError):
    """``on_error`` is none of the known policies, or dead letters are read from an operator that makes none."""


class NotCallableError(TopologyError):
    """Something given as a function, operator, source or sink is none, or takes other arguments than it will get."""


class NotShippableError(TopologyError):
    """A function holds on to something that cannot travel to another process."""


class PlaceholderError(TopologyError):
    """An end of the topology waits for a DataFrame that it was not given."""


class GroupingError(TopologyError):
    """A grouping does not fit the operators at its two ends."""


class UnionError(TopologyError):
    """Streams of different topologies, or a stream with itself, cannot be united."""


class MissingFieldError(TopologyError):
    """A value lacks the field that ``key_by`` was given by name."""
