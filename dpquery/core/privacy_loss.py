"""Exact numbers of privacy: losses, the neighbouring relation, and how to read an epsilon.

Everything here is a `Fraction`, read from text (I8). This module knows nothing of SQL or of
data.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from math import isqrt

from dpquery.core.identity_text import record
from dpquery.core.zcdp import epsilon_above, rho_below

EPSILON_MIN = Fraction(1, 10**9)
EPSILON_MAX = Fraction(10**9)
BUDGET_MAX = Fraction(9 * 10**9)
DIGITS_MAX = 30
"""A literal longer than this is a mistake or an attack on the arithmetic, not a wish."""


class Neighbours(StrEnum):
    """When two databases count as differing by one privacy unit."""

    ADD_REMOVE = "add-remove"
    """All rows of one unit are added or removed: the number of units is private."""

    SUBSTITUTE = "substitute"
    """All rows of one unit are replaced by another unit's: the number of units is public."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Privacy lost, exactly: epsilon and delta."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: Loss) -> Loss:
        return Loss(self.epsilon - other.epsilon, self.delta - other.delta)

    def within(self, limit: Loss) -> bool:
        """Return whether neither part passes the limit's."""
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta

    def identity(self) -> str:
        """Return the name of the loss in the ledger."""
        return record("Loss", epsilon=self.epsilon, delta=self.delta)

    def __str__(self) -> str:
        text = decimal_text(self.epsilon)
        return text if not self.delta else f"{text} (delta {decimal_text(self.delta)})"


NO_LOSS = Loss(Fraction(0))


def exact_number(value: object) -> Fraction:
    """Read a number exactly: a float by its repr, so that 0.1 is one tenth.

    >>> exact_number(0.1), exact_number("1e-3"), exact_number(2)
    (Fraction(1, 10), Fraction(1, 1000), Fraction(2, 1))

    Raises:
        ValueError: not a finite number, or one with more than 30 digits or a huge exponent.
    """
    if isinstance(value, bool) or not isinstance(value, int | str | float | Decimal | Fraction):
        raise ValueError("not a number")
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and not (
        value.isascii() and value.strip() == value and "_" not in value
    ):
        raise ValueError("not a number")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, ValueError):
        raise ValueError("not a number") from None
    if not number.is_finite():
        raise ValueError("not a finite number")
    sign_digits_exponent = number.as_tuple()
    exponent = sign_digits_exponent.exponent
    if len(sign_digits_exponent.digits) > DIGITS_MAX or not isinstance(exponent, int):
        raise ValueError(f"more than {DIGITS_MAX} digits")
    if abs(exponent) > 400:
        raise ValueError("out of range")
    return Fraction(number)


def decimal_text(number: Fraction, digits: int = 12) -> str:
    """Write a fraction as a decimal: exactly where that is short, else cut to some digits.

    >>> decimal_text(Fraction(1, 2)), decimal_text(Fraction(3)), decimal_text(Fraction(1, 3), 4)
    ('0.5', '3', '0.3333…')
    >>> decimal_text(Fraction(1, 10**7)), decimal_text(Fraction(1, 10**6))
    ('1e-7', '1e-6')
    """
    if number.denominator == 1:
        return str(number.numerator)
    exact = (places for places in range(31) if not 10**places % number.denominator)
    if places := next(exact, 0):
        return _plain(number.numerator * 10**places // number.denominator, places)
    scaled = abs(number.numerator) * 10**digits // number.denominator
    sign = "-" if number < 0 else ""
    return f"{sign}{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}…"


def exact_text(number: Fraction) -> str:
    """Write a fraction exactly where that is short: as a decimal, or as a ratio.

    >>> exact_text(Fraction(1, 5)), exact_text(Fraction(1, 15))
    ('0.2', '1/15')
    """
    decimal, ratio = decimal_text(number), str(number)
    return ratio if decimal.endswith("…") and len(ratio) < len(decimal) else decimal


def _plain(scaled: int, places: int) -> str:
    sign, text = ("-" if scaled < 0 else ""), str(abs(scaled)).rjust(places + 1, "0")
    if places - len(text.lstrip("0")) >= 5 and len(text.lstrip("0")) <= 4:
        first, others = text.lstrip("0")[:1], text.lstrip("0")[1:]
        mantissa = first + ("." + others if others else "")
        return f"{sign}{mantissa}e-{places - len(others)}"
    return f"{sign}{text[:-places]}.{text[-places:]}"


def root_above(square: int | Fraction, bits: int = 32) -> Fraction:
    """Return the square root, rounded up to a multiple of 2^-bits.

    >>> root_above(4), root_above(2) ** 2 > 2
    (Fraction(2, 1), True)
    """
    ceiling = -((-square.numerator << 2 * bits) // square.denominator)
    root = isqrt(ceiling)
    return Fraction(root + (root * root < ceiling), 1 << bits)


HALF = Fraction(1, 2)
"""The part of a delta that is kept for conversion, unless the policy says otherwise."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that may be lost. Epsilons may add up to its epsilon, or else rho to its rho.

    A delta is parted before anything is asked. Releases with a delta of their own draw on one
    part; at the other one rho is converted. A part that followed what was drawn would be a
    choice made after answers were seen, and the promise would not hold.
    """

    limit: Loss
    converted: Fraction = Fraction(0)
    """The part of delta at which rho is converted."""
    rho: Fraction = Fraction(0)
    """What rho may add up to: it converts to epsilon at that delta, or to less."""
    summed: bool = True
    """Whether epsilons may add up instead; not where the owner stated a rho."""

    @classmethod
    def of(cls, limit: Loss, share: Fraction) -> Ceiling:
        """Part the delta of a limit; without one, epsilons alone add up."""
        converted = limit.delta * share
        rho = rho_below(limit.epsilon, converted) if converted else Fraction(0)
        return cls(limit, converted, rho)

    @classmethod
    def in_rho(cls, rho: Fraction, delta: Fraction, share: Fraction) -> Ceiling:
        """Take a rho as the limit, and the epsilon that it converts to for reading."""
        converted = delta * share
        return cls(Loss(epsilon_above(rho, converted), delta), converted, rho, summed=False)

    @property
    def drawn(self) -> Fraction:
        """What the deltas of releases may add up to."""
        return self.limit.delta - self.converted

    def identity(self) -> str:
        """Return the name of the limit in the ledger."""
        return record(
            "Ceiling",
            limit=self.limit,
            converted=self.converted,
            rho=self.rho,
            summed=self.summed,
        )
