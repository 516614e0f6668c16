"""What can go wrong at the edges of a topology: inputs that cannot be read, outputs that take no more."""

from __future__ import annotations

from ..errors import TailraceError


class ConnectError(TailraceError):
    """Base: a source cannot read or a sink cannot write."""

    exit_code = 4

    @classmethod
    def every(cls) -> list[type[ConnectError]]:
        """List this error and all that derive from it: a worker's error is made again on the driver by its name."""
        return [cls, *(each for kind in cls.__subclasses__() for each in kind.every())]


class ConnectorOptionError(ConnectError):
    """A source or sink was made with an argument it cannot work with."""

    exit_code = 2


class NoInputError(ConnectError):
    """There is nothing to read where the source was told to look."""


class InputChangedError(ConnectError):
    """An input is not what it was, so offsets in it no longer mean the same records."""


class LineTooLongError(ConnectError):
    """A line is longer than the limit, which is most often a sign of an input that has no lines."""


class InputEncodingError(ConnectError):
    """Bytes of an input are no text in the encoding it was said to have."""


class OutputError(ConnectError):
    """A sink cannot write a value or cannot write at all."""


class OutputExistsError(OutputError):
    """There are results of an earlier query where a sink is to write, and it was not said what to do with them."""


class CollectLimitError(ConnectError):
    """More values were collected than the driver was meant to hold."""


class SchemaError(ConnectError):
    """Base: rows and the schema they are held against differ."""


class WrongSchemaError(SchemaError):
    """A schema cannot be read, or a value or column is of another type than it says."""


class UnreadableTypeError(WrongSchemaError):
    """A column is of a type that Spark has and for which there are no values outside of it."""


class MissingColumnError(SchemaError):
    """A column that is needed is not there."""


class NullValueError(SchemaError):
    """A null stands where none may be."""


class SpoolError(ConnectError):
    """The folder of a table cannot be written, read, or is someone else's."""


class ArrowMissingError(ConnectError):
    """DataFrames need pyarrow, and it is not installed."""

    exit_code = 6


class LookupTableError(ConnectError):
    """A DataFrame cannot serve as a lookup table."""
