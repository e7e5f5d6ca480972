"""What was compared, as pictures: bars in a terminal, bars or lines on axes of matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpquery.core.privacy_loss import decimal_text
from dpquery.display.charts import Chart, Series, chart_of, on_axes
from dpquery.lab.compare import Outcome, Setting, Wishes, short

FORMATS = (".png", ".svg", ".pdf")
"""Endings of files that pictures are written to."""
_SIZE = (8, 5)
_USUAL = 1.96
"""So many standard deviations to each side hold a mean 95 times in 100."""
_VARIED: dict[str, Callable[[Setting], Any]] = {
    "n": lambda one: one.rows,
    "eps": lambda one: one.epsilon,
    "m": lambda one: one.places,
}


def varied(outcomes: Sequence[Outcome]) -> list[str]:
    """Return which numbers of settings differ."""
    return [
        name for name, of in _VARIED.items() if len({of(one.setting) for one in outcomes}) > 1
    ]


def chart(wishes: Wishes, outcomes: Sequence[Outcome]) -> Chart:
    """Return the picture of all errors, with how exactly they are known."""
    names = varied(outcomes)
    labels = [_label(one, names) for one in outcomes]
    errors = [short(one.error) for one in outcomes]
    ends = [
        (max(0.0, one.error - _USUAL * one.deviation), one.error + _USUAL * one.deviation)
        for one in outcomes
    ]
    unit = f"error of {wishes.topic.name}, in {wishes.topic.unit},"
    return chart_of([Series("mechanism", labels), Series(unit, errors, ends)])


def _label(one: Outcome, names: Sequence[str]) -> str:
    said = (f"{name}={_said(_VARIED[name](one.setting))}" for name in names)
    return ", ".join((one.mechanism, *said))


def _said(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else decimal_text(number)


def save(wishes: Wishes, outcomes: Sequence[Outcome], file: str) -> None:
    """Write a picture: lines where one number varies, and bars otherwise.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'dpquery[plot]'") from None
    figure = Figure(_SIZE, layout="constrained")
    axes, names = figure.subplots(), varied(outcomes)
    if len(names) == 1:
        _lines(axes, outcomes, names[0])
        figure.legend(loc="outside right upper")
    else:
        on_axes(chart(wishes, outcomes), axes)
        axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel(f"error, in {wishes.topic.unit} (95 % within)")
    axes.set_title(f"{wishes.topic.name} of synthetic rows: {wishes.law.name}")
    figure.savefig(file, dpi=150)


def _lines(axes: Any, outcomes: Sequence[Outcome], name: str) -> None:
    """Draw the error of each mechanism over a number that varies, on logarithmic scales."""
    number = _VARIED[name]
    for mechanism in dict.fromkeys(one.mechanism for one in outcomes):
        of = sorted(
            (one for one in outcomes if one.mechanism == mechanism),
            key=lambda one: float(number(one.setting)),
        )
        places = [float(number(one.setting)) for one in of]
        errors = [one.error for one in of]
        reach = [_USUAL * one.deviation if one.draws > 1 else 0.0 for one in of]
        axes.errorbar(places, errors, yerr=reach, marker="o", capsize=3, label=mechanism)
    axes.set(xscale="log", yscale="log", xlabel=name)
