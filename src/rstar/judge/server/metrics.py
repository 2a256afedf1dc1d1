"""Prometheus metrics: calls by kind and outcome, durations, queue length."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from rstar.judge.queue.broker import QueueStatus
from rstar.judge.queue.jobs import Answer, Job

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)


class Metrics:
    """Metrics of one API process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        calls, runs, requests = (f"rstar_judge_{name}" for name in ("calls", "run_seconds", "request_seconds"))
        self._calls = Counter(calls, "Calls answered, by kind and outcome.", ["kind", "end"], registry=registry)
        self._run = Histogram(runs, "Wall time of runs.", buckets=_BUCKETS, registry=registry)
        self._latency = Histogram(requests, "Time from request to reply.", buckets=_BUCKETS, registry=registry)
        self._gauges = {
            name: Gauge(f"rstar_judge_{name}", text, registry=registry)
            for name, text in (
                ("waiting", "Waiting calls."),
                ("running", "Running calls."),
                ("slots", "Programs that can run at a time."),
                ("sessions", "Sessions."),
            )
        }

    def count(self, jobs: Sequence[Job], answers: Sequence[Answer], seconds: float) -> None:
        """Record the answers to one request and its duration in seconds."""
        self._latency.observe(seconds)
        for job, answer in zip(jobs, answers, strict=True):
            self._calls.labels(job.kind, answer.status if answer.outcome == "done" else answer.outcome).inc()
            if answer.outcome == "done":
                self._run.observe(answer.seconds)

    def text(self, load: QueueStatus, sessions: int) -> tuple[bytes, str]:
        """The metrics in Prometheus format, and the content type."""
        values = {"waiting": load.waiting, "running": load.running, "slots": load.slots, "sessions": sessions}
        for name, value in values.items():
            self._gauges[name].set(value)
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
