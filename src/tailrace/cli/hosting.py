"""A Spark for the length of one command, without its noise: what the JVM prints goes to a file, shown on failure only.

``demo`` and ``run`` use it. With ``--debug`` nothing is kept from the terminal.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.errors import StartError, WorkerLostError

from .errors import SparkStartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

_SHOWN_LINES_MAX = 40
_REASON_CHARS_MAX = 300


@contextlib.contextmanager
def hosted(workers: int, master: str | None, *, debug: bool) -> Iterator[Any]:
    """Start Spark (embedded, or on a master), give the session and end it; tell why where it fails."""
    from tailrace.spark.session import end_embedded, end_jvm, jvm_runs  # noqa: PLC0415 - so that --help needs no Spark

    anothers = jvm_runs()
    with _log_file(debug=debug) as log:
        spark = None
        try:
            spark = _started(workers, master, log)
            yield spark
        except (StartError, WorkerLostError):
            _show_end_of(log)
            raise
        finally:
            # A JVM that died has nothing left to stop, and why it did is already on its way to the user.
            with contextlib.suppress(Exception):
                if spark is not None:
                    end_embedded(spark)
                if not anothers:
                    end_jvm()


@contextlib.contextmanager
def _log_file(*, debug: bool) -> Iterator[IO[bytes] | None]:
    if debug:
        yield None
        return
    # Py4J reports every call that a Ctrl-C or a dying JVM cuts short; whoever made the call hears of it anyway.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with tempfile.NamedTemporaryFile(prefix="tailrace-spark-", suffix=".log") as log:
        yield log


def _started(workers: int, master: str | None, log: IO[bytes] | None) -> Any:
    from tailrace.spark.session import LIGHT, embedded, spark_session  # noqa: PLC0415

    try:
        if master is None:
            return embedded(workers, log)
        return spark_session(master=master, config=LIGHT if master.startswith("local") else {}, log=log)
    except StartError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise SparkStartError(
            f"Spark did not start on {master or 'this machine'}: {lines[0][:_REASON_CHARS_MAX]}",
            "Look at what Spark printed; tailrace --debug shows all of it, tailrace doctor what it needs.",
        ) from error


def _show_end_of(log: IO[bytes] | None) -> None:
    if log is None:
        return
    with Path(log.name).open(encoding="utf-8", errors="replace") as text:
        lines = deque(text, maxlen=_SHOWN_LINES_MAX)
    if lines:
        sys.stderr.write(f"Spark printed (the last {len(lines)} lines):\n")
        sys.stderr.writelines(f"  {line.rstrip()}\n" for line in lines)
