"""The race for a ledger on a disk that waits: every sync takes 2.5 ms more.

That is the median of the disk on which half of the bare rate was set as the limit. Where a sync
takes a tenth of a millisecond, what Python does between two of them decides instead. A small
library in front of the C library sleeps before each sync, for SQLite and for bare writes alike;
it needs a C compiler. `python -m benchmarks.bench.slow_disk [CHARGES]`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MORE = 2500
"""Microseconds."""

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int after_a_while(const char *name, int file) {
    struct timespec more = {0, %d000};
    nanosleep(&more, 0);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}
int fsync(int file) { return after_a_while("fsync", file); }
int fdatasync(int file) { return after_a_while("fdatasync", file); }
"""


def told(each: int = 250) -> str:
    """Return the figures of `benchmarks.bench.ledger` on such a disk, or why there are none."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "no C compiler, and so no disk that waits"
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "slow.so"
        build = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
        subprocess.run(build, input=SOURCE % MORE, text=True, check=True)
        race = [sys.executable, "-m", "benchmarks.bench.ledger", str(each)]
        slowed = os.environ | {"LD_PRELOAD": str(library)}
        found = subprocess.run(race, env=slowed, capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    print(told(*map(int, sys.argv[1:])))
