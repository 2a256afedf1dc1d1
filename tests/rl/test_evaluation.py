"""Evaluations of a training: each once, all in the same way, and the earliest of the best weights are kept."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import torch

from rstar.jsonl import read_lines
from rstar.models.decoder_files import load_decoder
from rstar.rl.evaluation import Evaluations, each_problem
from rstar.rl.groups import Group, Maker
from tests.rl.plain import decoder
from tests.rl.test_groups import group
from tests.rl.trainings import no_bar


class Planned:
    """Makes groups of four rollouts, of which the present weights get a planned number right."""

    def __init__(self, right: int) -> None:
        self.right, self.made = right, list[tuple[str, str]]()
        self.running = self.most = 0

    at_once = 40

    async def make(self, step: str, name: str) -> Group:
        self.made.append((step, name))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return group(name, *[("1", 1, 1.0)] * self.right, *[("2", 1, 0.0)] * (4 - self.right))


def evaluate(folder: Path, plan: Sequence[int]) -> Planned:
    """Evaluate steps with these numbers of right rollouts; the step is the seed of its weights."""
    maker, said = Planned(0), list[str]()
    evaluations = Evaluations(folder, folder, torch.float16, cast(Maker, maker), ["a", "b"], said.append, no_bar)

    async def all_steps() -> None:
        for step, right in enumerate(plan):
            maker.right = right
            await evaluations.evaluate(step, decoder(seed=step))

    asyncio.run(all_steps())
    evaluations.finish()
    return maker


@pytest.mark.parametrize(("plan", "best"), [([1, 3, 2], 1), ([1, 3, 3], 1), ([2, 2], 0), ([0, 0], 0)])
def test_the_earliest_of_the_best_weights_is_the_model(tmp_path: Path, plan: list[int], best: int) -> None:
    evaluate(tmp_path, plan)
    model, expected = load_decoder(tmp_path / "model"), decoder(seed=best)
    for name, weight in model.state_dict().items():
        assert weight.equal(expected.state_dict()[name].half().to(weight.dtype)), name
    lines = list(read_lines(tmp_path / "evaluations.jsonl", "step"))
    assert [line["mean"] for line in lines] == [right / 4 for right in plan]


def test_an_evaluation_is_made_once_and_its_rollouts_are_the_same_in_every_step(tmp_path: Path) -> None:
    assert evaluate(tmp_path, [1, 3]).made == [("evaluation", "a"), ("evaluation", "b")] * 2
    assert evaluate(tmp_path, [4, 4, 2]).made == [("evaluation", "a"), ("evaluation", "b")], "only step 2 is new"
    means = [line["mean"] for line in read_lines(tmp_path / "evaluations.jsonl", "step")]
    assert means == [0.25, 0.75, 0.5]
    assert load_decoder(tmp_path / "model").state_dict().keys() == decoder().state_dict().keys()


def test_each_problem_has_one_group_in_its_place() -> None:
    names = [str(number) for number in range(300)]
    maker = Planned(1)
    groups = asyncio.run(each_problem(cast(Maker, maker), "stage 2", names, "probe", no_bar))
    assert [one.problem for one in groups] == names
    assert maker.most == maker.at_once, "more would push each other out of the engine's cache"
