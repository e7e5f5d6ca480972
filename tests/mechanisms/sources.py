"""Sources of bits for tests only: one that repeats from a seed, and hostile ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from dpquery.errors import InternalError
from dpquery.mechanisms.randomness import LANE, Randomness

T = TypeVar("T")


class Seeded(Randomness):
    """The same bits for the same seed, so that a statistical test always ends the same way."""

    __slots__ = ("_stream",)

    def __init__(self, seed: int) -> None:
        self._stream = random.Random(seed)

    def _bytes(self, count: int) -> bytes:
        return self._stream.randbytes(count)


class Repeating(Randomness):
    """One block of bytes for ever."""

    __slots__ = ("_block_of",)

    def __init__(self, block: bytes) -> None:
        self._block_of = block

    def _bytes(self, count: int) -> bytes:
        return (self._block_of * (count // len(self._block_of) + 1))[:count]


class Stuck(Repeating):
    """As `Repeating`, but slips through the comparison of two lanes by one byte."""

    __slots__ = ()

    def _bytes(self, count: int) -> bytes:
        block = bytearray(super()._bytes(count))
        block[2 * LANE - 1] ^= 1
        return bytes(block)


class Failing(Randomness):
    """The operating system has no bits to give."""

    __slots__ = ()

    def _bytes(self, count: int) -> bytes:
        raise OSError("no device")


ZEROS, ONES = b"\x00", b"\xff"
PATTERNS = {
    "zeros": ZEROS,
    "ones": ONES,
    "alternating bits": b"\x55",
    "alternating bytes": b"\x00\xff",
    "alternating words": ZEROS * 8 + ONES * 8,
    "a block of 24": random.Random(24).randbytes(24),
    "a block of 40": random.Random(40).randbytes(40),
    "a long block": random.Random(1000).randbytes(1000),
}


def ended(draw: Callable[[], T]) -> T | str:
    """What is drawn, or the code of the fault that stopped it."""
    try:
        return draw()
    except InternalError as fault:
        return str(fault.code)
