"""What Prometheus and load balancers may know: counts, as they were at the last quarter minute.

Whoever asks more often learns no more: when a single statement began or ended is not to be
seen. Names and data are in none of it. Where the policy has answers leave on a grid of times,
it is not said either how many workers are idle: that would tell when a scan has ended.
"""

from __future__ import annotations

import time

from dpquery.server.service import Service

STEP = 15.0
"""Seconds for which the same is said."""


class Metrics:
    """The state of a service, looked at rarely."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._step = -1
        self._text = ""
        self._healthy = True

    @property
    def healthy(self) -> bool:
        """Whether there is any worker."""
        self._look()
        return self._healthy

    @property
    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        self._look()
        return self._text

    def _look(self) -> None:
        step = int(time.monotonic() // STEP)
        if step != self._step:
            self._step, self._text = step, self._written()
            self._healthy = self._service.workers[0] > 0

    def _written(self) -> str:
        service = self._service
        counts = sorted(service.metrics.items())
        lines = ["# TYPE dpquery_logins_total counter"]
        lines += [
            f'dpquery_logins_total{{outcome="{outcome}"}} {count}'
            for (what, outcome), count in counts
            if what == "login"
        ]
        lines += ["# TYPE dpquery_statements_total counter"]
        lines += [
            f'dpquery_statements_total{{call="{what}",outcome="{outcome}"}} {count}'
            for (what, outcome), count in counts
            if what != "login"
        ]
        workers, idle = service.workers
        gauges = {"connections": service.clients, "workers": workers}
        if service.policy.limits.answer_times is None:
            gauges["workers_idle"] = idle
        for name, count in gauges.items():
            lines += [f"# TYPE dpquery_{name} gauge", f"dpquery_{name} {count}"]
        return "\n".join(lines) + "\n"
