"""What can stand in the way on the Spark side, each with the way out."""

from __future__ import annotations

from tailrace.coordinator.errors import StartError


class JavaMissingError(StartError):
    """Spark needs Java, and there is none."""

    exit_code = 6


class SparkConnectError(StartError):
    """A Spark Connect session has no driver to host a coordinator in."""

    exit_code = 6


class SpeculationError(StartError):
    """Speculation would start second copies of long-lived tasks."""

    exit_code = 6


class SlotsError(StartError):
    """The application has fewer task slots than workers were asked for."""

    exit_code = 6


class PySparkMemoryError(StartError):
    """The address-space limit of Python workers is too small for the rings."""

    exit_code = 6


class NotOnExecutorsError(StartError):
    """Executors cannot import Tailrace."""

    exit_code = 6


class InterpreterError(NotOnExecutorsError):
    """Executors run a Python that cannot host workers."""


class StoppedSessionError(StartError):
    """The session was stopped before the query started."""

    exit_code = 6


class HostingJobError(StartError):
    """The Spark job that hosts the workers failed."""

    exit_code = 6


class FeedError(StartError):
    """Rows of a DataFrame could not be handed to the workers."""


class OtherSessionError(StartError):
    """A DataFrame belongs to another session than the query."""

    exit_code = 6


class NotApplicableError(StartError):
    """A topology cannot be applied to a DataFrame as it is drawn."""

    exit_code = 2
