"""A small table of ClickBench's schema: pages that visitors saw, with the columns in use."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SAYS = (
    "The unit is a visitor, `UserID`, of the one table `hits`. Engines, sources, regions and "
    "dates are public groups; what visitors look for and at is not."
)
VISITORS, HITS = 300, 6000
START = (date(2013, 7, 1) - date(1970, 1, 1)).days * 86_400
PHRASES = ("", "", "", "maps", "flats", "summer tyres", "recipes", "cinema")
SITES = ("google.example", "shop.example", "news.example", "www.cars.example")
MODELS = ("", "", "iPad", "iPhone", "Lumia")
FIRST_IP = 3_000_000_000


def write(place: Path) -> None:
    """Write the table, the same on every run."""
    random = np.random.default_rng(2013)
    visitor = random.integers(1, VISITORS + 1, HITS)
    seconds = random.integers(0, 31 * 86_400, HITS)
    moments = pa.array((START + seconds) * 10**6).cast(pa.timestamp("us"))
    site, page = random.integers(0, len(SITES), HITS), _often_small(random, 12)
    phrase = [PHRASES[one] for one in random.integers(0, len(PHRASES), HITS)]
    source = random.integers(-1, 6, HITS)
    model = [MODELS[one % len(MODELS)] for one in visitor]
    columns = {
        "WatchID": np.arange(HITS) + 10**15,
        "UserID": visitor + 10**17,
        "EventTime": moments,
        "EventDate": moments.cast(pa.date32(), safe=False),
        "CounterID": site * 20 + 2,
        "ClientIP": FIRST_IP + visitor % 40,  # several visitors share an address
        "RegionID": visitor % 8 + 1,
        "URL": [f"http://{SITES[s]}/{p}" for s, p in zip(site, page, strict=True)],
        "URLHash": site * 1000 + page,
        "Title": [f"{'Google' if p % 3 == 0 else 'Page'} {p}" if p else "" for p in page],
        "Referer": [f"http://{SITES[one]}/from" if one < len(SITES) else "" for one in page],
        "RefererHash": page % 5,
        "IsRefresh": random.integers(0, 2, HITS),
        "ResolutionWidth": random.choice([1024, 1366, 1638, 1920], HITS),
        "SearchEngineID": np.where(np.array(phrase) == "", 0, random.integers(1, 4, HITS)),
        "SearchPhrase": phrase,
        "AdvEngineID": np.where(random.random(HITS) < 0.8, 0, random.integers(1, 5, HITS)),
        "MobilePhone": np.array([len(one) for one in model]),
        "MobilePhoneModel": model,
        "TraficSourceID": source,
        "IsLink": random.integers(0, 2, HITS),
        "IsDownload": (random.random(HITS) < 0.1).astype(int),
        "DontCountHits": (random.random(HITS) < 0.1).astype(int),
        "WindowClientWidth": random.choice([1000, 1300, 1600], HITS),
        "WindowClientHeight": random.choice([600, 800], HITS),
    }
    pq.write_table(pa.table(columns), place / "hits.parquet")


def _often_small(random: np.random.Generator, most: int) -> np.ndarray:
    return np.minimum(random.integers(0, most, HITS), random.integers(0, most, HITS))
