"""Loss and gradient of an update equal those of TRL's `GRPOTrainer` for the same stored rollouts.

Both get the same tokens, advantages, log-probabilities of the old policy and mask. TRL computes each rollout as a row
of its own with a transformers model; we compute the rollouts of a group as one trie. CISPO differs on purpose: TRL has
no lower bound on the ratio (see the last test).
"""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from rstar.agent.environment import Mathematics
from rstar.agent.rollout import Group as Rollouts
from rstar.agent.turns import CodeTurns
from rstar.config import AgentConfig
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import save_decoder
from rstar.models.engine import Request
from rstar.models.fake import EOS, FakeEngine
from rstar.problems import Problem
from rstar.rl.algorithms import ALGORITHMS
from rstar.rl.batches import Weighted, micro_batches
from rstar.rl.groups import Group, select
from rstar.rl.objective import Clip, Correction, Figures
from rstar.rl.update import PolicyObjective, with_old
from rstar.sandbox.api import Limits
from rstar.seeds import derive
from tests.rl.plain import decoder, moved, plain_logprobs, written
from tests.search.plain import PlainSandbox

CLIP, LIMIT = Clip(0.2, 0.28, 1.5), 512
UNBOUNDED = Clip(1.0, 0.28)
"""No lower bound: a ratio is above 0."""

CASES: dict[str, tuple[Clip, dict[str, Any]]] = {
    "grpo": (CLIP, {"loss_type": "dapo"}),
    "dr-grpo": (CLIP, {"loss_type": "dr_grpo"}),
    "rloo": (CLIP, {"loss_type": "grpo"}),
    "gspo": (Clip(0.003, 0.004), {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    "cispo": (UNBOUNDED, {"loss_type": "cispo"}),
}
"""Our algorithm: bounds of the ratio, and TRL's settings for the same loss."""


@cache
def models() -> tuple[Decoder, Decoder]:
    """The old policy and the new one."""
    old = decoder(1, vocabulary=EOS + 1)
    return old, moved(old, 0.03)


TURNS = (
    "<code>\nprint(6 * 7)<end_of_code>",
    "<code>\nx = 6\nx * y<end_of_code>",
    "It is 42.<answer>\\boxed{42}<end_of_answer>",
    "Nobody knows.",
)


def write(request: Request, sample: int) -> str:
    return TURNS[derive(request.seed, sample) % len(TURNS)]


async def store(file: Path) -> None:
    """Rollouts of an agent for several problems, as a training run stores them."""
    with file.open("w") as out:
        for number, question in enumerate(("6 times 7?", "What is the product of 6 and 7?", "42?")):
            parts = FakeEngine(script=write), Mathematics(), CodeTurns(), PlainSandbox()
            made = Rollouts(Problem(str(number), question), *parts, AgentConfig(max_turns=4), Limits(), seed=number)
            tree = await made.run(12)
            rewards = tuple(float(i % 3 == 0) for i, _ in enumerate(tree.ends(unanswered=True)))
            out.write(json.dumps(Group(str(number), 0, tree, rewards, number).to_json(1)) + "\n")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Group]:
    file = tmp_path_factory.mktemp("run") / "rollouts.jsonl"
    asyncio.run(store(file))
    return [Group.from_json(json.loads(line)) for line in file.read_text().splitlines()]


def ours(name: str, clip: Clip, groups: Sequence[Sequence[Weighted]]) -> tuple[Tensor, dict[str, Tensor], Figures]:
    """Loss, gradient by parameter, and figures."""
    old, model = models()
    model.zero_grad()
    objective = PolicyObjective(ALGORITHMS[name], clip, Correction(None), LIMIT)
    batches = with_old(old, micro_batches(groups, 2000), bf16=False)
    total = sum(objective.loss(model, batch) for batch in batches)
    assert isinstance(total, Tensor)
    loss = total / sum(objective.count(batch) for batch in batches)
    loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return loss.detach(), gradients, objective.take_figures()


def trl(
    settings: dict[str, Any], clip: Clip, rollouts: Sequence[Weighted], folder: Path
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradient by parameter."""
    old, model = models()
    save_decoder(model, folder, torch.float32)
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1}, "a"))
    args = GRPOConfig(
        output_dir=str(folder / "out"), use_cpu=True, bf16=False, report_to="none",
        num_generations=2, per_device_train_batch_size=2, max_completion_length=LIMIT, beta=0.0,
        epsilon=clip.low, epsilon_high=clip.high + (settings["loss_type"] == "cispo"), delta=clip.dual, **settings,
    )  # fmt: skip
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=lambda **_: [0.0],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "a"}]),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="a", eos_token="b"),
    )
    trainer.model.eval()  # the whole batch at once: nothing is divided for gradient accumulation
    loss = trainer._compute_loss(trainer.model, trl_batch(old, rollouts))
    loss.backward()
    gradients = {name: weight.grad for name, weight in trainer.model.named_parameters() if weight.grad is not None}
    return loss.detach(), gradients


def trl_batch(old: Decoder, rollouts: Sequence[Weighted]) -> dict[str, Tensor]:
    """A row per rollout: the prompt padded on the left, the rest on the right, tool responses masked."""
    rows = [one for one in rollouts for _ in range(one.count)]
    prompts = [one.trajectory.prompt.ids for one in rows]
    completions = [one.trajectory.ids[len(prompt) :] for one, prompt in zip(rows, prompts, strict=True)]
    wide, long = max(map(len, prompts)), max(map(len, completions))
    batch = {name: torch.zeros(len(rows), wide, dtype=torch.int64) for name in ("prompt_ids", "prompt_mask")}
    for name in ("completion_ids", "completion_mask", "tool_mask"):
        batch[name] = torch.zeros(len(rows), long, dtype=torch.int64)
    batch["old_per_token_logps"] = torch.zeros(len(rows), long)
    for i, (one, prompt, completion) in enumerate(zip(rows, prompts, completions, strict=True)):
        batch["prompt_ids"][i, wide - len(prompt) :] = torch.tensor(prompt)
        batch["prompt_mask"][i, wide - len(prompt) :] = 1
        batch["completion_ids"][i, : len(completion)] = torch.tensor(completion)
        batch["completion_mask"][i, : len(completion)] = 1
        own = torch.tensor(written(one)[len(prompt) :])
        batch["tool_mask"][i, : len(own)] = own.long()
        with torch.no_grad():
            batch["old_per_token_logps"][i, : len(own)][own] = plain_logprobs(old, one)
    batch["advantages"] = torch.tensor([one.advantage for one in rows])
    batch["num_items_in_batch"] = (batch["completion_mask"] * batch["tool_mask"]).sum()
    return batch


@pytest.mark.parametrize("name", list(CASES))
def test_loss_and_gradient_are_those_of_trl(name: str, stored: list[Group], tmp_path: Path) -> None:
    clip, settings = CASES[name]
    groups = [select(group, ALGORITHMS[name], keep=12, seed=0) for group in stored]
    rollouts = [one for group in groups for one in group]
    assert any(segment.author == "tool" for one in rollouts for segment in one.trajectory.segments)
    assert any(one.count > 1 for one in rollouts)
    loss, gradients, figures = ours(name, clip, groups)
    expected, their_gradients = trl(settings, clip, rollouts, tmp_path)
    assert figures.clipped > 20, "the bounds matter"
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert gradients.keys() == their_gradients.keys()
    for weight, gradient in gradients.items():
        torch.testing.assert_close(gradient, their_gradients[weight], atol=1e-6, rtol=1e-4, msg=weight)


def test_cispo_differs_from_trl_by_the_lower_bound_alone(stored: list[Group], tmp_path: Path) -> None:
    """Tokens whose ratio is below 1 − low have the weight 1 − low here, and their ratio in TRL."""
    groups = [select(group, ALGORITHMS["cispo"], keep=12, seed=0) for group in stored]
    rollouts = [one for group in groups for one in group]
    loss, *_ = ours("cispo", CLIP, groups)
    theirs, _ = trl(CASES["cispo"][1], CLIP, rollouts, tmp_path)
    difference, tokens = torch.tensor(0.0), 0
    with torch.no_grad():
        for one in rollouts:
            new, before = (plain_logprobs(model, one) for model in reversed(models()))
            missing = (1 - CLIP.low - (new - before).exp()).clamp(min=0)
            difference -= one.count * one.advantage * (missing * new).sum()
            tokens += one.count * len(new)
    assert abs(difference) > 1e-3
    assert (loss - theirs).item() == pytest.approx((difference / tokens).item(), abs=1e-6)
