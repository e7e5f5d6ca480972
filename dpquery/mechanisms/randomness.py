"""Random bits of the operating system, as uniform integers: the only door for chance (I10).

It knows bits and bounds, and no law of any mechanism. There is no seed, and no bit is kept
between two calls: nothing can be shared by threads, or by parent and child after a fork.

A source may break (all zeros, say). Then no loop here or in a sampler may hang, and no value
may leave with noise that is none. So two lanes of each block are compared, and each loop
ends after `ROUNDS` rounds, with `broken`. Neither costs any privacy: both depend on the random
bits alone and never on data, and with honest bits either happens with probability below
2^-128. One loop learns of the data between its rounds (`FittedPaths.draw`), and so needs some
more of them: tens, at the epsilons for which calls choose it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpquery.errors import Diagnostic, InternalError

ROUNDS = 512
"""In no loop does a value need another round with probability above 0.6: 0.6^512 is below
2^-377, which leaves 2^-128 even for 2^249 values."""

LANE = 32
"""Two lanes of 32 honest bytes are equal with probability 2^-256."""

DIGIT = 63
"""Bits of a digit where an integer passes what one signed word of 64 bits holds."""

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Randomness:
    """Uniform and independent integers; tests replace `_bytes` and nothing else."""

    __slots__ = ()

    def _bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def _block(self, count: int) -> bytes:
        try:
            block = self._bytes(max(count, 2 * LANE))
        except (OSError, NotImplementedError):
            raise broken() from None
        if block[:LANE] == block[LANE : 2 * LANE]:
            raise broken()
        return block

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Draw words of 64 bits."""
        return np.frombuffer(self._block(8 * count), dtype=np.uint64, count=count)

    def coins(self, count: int) -> Bools:
        """Toss fair coins."""
        block = np.frombuffer(self._block(-(-count // 8)), dtype=np.uint8)
        return np.unpackbits(block, count=count).view(np.bool_)

    def below(self, bound: int) -> int:
        """Draw one integer from 0 to bound - 1, for a bound of any size.

        Raises:
            InternalError: DPQ902, the source looks broken.
        """
        bits = _bits(bound)
        size = -(-bits // 8)
        for _ in range(ROUNDS):
            value = int.from_bytes(self._block(size)[:size], "little") >> (8 * size - bits)
            if value < bound:
                return value
        raise broken()

    def below_many(self, bound: int, count: int) -> Int64s:
        """Draw many integers from 0 to bound - 1, for a bound of at most 2^63."""
        if bound > 1 << DIGIT:
            raise ValueError("the bound does not fit in one digit")
        drawn: Int64s = self.digits_below(bound, count)[0]
        return drawn

    def digits_below(self, bound: int, count: int) -> Int64s:
        """Draw many integers below a bound of any size: row i holds digit i in base 2^63.

        The first row is the highest digit. The law is uniform, because what is kept of uniform
        proposals below the next power of two is uniform.
        """
        bits = _bits(bound)
        if bound == 1 << bits:
            return self._digits(bits, count)
        limit = _split(bound, -(-bits // DIGIT))

        def kept(missing: int) -> Int64s:
            # As many proposals as need to be kept on average: the median of a binomial is at
            # least the floor of its mean, so one round is enough half of the time or more.
            drawn = self._digits(bits, (missing << bits) // bound + 16)
            within: Int64s = np.compress(less(drawn, limit), drawn, axis=-1)
            return within[:, :missing]

        return collect(count, kept)

    def _digits(self, bits: int, count: int) -> Int64s:
        rows = max(1, -(-bits // DIGIT))
        drawn = np.zeros((rows, count), dtype=np.int64)
        for row in range(rows):
            width = bits - DIGIT * (rows - 1) if row == 0 else DIGIT
            if width:
                drawn[row] = self.words(count) >> np.uint64(64 - width)
        return drawn


def collect(count: int, draw: Callable[[int], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Collect what `draw(missing)` accepts, which may be fewer, until all are there.

    Raises:
        InternalError: DPQ902, the source looks broken.
    """
    found, missing = [draw(count)], count
    for _ in range(ROUNDS):
        missing -= found[-1].shape[-1]
        if not missing:
            return found[0] if len(found) == 1 else np.concatenate(found, axis=-1)
        found.append(draw(missing))
    raise broken()


def less(left: Int64s, right: Int64s) -> Bools:
    """Compare integers that stand as columns of digits."""
    smaller: Bools = left[-1] < right[-1]
    for high, other in zip(left[-2::-1], right[-2::-1], strict=True):
        smaller = (high < other) | ((high == other) & smaller)
    return smaller


def broken() -> InternalError:
    """Say that the source of bits cannot be honest."""
    return InternalError(
        Diagnostic(
            "DPQ902",
            "the randomness of the operating system looks broken",
            why=("noise drawn from it would protect nobody, so nothing was released.",),
            remedy=("repair the machine's source of random bits, then ask again",),
        )
    )


def _bits(bound: int) -> int:
    if bound < 1:
        raise ValueError("a bound must be at least 1")
    return (bound - 1).bit_length()


def _split(number: int, digits: int) -> Int64s:
    mask = (1 << DIGIT) - 1
    column = [[number >> (DIGIT * place) & mask] for place in reversed(range(digits))]
    return np.array(column, dtype=np.int64)
