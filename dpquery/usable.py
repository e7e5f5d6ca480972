"""What can be asked, by one thread at a time, until it is closed: a session, here or remote."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Protocol, Self

from dpquery.core import html
from dpquery.errors import DPQueryError, unusable


class _Html(Protocol):
    def _repr_html_(self) -> str: ...


class _Rows(Protocol):
    @property
    def rows(self) -> Sequence[Sequence[object]]: ...


class Shown(Protocol):
    """What is shown of a session."""

    @property
    def analyst(self) -> str:
        """Who asks."""

    @property
    def budget(self) -> _Html:
        """What is left."""

    def tables(self) -> _Rows:
        """Return what can be asked."""


class Usable(ABC):
    """Belongs to the process that made it; another one, a fork of it, is refused."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._process: int | None = os.getpid()

    def require_usable(self) -> None:
        """Do nothing, in a session that can be asked.

        Raises:
            SessionUnusable: DPQ801 it is closed, or belongs to another process.
        """
        if self._process != os.getpid():
            raise unusable(closed=self._process is None)

    def close(self) -> None:
        """End the session; closing twice is fine, and answers outlive it."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._process = None
            self._let_go()

    def _repr_html_(self: Shown) -> str:
        """Return what a notebook shows: who asks which tables, and what is left."""
        about = {"analyst": self.analyst}
        try:
            names = [str(row[0]) for row in self.tables().rows]
            left: tuple[str, ...] = (self.budget._repr_html_(),)
        except DPQueryError as fault:
            return html.facts("session", {**about, "state": fault.diagnostic.title})
        return html.facts("session", {**about, "tables": ", ".join(names)}, *left)

    @abstractmethod
    def _let_go(self) -> None:
        """Close what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        self.require_usable()  # before the lock: over a fork, it may be held for ever
        with self._lock:
            self.require_usable()
            yield
