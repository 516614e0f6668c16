"""The driver's feed server for DataFrames: Spark tasks ask it where to send their rows and hear from it what is done.

It listens beside the coordinator under the same secret. That a row is done comes from the coordinator's marks, which
follow what sinks have sent to the driver: a task that ends has nothing left that could be lost.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tailrace.spark.dataframe import messages
from tailrace.spark.dataframe.claims import LaneClaims
from tailrace.transport.blocking_connection import LINE_ERRORS
from tailrace.transport.reception import Reception

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.transport.blocking_connection import Line

T = TypeVar("T")

_AWAIT_S = 0.5


class FeedServer:
    """Serves the Spark tasks and workers of one query; a thread for each that has proved to be one."""

    def __init__(self, host: str, secret: bytes, frame_bytes_max: int) -> None:
        self._reception = Reception(host, secret, frame_bytes_max, "tailrace-feed server")
        self._changed = threading.Condition()
        self._feeds: dict[int, LaneClaims] = {}
        self._ended: set[int] = set()
        self._marks: Mapping[int, int] = {}
        self._over = False

    @property
    def port(self) -> int:
        """Where tasks and workers connect to."""
        return self._reception.address[1]

    def open(self, feed: int, numbers: dict[str, int]) -> None:
        """Serve the lanes of a source."""
        self._feeds[feed] = LaneClaims(numbers)

    def start(self) -> None:
        """Begin to serve."""
        self._reception.start(self._serve)

    # -- what the driver says ------------------------------------------------------------------------------------

    def marked(self, marks: Mapping[int, int]) -> None:
        """Learn which rows are done."""
        if marks != self._marks:
            with self._changed:
                self._marks = marks
                self._changed.notify_all()

    def batch_over(self, feed: int, batch: int) -> None:
        """A batch of a feed has been read to its end."""
        with self._changed:
            self._feeds[feed].batch_over(batch)

    def end(self, feed: int) -> None:
        """Nothing more comes from a feed."""
        with self._changed:
            self._ended.add(feed)
            self._changed.notify_all()

    def close(self) -> None:
        """Send everyone away."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._reception.close()

    # -- who comes -----------------------------------------------------------------------------------------------

    def _serve(self, line: Line) -> None:
        with contextlib.suppress(*LINE_ERRORS, msgspec.DecodeError):
            while not self._over:
                data = line.receive(_AWAIT_S)
                if data is None:
                    continue
                message = messages.decode_to_desk(data)
                if isinstance(message, messages.LanesUp):
                    self._attend_worker(line, message)
                    return
                line.send(messages.encode(self._answer(message)))
            line.send(messages.encode(messages.Over()))

    def _attend_worker(self, line: Line, message: messages.LanesUp) -> None:
        """Note a worker's lanes; then only the end of the feed is news for it."""
        with self._changed:
            self._feeds[message.feed].up(message.lanes, message.way)
            self._changed.notify_all()
            while not self._over and message.feed not in self._ended:
                self._changed.wait(_AWAIT_S)
        line.send(messages.encode(messages.Ended(message.feed)))
        while line.receive(_AWAIT_S) is None and not self._over:
            pass  # until the worker hangs up

    def _answer(self, message: messages.ToDesk) -> messages.FromDesk:
        with self._changed:
            match message:
                case messages.ClaimLane(feed=feed, batch=batch, partition=partition, host=host):
                    return self._claim(feed, batch, partition, host)
                case messages.Await(feed=feed, lane=name, beyond=beyond, serial=serial):
                    return self._await(feed, name, beyond, serial)
                case messages.Finished(feed=feed, batch=batch, partition=partition, rows=rows):
                    self._feeds[feed].finished(batch, partition, rows)
                    self._changed.notify_all()
                    return messages.Noted()
                case _:
                    return messages.Over()

    def _claim(self, feed: int, batch: int, partition: int, host: str) -> messages.FromDesk:
        claims = self._feeds[feed]
        held = self._until(lambda: claims.claim(batch, partition, host))
        if held is None:
            return messages.Over() if self._over else messages.Busy()
        lane = held.lane
        mark = max(held.base, self._marks.get(lane.number, 0))
        return messages.Granted(lane.name, held.base, mark, lane.serial, _known(lane.way), held.rows)

    def _await(self, feed: int, name: str, beyond: int, serial: int) -> messages.FromDesk:
        lane = self._feeds[feed].lanes[name]
        self._until(lambda: self._marks.get(lane.number, 0) > beyond or lane.serial != serial or None)
        if self._over:
            return messages.Over()
        return messages.LaneState(self._marks.get(lane.number, 0), lane.serial, _known(lane.way))

    def _until(self, found: Callable[[], T | None]) -> T | None:
        """Wait for a little while until something is there."""
        deadline_s = time.monotonic() + _AWAIT_S
        while not self._over:
            answer = found()
            left_s = deadline_s - time.monotonic()
            if answer is not None or left_s <= 0:
                return answer
            self._changed.wait(left_s)
        return None


def _known(way: messages.Way | None) -> messages.Way:
    return way if way is not None else messages.Way("", ("", 0))
