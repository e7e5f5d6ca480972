"""Fixtures shared by all tests."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import HealthCheck, settings

from dpquery.engine import ENGINES

# Marks of ledgers are kept where a user's programs keep their state: not the real one's here.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dpquery-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# What is started in the background ignores ctrl-C, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", max_examples=20_000, deadline=None)
settings.load_profile("dev")


ENGINES["python"] = "tests.oracle"  # all tests of engines run on the oracle, too
