"""Service times, sizes and counts as plain data that draws from a random source it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from random import Random


class Distribution(Protocol):
    """Something to draw numbers from."""

    def draw(self, random: Random) -> float:
        """Draw one number."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    value: float

    def draw(self, random: Random) -> float:
        """Give the value."""
        del random
        return self.value


@dataclass(frozen=True)
class Exponential:
    """Memoryless, by its mean."""

    mean: float

    def draw(self, random: Random) -> float:
        """Draw by inversion."""
        return -self.mean * math.log(1.0 - random.random())


@dataclass(frozen=True)
class Uniform:
    """Evenly between two bounds."""

    low: float
    high: float

    def draw(self, random: Random) -> float:
        """Draw between the bounds."""
        return self.low + (self.high - self.low) * random.random()


@dataclass(frozen=True)
class UniformWhole:
    """Whole numbers from ``low`` to ``high``, evenly: words per sentence."""

    low: int
    high: int

    def draw(self, random: Random) -> float:
        """Draw a whole number."""
        return float(random.randint(self.low, self.high))


@dataclass(frozen=True)
class Plus:
    """Another distribution and something that always comes on top."""

    inner: Distribution
    more: float

    def draw(self, random: Random) -> float:
        """Draw from the other and add."""
        return self.inner.draw(random) + self.more


@dataclass(frozen=True)
class Zipf:
    """Ranks 0 .. size-1 with probability proportional to 1 / (rank+1)^skew, by inverting the continuous law."""

    size: int
    skew: float = 1.0

    def draw(self, random: Random) -> float:
        """Draw a rank."""
        u = random.random()
        if self.skew == 1.0:
            return float(int((self.size + 1) ** u) - 1)
        power = 1.0 - self.skew
        return float(int((1 + u * ((self.size + 1) ** power - 1)) ** (1 / power)) - 1)


@dataclass(frozen=True)
class Chance:
    """1 with the given probability, else 0: what a filter lets pass."""

    share: float

    def draw(self, random: Random) -> float:
        """Draw 0 or 1."""
        return float(random.random() < self.share)
