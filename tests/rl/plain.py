"""Small models and rollouts for tests of the update."""

import random

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.rl.batches import Weighted
from rstar.trajectories import Segment, Step, Trajectory

VOCABULARY = 40


def decoder(seed: int = 0) -> Decoder:
    """Two small layers."""
    config = DecoderConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
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
        found.append(Weighted(Trajectory(prompt, tuple(steps), "answer"), rng.randint(1, 3), rng.uniform(-2, 2)))
    return found


def _turn(rng: random.Random) -> Step:
    return Step((_written(rng), Segment("", "tool", _ids(rng, rng.randint(1, 6)))))


def _written(rng: random.Random) -> Segment:
    ids = _ids(rng, rng.randint(1, 8))
    return Segment("", "policy", ids, tuple(-rng.uniform(0.5, 6) for _ in ids))


def _ids(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.randrange(1, VOCABULARY) for _ in range(length))
