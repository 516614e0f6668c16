"""What can be wrong with the file given to ``tailrace run``, with the options, the run itself or the installation."""

from __future__ import annotations

from tailrace.coordinator.errors import StartError
from tailrace.errors import TailraceError


class FlowFileError(TailraceError):
    """Base: the file given to ``tailrace run`` gives no topology to run."""

    exit_code = 2


class FlowFileMissingError(FlowFileError):
    """There is no such file."""


class FlowSyntaxError(FlowFileError):
    """The file is no Python that this interpreter reads."""


class FlowImportError(FlowFileError):
    """The file raised while it was loaded."""


class NoFlowError(FlowFileError):
    """The file has no topology, or none by the name asked for."""


class SeveralFlowsError(FlowFileError):
    """The file has several topologies and none was named."""


class MasterError(TailraceError):
    """The file has started Spark already, so a master can no longer be chosen."""

    exit_code = 2


class SparkStartError(StartError):
    """Spark itself did not start."""

    exit_code = 6


class DemoError(TailraceError):
    """The demo lost a sentence or miscounted: a defect of Tailrace."""

    exit_code = 7


class DoctorError(TailraceError):
    """Something that Tailrace cannot do without is missing here."""

    exit_code = 6


class CommandMissingError(TailraceError):
    """The command is in a distribution that is not installed, such as ``tailrace-bench``."""

    exit_code = 6
