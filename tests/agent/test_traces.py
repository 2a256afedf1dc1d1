"""Traces of rollouts: heavy tails, and groups of similar length."""

from __future__ import annotations

from rstar.agent.traces import draw_traces


def test_traces() -> None:
    traces = draw_traces(64, 8, 5)
    assert len(traces) == 512
    assert traces == draw_traces(64, 8, 5) != draw_traces(64, 8, 6)
    own = [sum(tokens + response for tokens, response, _ in trace.turns) for trace in traces]
    assert max(len(trace.turns) for trace in traces) <= 10
    assert max(own) > 3 * sum(own) / len(own), "a heavy tail"
    assert max(own) <= 12_000 + 256
    groups = [sum(own[first : first + 8]) for first in range(0, 512, 8)]
    assert max(groups) > 5 * min(groups), "the lengths of a group go together"
