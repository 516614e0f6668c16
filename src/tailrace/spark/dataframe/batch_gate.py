"""Ends a Structured Streaming query between two of its batches, and quietly where a batch has to be interrupted.

Called by ``feed``, one gate per stream. Spark finds out whether a ``foreachBatch`` was interrupted by matching the
Python traceback with a regular expression that recurses for every character: a traceback that carries Java's stack
overflows the stack of the stream's thread. So what leaves a batch that a stop cut short is one short line, and it
leaves only when Spark knows of the stop.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL_S = 0.01
#: How long Spark may take to note a batch that has ended, and to learn that it is to stop.
_SPARK_S = 10.0
#: The words by which Spark knows an interruption; without them it logs the stop as a failure of the query.
_INTERRUPTED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: java.lang.InterruptedException: "
    "the query is stopping"
)


class BatchInterruptedError(Exception):
    """A batch was not read to its end because the query stops; Spark reads it again when it is resumed."""

    def __init__(self) -> None:
        super().__init__(_INTERRUPTED)


class BatchGate:
    """Knows whether a batch is under way, and lets none in once the stream is to end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._refused = 0
        self._shut = False
        self._stream: Any = None

    def shut(self) -> None:
        """Let no further batch begin."""
        with self._changed:
            self._shut = True

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Run a batch inside; one that fails while the stream is to end counts as interrupted."""
        with self._changed:
            self._running += 1
        try:
            self.check()
            yield
        except Exception:
            self._leave()
            if not self._shut:
                raise
            self._wait_for_stop()
            raise BatchInterruptedError from None
        self._leave()

    def check(self) -> None:
        """Go no further if the stream is to end."""
        with self._changed:
            if self._shut:
                self._refused += 1
                self._changed.notify_all()
                raise BatchInterruptedError

    def end(self, stream: Any, patience_s: float) -> None:
        """Stop a stream when its batch has ended, or after so long while it is under way."""
        self.shut()
        deadline_s = time.monotonic() + patience_s
        with self._changed:
            self._changed.wait_for(lambda: not self._running, patience_s)
        if patience_s > 0 and time.monotonic() < deadline_s:
            self._wait_for_commit(stream)
        _silence_interruptions()
        self._stream = stream
        with contextlib.suppress(Exception):  # Spark may be gone, or the stream may have failed already
            stream.stop()

    def _leave(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _wait_for_commit(self, stream: Any) -> None:
        """Wait until Spark has noted the last batch: it rests then, or has come with the next."""
        deadline_s = time.monotonic() + _SPARK_S
        with contextlib.suppress(Exception):
            while stream.isActive and not self._refused and stream.status["isTriggerActive"]:
                if time.monotonic() > deadline_s:
                    return
                time.sleep(_POLL_S)

    def _wait_for_stop(self) -> None:
        """Wait until Spark has been told: before that, whatever leaves a batch fails the query."""
        deadline_s = time.monotonic() + _SPARK_S
        with contextlib.suppress(Exception):
            while time.monotonic() < deadline_s and (self._stream is None or self._stream.isActive):
                time.sleep(_POLL_S)


class _Interruptions(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BatchInterruptedError))


_FILTER = _Interruptions()


def _silence_interruptions() -> None:
    """Py4J logs whatever leaves a call from Java with its traceback; an interruption that was asked for is no news."""
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_FILTER)  # adding it again does nothing
