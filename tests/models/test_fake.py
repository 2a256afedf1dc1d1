"""The fake engine keeps the engine's invariants and writes what searches need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.config import build
from rstar.errors import ConfigError, EngineError
from rstar.models.engine import Completion, Engine, Request
from rstar.models.fake import BOS, FakeEngine
from rstar.prompts.code_steps import END_ANSWER, END_CODE, END_STEP, STOPS, output, prompt
from rstar.specs import Fake, parse_model

QUESTION = prompt("Add 12, 30 and 7.")


def complete(engine: FakeEngine, text: str, **settings: object) -> Sequence[Completion]:
    request = Request(engine.context(text), **settings)  # type: ignore[arg-type]
    return asyncio.run(engine.complete(request))


def test_is_an_engine() -> None:
    assert isinstance(FakeEngine(), Engine)


def test_ids_are_bytes_and_concatenate() -> None:
    engine = FakeEngine()
    context = engine.context("aé")
    assert context.ids == (BOS, 97, 0xC3, 0xA9)
    assert engine.append(context, "<x>").ids == engine.context("aé<x>").ids
    (sample,) = complete(engine, QUESTION, stop=STOPS)
    assert engine.context(QUESTION).extend(sample) == engine.context(QUESTION + sample.text)
    assert sample.n_tokens == len(sample.logprobs) == len(sample.text)


@given(seed=st.integers(0, 2**70), n=st.integers(1, 5))
def test_a_sample_depends_on_seed_and_index_alone(seed: int, n: int) -> None:
    samples = complete(FakeEngine(), QUESTION, seed=seed, n=n)
    assert samples == complete(FakeEngine(), QUESTION, seed=seed, n=5)[:n]


def test_other_seeds_and_other_models_differ_and_greedy_does_not() -> None:
    def texts(spec: str, **settings: object) -> list[str]:
        model = parse_model(spec)
        assert isinstance(model, Fake)
        return [c.text for c in complete(FakeEngine(model), QUESTION, n=8, **settings)]

    assert texts("fake:steps") != texts("fake:steps", seed=1)
    assert texts("fake:steps") != texts("fake:steps?seed=1")
    assert len(set(texts("fake:steps", temperature=0.0, seed=5) + texts("fake:steps", temperature=0.0, seed=6))) == 1


def run_program(engine: FakeEngine, seed: int) -> tuple[str, str, bool]:
    """Follow one sample a step to the end of its program: (code, answer, failed)."""
    context = engine.context(QUESTION)
    code, scope, printed = "", dict[str, object](), list[str]()
    for step in range(4):
        (sample,) = asyncio.run(engine.complete(Request(context, stop=STOPS, seed=seed + step)))
        assert sample.stop_reason == "stop"
        assert sample.stop is not None
        assert sample.text.endswith(sample.stop)
        piece = sample.text.removesuffix(sample.stop)
        code += piece
        context = context.extend(sample)
        try:
            exec(piece, scope | {"print": lambda x: printed.append(str(x))}, scope)
        except NameError:
            return code, "", True
        if sample.stop == END_CODE:
            break
        assert sample.stop == END_STEP
    context = engine.append(context, output(printed[0] + "\n"))
    (sample,) = asyncio.run(engine.complete(Request(context, stop=STOPS)))
    assert sample.stop == END_ANSWER
    return code, sample.text.removeprefix("\\boxed{").removesuffix("}" + END_ANSWER), False


def test_programs_run_and_end_in_different_ways() -> None:
    runs = [run_program(FakeEngine(), seed * 100) for seed in range(60)]
    answers = [answer for _, answer, failed in runs if not failed]
    assert "49" in answers
    assert len(set(answers)) > 2
    assert any(failed for *_, failed in runs)
    assert max(answers, key=answers.count) == "49"
    assert len({code for code, *_ in runs}) < len(runs)


def test_a_whole_program_is_written_when_steps_do_not_stop_it() -> None:
    (sample,) = complete(FakeEngine(), QUESTION, stop=(END_CODE,), temperature=0)
    assert sample.text.endswith(END_CODE)
    assert sample.text.count(END_STEP) == 2


@given(data=st.text(alphabet="ab<>", max_size=30), stops=st.lists(st.text("ab<>", min_size=1, max_size=4), max_size=3))
def test_text_ends_after_the_first_completed_stop(data: str, stops: list[str]) -> None:
    (sample,) = complete(FakeEngine(script=[data]), "x", stop=tuple(stops))
    ends = [end for end in range(len(data) + 1) if data[:end].endswith(tuple(stops))]
    if ends:
        assert (sample.text, sample.stop_reason) == (data[: ends[0]], "stop")
        assert sample.stop in stops
        assert sample.text.endswith(str(sample.stop))
    else:
        assert (sample.text, sample.stop_reason, sample.stop) == (data, "eos", None)


def test_length_limits() -> None:
    (sample,) = complete(FakeEngine(script=["abcdef"]), "x", max_tokens=3)
    assert (sample.text, sample.stop_reason) == ("abc", "length")
    (sample,) = complete(FakeEngine(script=["abc."]), "x", max_tokens=3, stop=(".",))
    assert (sample.text, sample.stop_reason, sample.stop) == ("abc", "length", None)
    (sample,) = complete(FakeEngine(Fake("noise", max_context=8)), "12345")
    assert len(sample.ids) <= 2
    with pytest.raises(EngineError, match="6 tokens of context fill max_context 6"):
        complete(FakeEngine(Fake("noise", max_context=6)), "12345")


def test_script_by_function_and_by_list() -> None:
    engine = FakeEngine(script=lambda request, i: f"{request.seed}-{i}")
    assert [c.text for c in complete(engine, "", n=2, seed=7)] == ["7-0", "7-1"]
    engine = FakeEngine(script=["a", "b", "c"])
    assert [c.text for c in complete(engine, "", n=2)] == ["a", "b"]
    with pytest.raises(EngineError, match="used up"):
        complete(engine, "", n=2)


def test_noise_is_made_of_all_bytes() -> None:
    samples = complete(FakeEngine(Fake("noise")), "x", n=20, max_tokens=4000)
    assert len({byte for sample in samples for byte in sample.ids}) == 256


def test_failures_come_at_their_rate_and_repeat() -> None:
    def fails(seed: int) -> bool:
        try:
            complete(FakeEngine(Fake("fail", rate=0.3)), QUESTION, seed=seed)
        except EngineError:
            return True
        return False

    failed = [seed for seed in range(300) if fails(seed)]
    assert 50 < len(failed) < 130
    assert all(fails(seed) for seed in failed[:5])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fake:step", "did you mean 'steps'"),
        ("fake:steps?sed=1", "did you mean 'seed'"),
        ("fake:steps?seed=x", "seed"),
        ("fake:script", "script"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build({"policy": spec})


def test_other_weights_are_another_model() -> None:
    engine = FakeEngine()

    def texts() -> list[str]:
        samples = complete(engine, QUESTION, n=8)
        assert {sample.version for sample in samples} == {engine.version}
        return [sample.text for sample in samples]

    first = texts()
    found = []
    for version in (1, 2, 0):
        asyncio.run(engine.load(Path("anywhere"), version))
        assert engine.version == version
        found.append(texts())
    assert found[2] == first
    assert first != found[0] != found[1] != first


def test_capacity_is_no_limit() -> None:
    capacity = FakeEngine().capacity()
    assert capacity.samples > 1000
    assert capacity.tokens is None
