"""Bytes to lines of text with their byte offsets, a block at a time; shared by the file and the socket source.

All work per line is done by C code of the standard library (split, accumulate, decode): Python runs once per block.
"""

from __future__ import annotations

import codecs
from itertools import accumulate, repeat
from operator import add
from typing import Any

from tailrace.topology.contracts import Unreadable

from ..errors import nearest
from .errors import ConnectorOptionError, InputEncodingError, LineTooLongError

LINE_BYTES_MAX = 16 * 1024 * 1024


#: What is done with bytes that are no text, as ``open`` calls it.
ERRORS = ("strict", "replace", "ignore")


def check_errors(errors: str) -> None:
    """Refuse what is no way of treating bytes that are no text."""
    if errors not in ERRORS:
        raise ConnectorOptionError(
            f"errors must be one of {', '.join(ERRORS)}; found {errors!r}.", nearest(str(errors), ERRORS)
        )


def check_encoding(encoding: str) -> None:
    """Refuse encodings that do not exist, and those in which a line end is not the one byte this module looks for."""
    try:
        line_end = "\n".encode(encoding)
    except (LookupError, TypeError):
        raise ConnectorOptionError(
            f"encoding must be one that Python knows, found {encoding!r}.", "Use for example 'utf-8' or 'latin-1'."
        ) from None
    if line_end != b"\n":
        raise ConnectorOptionError(
            f"encoding must have single-byte line ends, and {codecs.lookup(encoding).name} has {line_end!r}.",
            "Convert the input to UTF-8 first, for example with iconv.",
        )


class LineSplitter:
    """Cuts consecutive blocks into lines; what comes after the last line end waits for the next block."""

    def __init__(self, where: str, encoding: str, base: int, errors: str = "strict") -> None:
        self._where = where
        self._encoding = encoding
        self._errors = errors
        self._tail = b""
        self.base = base  #: the offset of the first byte that is in no line yet

    def skip(self, count: int) -> None:
        """Leave out the next bytes of the input; only between lines."""
        self.base += count

    def feed(self, block: bytes) -> tuple[list[Any], list[int]]:
        """Take a block in and return the lines that are complete now, with the offsets at which they start."""
        cut = block.rfind(b"\n")
        if cut < 0:
            self._tail += block
            if len(self._tail) > LINE_BYTES_MAX:
                place = f"byte {self.base:,} of {self._where}"
                raise LineTooLongError(
                    f"A line may have up to {LINE_BYTES_MAX:,} bytes, and the one at {place} has more.",
                    "Check that this is a text with line ends; binary and compressed inputs are not read as lines.",
                )
            return [], []
        chunk = self._tail + block[:cut]
        self._tail = block[cut + 1 :]
        return self._lines(chunk)

    def finish(self) -> tuple[list[Any], list[int]]:
        """Return the last line if the input does not end in a line end."""
        chunk, self._tail = self._tail, b""
        return self._lines(chunk) if chunk else ([], [])

    def _lines(self, chunk: bytes) -> tuple[list[Any], list[int]]:
        raw = chunk.split(b"\n")
        offsets = list(map(add, accumulate(map(len, raw), initial=self.base), range(len(raw))))
        lines: list[Any]
        try:
            lines = list(map(bytes.decode, raw, repeat(self._encoding), repeat(self._errors)))
        except UnicodeDecodeError:  # one by one, to tell which
            lines = list(map(self._line, raw, offsets))
        self.base += len(chunk) + 1
        if b"\r" in chunk:
            lines = [line.removesuffix("\r") if isinstance(line, str) else line for line in lines]
        return lines, offsets

    def _line(self, raw: bytes, offset: int) -> str | Unreadable:
        try:
            return raw.decode(self._encoding, self._errors)
        except UnicodeDecodeError as error:
            return Unreadable(
                raw,
                InputEncodingError(
                    f"{self._where} should be {self._encoding} text, and byte {offset + error.start:,} is "
                    f"0x{raw[error.start]:02x}: {error.reason}.",
                    "Give the right encoding= (encoding='latin-1' reads any bytes) or errors='replace', or the source "
                    "on_error='skip' or 'dead_letter' to go on without such lines.",
                ),
            )
