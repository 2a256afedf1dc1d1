"""Small models and rollouts for tests of the update."""

import random

import torch
from torch import Tensor

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.rl.batches import Weighted
from rstar.trajectories import Segment, Step, Trajectory

VOCABULARY = 40


def decoder(seed: int = 0, vocabulary: int = VOCABULARY) -> Decoder:
    """Two small layers."""
    config = DecoderConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=2048,
        eos_token_ids=(0,),
        pad_token_id=0,
    )
    return Decoder(config, seed=seed)


def group(rng: random.Random, size: int) -> list[Weighted]:
    """Rollouts that share a prompt, and some of them their first turn."""
    prompt = Segment("", "template", _ids(rng, 5))
    firsts = [_turn(rng) for _ in range(2)]
    found: list[Weighted] = []
    for _ in range(size):
        steps = [rng.choice(firsts), *(_turn(rng) for _ in range(rng.randrange(3)))]
        steps.append(Step((_written(rng),)))
        trajectory = Trajectory(prompt, tuple(steps), "answer")
        baselines = tuple(rng.uniform(-1, 1) for part in trajectory.segments if part.author == "policy")
        found.append(Weighted(trajectory, rng.randint(1, 3), rng.uniform(-2, 2), baselines))
    return found


def advantages(one: Weighted) -> Tensor:
    """The advantage of each token that the policy wrote."""
    parts = [part for part in one.trajectory.segments if part.author == "policy"]
    pairs = zip(parts, one.baselines, strict=True)
    return torch.tensor([one.advantage - baseline for part, baseline in pairs for _ in part.ids])


def moved(model: Decoder, by: float = 0.02) -> Decoder:
    """The model with weights a little way off, as after an update."""
    other = Decoder(model.config)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for weight in other.parameters():
            weight += by * torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
    return other


def plain_logprobs(model: Decoder, one: Weighted) -> Tensor:
    """Log-probabilities of the tokens that the policy wrote, of one rollout alone."""
    ids = torch.tensor([one.trajectory.ids])
    logs = torch.log_softmax(model(ids[:, :-1]).float(), -1)[0].gather(1, ids[0, 1:, None])[:, 0]
    return logs[torch.tensor(written(one)[1:])]


def written(one: Weighted) -> list[bool]:
    """Which tokens of a rollout, prompt included, the policy wrote."""
    found = [False] * len(one.trajectory.prompt.ids)
    for segment in one.trajectory.segments:
        found += [segment.author == "policy"] * len(segment.ids)
    return found


def _turn(rng: random.Random) -> Step:
    return Step((_written(rng), Segment("", "tool", _ids(rng, rng.randint(1, 6)))))


def _written(rng: random.Random) -> Segment:
    ids = _ids(rng, rng.randint(1, 8))
    return Segment("", "policy", ids, tuple(-rng.uniform(0.5, 6) for _ in ids))


def _ids(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.randrange(1, VOCABULARY) for _ in range(length))
