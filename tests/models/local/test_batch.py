"""The batch: samples share rows while their tokens are equal, and nothing that is held is computed again."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch

from rstar.models.decoder_files import load_decoder
from rstar.models.engine import Completion, Context, Request
from rstar.models.local.batch import Batch, Job
from rstar.models.local.engine import LocalEngine
from tests.models.tiny_models import BOS, write_model

PROMPT = Context("", (BOS, *range(40, 60)))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return LocalEngine(folder, threads=1, batch=16)


class Counted:
    """A batch, driven to its end, with counts of what its model computed: rows of each step, prompts, their tokens."""

    def __init__(self, engine: LocalEngine) -> None:
        self.batch: Batch = engine.settings.batch(load_decoder(engine.settings.folder), engine.tokens)
        self.rows, self.prompts, self.prompt_tokens = list[int](), 0, 0
        hidden = self.batch.model.hidden

        def counted(first: int, ids: Any, starts: Any, last: Any = None, added: Any = None) -> Any:
            if last is not None:
                self.prompts += 1
                self.prompt_tokens += ids.numel()
            return hidden(first, ids, starts, last, added)

        self.batch.model.hidden = counted  # type: ignore[method-assign]

    def run(self, *jobs: Job, cancel_first_after: int | None = None) -> list[list[Completion]]:
        waiting, steps = deque(jobs), 0
        with torch.inference_mode():
            while waiting or self.batch.busy:
                self.batch.start(self.batch.admit(waiting))
                self.rows.append(sum(branch is not None for branch in self.batch._branches))
                self.batch.step()
                steps += 1
                if steps == cancel_first_after:
                    jobs[0].cancelled = True
                    self.batch.drop_cancelled()
        return [job.results() for job in jobs]


def greedy(n: int = 1) -> Job:
    return Job(Request(PROMPT, 12, temperature=0.0, n=n), 12)


def warm(seed: int, n: int = 1, prompt: Context = PROMPT, stop: tuple[str, ...] = ()) -> Job:
    return Job(Request(prompt, 12, temperature=0.7, n=n, seed=seed, stop=stop), 12)


def test_equal_samples_take_one_row_whichever_request_they_belong_to(engine: LocalEngine) -> None:
    counted = Counted(engine)
    found = counted.run(greedy(3), greedy(), greedy(4))
    assert [len(samples) for samples in found] == [3, 1, 4]
    assert len({sample for samples in found for sample in samples}) == 1
    assert max(counted.rows) == 1


def test_a_branch_splits_where_its_samples_differ(engine: LocalEngine) -> None:
    together = Counted(engine).run(*(warm(seed, n=3) for seed in range(5)))
    assert together == [Counted(engine).run(warm(seed, n=3))[0] for seed in range(5)]
    assert len({sample.ids for samples in together for sample in samples}) > 5


def test_samples_without_a_row_continue_later(engine: LocalEngine) -> None:
    counted = Counted(engine)
    (many,) = counted.run(warm(1, n=70))
    assert len({sample.ids for sample in many}) > 16 == max(counted.rows)
    assert many == [Counted(engine).run(warm(1, n=n))[0][n - 1] for n in range(1, 71)]


def test_the_others_of_a_branch_outlive_a_cancelled_request(engine: LocalEngine) -> None:
    cancelled, *others = Counted(engine).run(greedy(), greedy(2), warm(3), cancel_first_after=4)
    assert cancelled == []
    assert others == Counted(engine).run(greedy(2), warm(3))


def test_what_an_ended_sample_wrote_is_not_computed_again(engine: LocalEngine) -> None:
    counted = Counted(engine)
    (first,) = counted.run(warm(1))[0]
    assert counted.prompts == 1
    pieces = [engine.tokens.piece(token).decode(errors="ignore") for token in first.ids]
    piece = next(piece for piece in pieces[2:] if piece and piece not in "".join(pieces[:2]))
    (stopped,) = counted.run(warm(1, stop=(piece,)))[0]
    assert stopped.stop_reason == "stop"
    longer = PROMPT.extend(stopped)
    continued = counted.run(warm(2, n=4, prompt=longer))
    assert counted.prompts == 1
    assert continued == Counted(engine).run(warm(2, n=4, prompt=longer))


def test_agents_that_take_turns_are_not_read_again(engine: LocalEngine) -> None:
    """Almost as many branches as rows that hold prompts: each turn computes only what is new."""
    counted = Counted(engine)
    contexts = [Context("", (BOS, 40 + number, *range(40, 100))) for number in range(22)]
    for turn in range(4):
        before = counted.prompt_tokens
        samples = counted.run(*(warm(turn, prompt=context) for context in contexts))
        contexts = [
            Context("", (*context.ids, *sample.ids, *range(50, 56)))
            for context, (sample,) in zip(contexts, samples, strict=True)
        ]
        if turn:
            assert counted.prompt_tokens - before <= 22 * 16, "at most 16 tokens per prompt, padding included"
