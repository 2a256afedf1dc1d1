"""The benchmark measures what it says; how much is not a test's business, except that states pay."""

from __future__ import annotations

import asyncio

from rstar.sandbox.bench import PROGRAMS, measure


def test_figures() -> None:
    report = asyncio.run(measure(["limits"], calls=12, workers=2))
    assert [(figures.level, figures.program) for figures in report.calls] == [("limits", name) for name in PROGRAMS]
    assert all(0 < figures.cpu_ms < 5_000 and figures.per_second > 0 for figures in report.calls)
    (steps,) = report.steps
    assert steps.cpu_ms > 5
    assert steps.replay_cpu_ms > 40
    assert steps.ratio > 1.5
