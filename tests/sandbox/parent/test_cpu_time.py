"""What all programs have had of the processors."""

import time

import pytest

from rstar.sandbox.parent import cpu_time
from rstar.sandbox.parent.cpu_time import CpuTime


def test_work_is_counted() -> None:
    counter = CpuTime()
    before = counter.used()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    time.sleep(0.05)
    after = counter.used()
    assert before is not None
    assert after is not None
    assert after - before >= 0.25


def test_it_is_read_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([1.0, 2.0])
    monkeypatch.setattr(cpu_time, "_read", lambda: next(reads))
    monkeypatch.setattr(cpu_time, "_CACHE_SECONDS", 0.2)
    counter = CpuTime()
    assert [counter.used() for _ in range(5)] == [1.0] * 5
    time.sleep(0.25)
    assert counter.used() == 2.0
