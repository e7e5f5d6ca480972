"""`dpquery lab`: mechanisms on synthetic rows for one's own numbers, and the notes' figures."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from dpquery.core.privacy_loss import EPSILON_MAX, EPSILON_MIN, Neighbours, exact_number
from dpquery.errors import nearest
from dpquery.shell.arguments import TABLE, UsageError, format_of
from dpquery.shell.batch import answers_to, say, show, writing

if TYPE_CHECKING:
    from dpquery.answer import Answer
    from dpquery.lab.compare import Wishes
    from dpquery.lab.topics import Topic

MOST_ROWS = 10_000_000
MOST_SETTINGS = 24
MOST_DRAWS = 100_000
COLUMNS = 78
"""Cells of a picture in a terminal."""
FIGURES = "figures"

Number = TypeVar("Number")


def lab(options: Namespace) -> None:
    """Try the mechanisms of a topic, or measure again what the lecture notes show."""
    from dpquery.lab.topics import TOPICS

    topic, *others = options.argument
    if topic == FIGURES:
        _figures(options, others)
    elif topic not in TOPICS:
        raise _unknown("topic", topic, (*TOPICS, FIGURES))
    elif others:
        raise UsageError(f"one topic at a time: {topic}, and then {', '.join(others)}")
    else:
        _compare(options, TOPICS[topic])


def _unknown(what: str, word: str, known: Sequence[str]) -> UsageError:
    near = nearest(word, known)
    meant = f"did you mean {near}? " if near else ""
    return UsageError(f"there is no {what} {word!r}; {meant}there are {', '.join(known)}")


def _wishes(options: Namespace, topic: Topic) -> Wishes:
    from dpquery.lab.compare import Wishes
    from dpquery.lab.synthetic_data import LAWS

    law = options.law or topic.law
    if law not in LAWS:
        raise _unknown("law", law, list(LAWS))
    if options.m and not topic.places:
        raise UsageError(
            f"--m is a number of quantiles, bins or values: {topic.name} have none"
        )
    wishes = Wishes(
        topic,
        LAWS[law],
        _numbers(options.n, "--n", _whole(1, MOST_ROWS)),
        _numbers(options.eps, "--eps", _between(EPSILON_MIN, EPSILON_MAX)),
        _numbers(options.m or f"{min(9, topic.most)}", "--m", _whole(1, topic.most)),
        Neighbours(options.neighbours),
        _between(Fraction(1, 10**30), Fraction(1, 2))(options.delta, "--delta"),
        _whole(1, MOST_DRAWS)(options.draws or "200", "--draws"),
    )
    settings = len(wishes.sizes) * len(wishes.epsilons) * len(wishes.places)
    if settings > MOST_SETTINGS:
        raise UsageError(f"{settings} settings at once: try {MOST_SETTINGS} or fewer")
    return wishes


def _compare(options: Namespace, topic: Topic) -> None:
    from dpquery.display.charts import as_text
    from dpquery.lab.compare import compared, table
    from dpquery.lab.pictures import FORMATS, chart, save

    wishes, out = _wishes(options, topic), options.out
    pictured = out is not None and PurePath(out).suffix.lower() in FORMATS
    form = options.format or (TABLE if pictured else format_of(out))
    outcomes = compared(wishes)
    if not outcomes:
        name = topic.function.name
        raise UsageError(f"no mechanism of {name} answers so of the law {wishes.law.name}")
    answer = table(wishes, outcomes)
    if pictured:
        try:
            with writing():
                save(wishes, outcomes, out)
        except ImportError as missing:
            raise UsageError(str(missing)) from None
    else:
        _write(answer, Namespace(out=out, format=form))
        if options.plot:
            show(as_text(chart(wishes, outcomes), COLUMNS))
    _note(answer)


def _figures(options: Namespace, names: Sequence[str]) -> None:
    from dpquery.lab.figures import ALL, table

    for name in names:
        if name not in ALL:
            raise _unknown("figure", name, list(ALL))
    form = options.format or format_of(options.out)
    draws = _whole(1, MOST_DRAWS)(options.draws or "100", "--draws")
    answer = table([ALL[name] for name in dict.fromkeys(names or ALL)], draws)
    _write(answer, Namespace(out=options.out, format=form))
    _note(answer)


def _write(answer: Answer, place: Namespace) -> None:
    with answers_to(place) as output, writing():
        output.write(answer)


def _note(answer: Answer) -> None:
    for note in answer.notes:
        say(f"note: {note}")


Reader = Callable[[str, str], Number]


def _numbers(text: str, option: str, read: Reader[Number]) -> list[Number]:
    """Read numbers that commas part; each once."""
    return list(dict.fromkeys(read(word.strip(), option) for word in text.split(",")))


def _whole(least: int, most: int) -> Reader[int]:
    def read(text: str, option: str) -> int:
        plain = text.replace("_", "")
        if not (plain.isascii() and plain.isdecimal() and least <= int(plain) <= most):
            raise UsageError(f"{option} is a whole number from {least} to {most:,}: {text!r}")
        return int(plain)

    return read


def _between(least: Fraction, most: Fraction) -> Reader[Fraction]:
    def read(text: str, option: str) -> Fraction:
        try:
            number = exact_number(text)
        except ValueError as error:
            raise UsageError(f"{option} is {error}: {text!r}") from None
        if not least <= number <= most:
            raise UsageError(f"{option} lies between {float(least)} and {float(most)}: {text}")
        return number

    return read
