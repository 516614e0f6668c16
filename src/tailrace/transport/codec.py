"""Values to bytes and back, with every type kept exactly; the only module that unpickles.

Batches of one plain type, or of tuples of plain types, go through msgspec with a decoder built for the types seen;
whatever else a user has goes through pickle. ``message_codec`` has plain batches encoded natively where it can, to the
same bytes. Bytes reach this module only from peers that have proved the secret.
"""

from __future__ import annotations

import io
import pickle
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cloudpickle
import msgspec

from tailrace.batch import Batch, from_bytes, to_bytes
from tailrace.errors import ShareError

if TYPE_CHECKING:
    from typing_extensions import Self

_LETTER: dict[type, str] = {str: "s", int: "i", float: "f", bytes: "y", bool: "b"}
_TYPE: dict[str, Any] = {letter: kind for kind, letter in _LETTER.items()}
_encode = msgspec.msgpack.Encoder().encode
_COUNT = struct.Struct("<I")
#: Parts of a tuple that a signature names; its length is one byte.
_PLACES_MAX = 250

#: Heads on the wire are little-endian numbers in a row.
encode_heads, decode_heads = to_bytes, from_bytes


def signature(values: list[Any]) -> str:
    """Name the common type of the values: a letter, letters in brackets for tuples, empty for anything else."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return ""
    kind = kinds.pop()
    letter = _LETTER.get(kind)
    if letter is not None:
        return letter
    if kind is not tuple:
        return ""
    shapes = {tuple(map(type, value)) for value in values}
    if len(shapes) != 1:
        return ""
    letters = [_LETTER.get(part, "") for part in shapes.pop()]
    return f"({''.join(letters)})" if letters and all(letters) and len(letters) <= _PLACES_MAX else ""


@lru_cache(maxsize=256)
def _decoder(sig: str) -> msgspec.msgpack.Decoder[Any]:
    value: Any
    if not sig:
        values: Any = bytes
    elif sig[0] == "(":
        value = tuple[tuple(_TYPE[letter] for letter in sig[1:-1])]  # type: ignore[misc]
        values = list[value]
    else:
        value = _TYPE[sig]
        values = list[value]
    return msgspec.msgpack.Decoder(tuple[list[int] | None, values])


def encode_batch(batch: Batch) -> bytes:
    """Encode a batch: the signature, the heads, each with its length in front, then sizes and values."""
    heads = encode_heads(batch.heads)
    sig = signature(batch.values)
    if sig:
        try:
            body = _encode((batch.sizes, batch.values))
        except (OverflowError, UnicodeEncodeError, ValueError):
            sig = ""  # an integer over 64 bits or a lone surrogate: pickle carries them
    if not sig:
        body = _encode((batch.sizes, dumps(batch.values)))
    return b"".join((bytes((len(sig),)), sig.encode(), _COUNT.pack(len(heads)), heads, body))


def decode_batch(payload: memoryview) -> Batch:
    """Decode what ``encode_batch`` made."""
    at = 1 + payload[0]
    sig = str(payload[1:at], "ascii")
    begin = at + _COUNT.size
    end = begin + _COUNT.unpack_from(payload, at)[0]
    sizes, values = _decoder(sig).decode(payload[end:])
    if not sig:
        values = pickle.loads(values)  # noqa: S301 - the peer has proved the secret
    return Batch(values, sizes, decode_heads(payload[begin:end]))


def dumps(value: Any) -> bytes:
    """Pickle anything a user has; classes that live in ``__main__`` travel by value."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return]
        except Exception as error:
            raise ShareError(
                f"A value of type {type(value).__name__} cannot travel between workers: {error}.",
                "Emit plain data, or an object that pickle can carry.",
            ) from error


def loads(data: bytes | memoryview) -> Any:
    """Unpickle bytes of a peer that has proved the secret."""
    return pickle.loads(data)  # noqa: S301


def dumps_by_value(value: Any) -> bytes:
    """Pickle something that holds a user's functions: they travel by value where they must."""
    return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return]


class Undecoded:
    """Stands for an object whose class is not here: its name, and what it was made of. Equal if all of that is."""

    name = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._made_of: list[Any] = [*args, *([kwargs] if kwargs else [])]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Take whatever the class would have been made with; unpickling calls nothing else."""
        made = super().__new__(cls)
        made._made_of = [*args, *([kwargs] if kwargs else [])]
        return made

    def __setstate__(self, state: Any) -> None:
        self._made_of.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._made_of.append((key, value))

    def append(self, value: Any) -> None:
        """Take what a list would hold."""
        self._made_of.append(value)

    def extend(self, values: Any) -> None:
        """Take what a list would hold."""
        self._made_of.extend(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undecoded) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"<{self.name} {', '.join(map(repr, self._made_of))}>" if self._made_of else f"<{self.name}>"


class _Lenient(pickle.Unpickler):
    """Has a stand-in for every class that cannot be imported."""

    def find_class(self, module: str, name: str) -> Any:
        """Import a class, or make a stand-in."""
        try:
            return super().find_class(module, name)
        except Exception:  # noqa: BLE001 - a module of a user's may raise anything
            return type(name, (Undecoded,), {"name": f"{module}.{name}"})


def loads_here(data: bytes | memoryview) -> Any:
    """Unpickle what was written in another process, with ``Undecoded`` for objects of classes that are not here."""
    return _Lenient(io.BytesIO(data)).load()
