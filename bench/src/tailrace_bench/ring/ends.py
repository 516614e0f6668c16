"""One end of a pair, a process of its own: sends messages when they are due, or tells how late those that come are.

Run by ``pair`` as ``python -m tailrace_bench.ring.ends ROLE KIND ADDRESS RING_BYTES``; commands come in as lines
of JSON, an answer line goes out for each. A message is {due time in ns, filling, its number}; the clock is
CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from typing import Any

from tailrace_bench.peers.child import end_with_parent

from .channels import Receiver, Sender, open_receiver, open_sender

_WORD = struct.Struct("<q")
_LEAD_NS = 20_000_000
LAST = -1


def offer(sender: Sender, size: int, period_ns: int, spin_ns: int, count: int) -> dict[str, Any]:
    """Send so many messages, each when it is due, late ones at once; each carries when it was due."""
    message, number_at = sender.prepare(size), size - _WORD.size
    now_ns, send, pack = time.monotonic_ns, sender.send, _WORD.pack_into
    due_ns = now_ns() + _LEAD_NS
    for number in range(count):
        rest_ns = due_ns - now_ns() - spin_ns
        if rest_ns > 0:
            time.sleep(rest_ns / 1e9)
        pack(message, number_at, number)
        pack(message, 0, due_ns)
        while now_ns() < due_ns:
            pass
        send()
        due_ns += period_ns
    return {"sent": count}


def flood(sender: Sender, size: int, seconds: float) -> dict[str, Any]:
    """Send as fast as it goes; the last message says that it is the last."""
    message, number_at = sender.prepare(size), size - _WORD.size
    pack, send = _WORD.pack_into, sender.send
    number, stop_ns = 0, time.monotonic_ns() + int(seconds * 1e9)
    while time.monotonic_ns() < stop_ns:
        for _ in range(16):
            pack(message, number_at, number)
            send()
            number += 1
    pack(message, number_at, number)
    pack(message, 0, LAST)
    send()
    return {"sent": number + 1}


def take_latencies(receiver: Receiver, size: int, count: int) -> dict[str, Any]:
    """Receive so many messages and tell, in ns, how long after its due time each was there as a whole."""
    late_ns: list[int] = []
    now_ns, due_in = time.monotonic_ns, _WORD.unpack_from
    while len(late_ns) < count:
        messages = receiver.receive()
        arrived_ns = now_ns()
        for _, message in messages:
            late_ns.append(arrived_ns - due_in(message, 0)[0])
            check(message, size, len(late_ns) - 1)
    return {"late_ns": late_ns}


def take_flood(receiver: Receiver, size: int) -> dict[str, Any]:
    """Receive until the last message; tells how many came in how long, from the first one on."""
    number, began_ns = 0, 0
    while True:
        messages = receiver.receive()
        began_ns = began_ns or time.monotonic_ns()
        for _, message in messages:
            check(message, size, number)
            number += 1
        if _WORD.unpack_from(messages[-1][1], 0)[0] == LAST:
            return {"received": number, "seconds": (time.monotonic_ns() - began_ns) / 1e9}


def check(message: bytes | memoryview, size: int, number: int) -> None:
    """Refuse a message that is not the next one, whole."""
    if len(message) != size or _WORD.unpack_from(message, size - _WORD.size)[0] != number:
        raise ValueError(f"message {number} of {size} bytes was expected, another one came")


def main(role: str, kind: str, address: str, ring_bytes: str) -> None:
    """Open the end and do what is asked until the input ends."""
    end_with_parent()
    sender = open_sender(kind, address) if role == "send" else None
    receiver = open_receiver(kind, address, int(ring_bytes)) if role == "receive" else None
    _say({"up": role})
    for line in sys.stdin:
        asked = json.loads(line)
        do, size = asked["do"], asked["size"]
        if sender is not None:
            found = (
                offer(sender, size, asked["period_ns"], asked["spin_ns"], asked["count"])
                if do == "latency"
                else flood(sender, size, asked["seconds"])
            )
        elif receiver is not None:
            _say({"listening": 1})
            found = take_latencies(receiver, size, asked["count"]) if do == "latency" else take_flood(receiver, size)
        _say(found)


def _say(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
