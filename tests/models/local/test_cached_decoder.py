"""The cached form of the decoder: equal to the plain one, and to itself bit for bit however its work is divided."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from rstar.models.decoder import Decoder, DecoderConfig, RopeScaling
from rstar.models.local.cached_decoder import CachedDecoder

SHAPES = {
    "mha": {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 32},
    "gqa2": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32},
    "gqa3": {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16},
    "gqa4": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64},
    "qwen2": {
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "architecture": "qwen2", "qkv_bias": True,
    },
    "qwen3": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "architecture": "qwen3"},
    "llama3": {
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "rope_scaling": RopeScaling(4, 1, 4, 64),
    },
}  # fmt: skip


def build(shape: str, rows: int = 32, dtype: torch.dtype = torch.float32) -> tuple[Decoder, CachedDecoder]:
    config = DecoderConfig(
        vocab_size=200, hidden_size=72, intermediate_size=144, num_hidden_layers=3, max_position_embeddings=512,
        initializer_range=0.3, **SHAPES[shape],
    )  # type: ignore[arg-type]  # fmt: skip
    decoder = Decoder(config)
    return decoder, CachedDecoder(decoder, rows, dtype, torch.device("cpu"))


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(0, 200, (rows, length), generator=torch.Generator().manual_seed(rows + length))


def decode(model: CachedDecoder, ids: torch.Tensor, start: int, first: int = 0) -> torch.Tensor:
    """Feed `ids` (R, T) one token at a time behind `start` positions."""
    logits = torch.empty(0)
    for i in range(ids.shape[1]):
        logits = model.forward(first, ids[:, i : i + 1], torch.full((len(ids),), start + i))
    return logits


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_logits_equal_the_decoder(shape: str, dtype: torch.dtype) -> None:
    """float64 takes the way of accelerators."""
    decoder, model = build(shape, dtype=dtype)
    ids = tokens(8, 50)
    model.forward(0, ids[:, :32], torch.zeros(8, dtype=torch.int64), torch.full((8,), 31))
    torch.testing.assert_close(decode(model, ids[:, 32:], 32), decoder(ids)[:, -1], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_the_division_of_work_does_not_show(shape: str) -> None:
    _, model = build(shape)
    ids, zeros = tokens(16, 80), torch.zeros(16, dtype=torch.int64)
    at_once = model.forward(0, ids, zeros, torch.full((16,), 79))
    one_row = model.forward(0, ids[3:4], zeros[:1], torch.tensor([79]))
    assert torch.equal(one_row[0], at_once[3])
    padded = torch.cat((ids, tokens(16, 48)), dim=1)
    assert torch.equal(model.forward(16, padded, zeros, torch.full((16,), 79)), at_once)
    model.forward(0, ids[:, :48], zeros, torch.full((16,), 47))
    assert torch.equal(model.forward(0, ids[:, 48:], zeros + 48, torch.full((16,), 31)), at_once)
    model.forward(0, ids[:, :64], zeros, torch.full((16,), 63))
    assert torch.equal(decode(model, ids[:, 64:], 64), at_once)


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_company_of_other_lengths_does_not_show(shape: str) -> None:
    _, model = build(shape)
    ids = tokens(32, 40)
    model.forward(0, ids[:, :32], torch.zeros(32, dtype=torch.int64), torch.full((32,), 31))
    alone = model.forward(0, ids[:16, 32:33], torch.full((16,), 32))
    starts = torch.cat((torch.full((16,), 32), torch.arange(16)))
    assert torch.equal(model.forward(0, ids[:, 32:33], starts)[:16], alone)
    far = torch.cat((torch.full((16,), 32), torch.full((16,), 300)))
    assert torch.equal(model.forward(0, ids[:, 32:33], far)[:16], alone)


@pytest.mark.parametrize("length", [48, 112, 144, 208, 272, 400, 784])
@torch.no_grad()
def test_neither_length_nor_padding_shows(length: int) -> None:
    """With contexts of all sizes; kernels add up differently for some of them."""
    _, model = build("gqa2")
    ids, zeros = tokens(8, length), torch.zeros(8, dtype=torch.int64)
    at_once = model.forward(0, ids, zeros, torch.full((8,), length - 1))
    one_row = model.forward(8, torch.cat((ids[3:4], tokens(1, 64)), 1), zeros[:1], torch.tensor([length - 1]))
    assert torch.equal(one_row[0], at_once[3])
    model.forward(0, ids[:, :-16], zeros, torch.full((8,), length - 17))
    starts = torch.cat((torch.full((8,), length - 16), torch.full((8,), 900)))
    beside = model.forward(0, torch.cat((ids[:, -16:], ids[:, :16])), starts, torch.full((16,), 15))
    assert torch.equal(beside[:8], at_once)


@pytest.fixture
def _two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.mark.usefixtures("_two_threads")
@torch.no_grad()
def test_with_two_threads_the_division_of_work_does_not_show_either() -> None:
    _, model = build("gqa2")
    ids, zeros = tokens(16, 65), torch.zeros(16, dtype=torch.int64)
    at_once = model.forward(0, torch.cat((ids, ids[:, :15]), 1), zeros, torch.full((16,), 64))
    model.forward(0, ids[:8, :64], zeros[:8], torch.full((8,), 63))
    assert torch.equal(decode(model, ids[:8, 64:], 64), at_once[:8])


@torch.no_grad()
def test_copied_rows_and_growing_caches_go_on_alike() -> None:
    _, model = build("gqa2")
    ids, zeros = tokens(8, 32), torch.zeros(8, dtype=torch.int64)
    model.forward(0, ids, zeros, torch.full((8,), 31))
    expected = decode(model, ids[:, :1], 32)
    for row in range(8):
        model.copy(7 - row, 8 + row, 0, 32)
    capacity = model.capacity
    model.reserve(2 * capacity)
    assert model.capacity > capacity
    assert torch.equal(decode(model, ids[:, :1].flip(0), 32, first=8), expected.flip(0))


@torch.no_grad()
def test_new_weights_replace_the_old_ones() -> None:
    decoder, model = build("gqa2")
    ids = tokens(8, 16)
    before = model.forward(0, ids, torch.zeros(8, dtype=torch.int64), torch.full((8,), 15))
    for parameter in decoder.parameters():
        parameter.mul_(1.1)
    unchanged = model.forward(0, ids, torch.zeros(8, dtype=torch.int64), torch.full((8,), 15))
    assert torch.equal(before, unchanged)  # the weights are copies
    model.load(decoder)
    after = model.forward(0, ids, torch.zeros(8, dtype=torch.int64), torch.full((8,), 15))
    torch.testing.assert_close(after, decoder(ids)[:, -1], atol=2e-4, rtol=2e-4)
    assert not torch.allclose(before, after, atol=1e-2)
