"""The benchmark of many rollouts finds what is lost."""

import asyncio

import pytest

from rstar.agent.bench import bench_agent, script
from rstar.judge.client import JudgeState
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.sandbox.api import Limits, Result


def test_every_rollout_keeps_its_own_session() -> None:
    load = asyncio.run(bench_agent(None, 24, 4, single_calls=20))
    assert (load.rollouts, load.calls, load.right, load.lost) == (24, 72, 24, {})
    assert load.cpu_ms is not None
    assert load.cpu_ms > 0


def test_a_session_that_forgets_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    step = JudgeState.run

    async def forgetful(self: JudgeState, code: str, limits: Limits | None = None) -> tuple[JudgeState | None, Result]:
        return await step(self, code.replace("total += 2", "total = 2"), limits)

    monkeypatch.setattr(JudgeState, "run", forgetful)
    load = asyncio.run(bench_agent(None, 6, 4, single_calls=20))
    assert (load.right, sum(load.lost.values())) == (0, 6)


def test_the_script_adds_up() -> None:
    engine = FakeEngine(script=script(3))
    (first,) = asyncio.run(engine.complete(Request(engine.context("Start with 7."))))
    assert "total = 7" in first.text
