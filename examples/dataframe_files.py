"""Files -> topology -> Parquet, in one PySpark program.

    python examples/dataframe_files.py IN.parquet OUT.parquet

The chain below keeps no state, so it runs inside the Spark tasks that read the files. Put a ``key_by(...)`` in it and
the same line runs it through workers.
"""

import sys
from dataclasses import dataclass

import tailrace as tr


@dataclass
class Sentence:
    """A row of the input; the columns are checked against it before anything runs."""

    id: int
    text: str


@dataclass
class Words:
    """A row of the output; its schema comes from here."""

    id: int
    words: int
    longest: str


def count(sentence: Sentence) -> Words:
    words = sentence.text.split()
    return Words(sentence.id, len(words), max(words, key=len, default=""))


def main(source: str, target: str) -> None:
    spark = tr.spark_session("files", master="local[2]")
    flow = tr.Topology("words")
    flow.input(Sentence).map(count).filter(lambda row: row.words > 0).output(Words)
    flow.apply(spark.read.parquet(source)).write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
