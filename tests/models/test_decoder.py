"""The decoder against transformers, packing against single sequences, files there and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from rstar.errors import ConfigError
from rstar.models import decoder
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import load_decoder, read_config, read_tokenizer, read_weights, save_decoder

SHAPE = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
THEIRS = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False),
    "llama-tied-biased": LlamaConfig(**SHAPE, tie_word_embeddings=True, attention_bias=True),
    "llama3-rope": LlamaConfig(**SHAPE, rope_parameters=LLAMA3),
    "qwen2": Qwen2Config(**SHAPE, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SHAPE, head_dim=16, tie_word_embeddings=False),
}


def disturb(model: torch.nn.Module) -> None:
    """Fresh norms and biases are ones and zeros, which hides errors in their use."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


def token_ids(rows: int = 3, length: int = 40) -> torch.Tensor:
    return torch.randint(0, 97, (rows, length), generator=torch.Generator().manual_seed(2))


def small(**changes: object) -> DecoderConfig:
    shape = {k: v for k, v in SHAPE.items() if k not in ("eos_token_id", "bos_token_id")}
    return DecoderConfig(**{**shape, "head_dim": 8, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", THEIRS)
def test_logits_equal_transformers(kind: str, tmp_path: Path) -> None:
    theirs = AutoModelForCausalLM.from_config(THEIRS[kind]).eval()
    disturb(theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_decoder(tmp_path / "theirs")
    ids = token_ids()
    with torch.no_grad():
        expected = theirs(ids).logits
        torch.testing.assert_close(ours(ids), expected, atol=1e-5, rtol=1e-5)
        save_decoder(ours, tmp_path / "ours", torch.float32)
        again = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", dtype=torch.float32).eval()
        torch.testing.assert_close(again(ids).logits, expected, atol=1e-6, rtol=1e-6)
    assert again.generation_config.eos_token_id == 2


def test_sharded_folder(tmp_path: Path) -> None:
    theirs = AutoModelForCausalLM.from_config(THEIRS["llama"])
    theirs.save_pretrained(tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with torch.no_grad():
        torch.testing.assert_close(
            load_decoder(tmp_path)(token_ids()), theirs(token_ids()).logits, atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_config_round_trip(architecture: str, tmp_path: Path) -> None:
    biased = architecture == "qwen2"
    config = small(architecture=architecture, qkv_bias=biased, eos_token_ids=(2, 5), bos_token_id=1, rope_theta=77.0)
    save_decoder(Decoder(config), tmp_path)
    assert read_config(tmp_path) == config
    modes = {file.stat().st_mode for file in tmp_path.iterdir()}
    assert len(modes) == 1, "who may read the one may read the other"
    assert next(iter(load_file(tmp_path / "model.safetensors").values())).dtype == torch.bfloat16


def test_packed_sequences_equal_single_ones() -> None:
    model = Decoder(small())
    disturb(model)
    pieces = [token_ids(1, n)[0] for n in (7, 12, 5)]
    packed = torch.cat(pieces)[None]
    ends = torch.cat([torch.full((len(p),), end) for p, end in zip(pieces, (7, 19, 24), strict=True)])[None]
    with torch.no_grad():
        alone = torch.cat([model(p[None])[0] for p in pieces])
        torch.testing.assert_close(model(packed, ends)[0], alone, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(model(packed)[0], alone, atol=1e-3)


def test_packed_gradients_equal_single_sequences() -> None:
    model = Decoder(small())
    rows = token_ids(2, 6)
    model(rows).square().sum().backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    model(rows.reshape(1, -1), ends=torch.tensor([[6] * 6 + [12] * 6])).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("packed", [False, True])
def test_long_sequences_use_another_kernel_with_the_same_result(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = token_ids(2, 48)
    ends = torch.tensor([[20] * 20 + [48] * 28, [48] * 48]) if packed else None
    found = []
    for fused_length in (49, 48):
        monkeypatch.setattr(decoder, "FUSED_LENGTH", fused_length)
        model = Decoder(small())
        logits = model(ids, ends)
        logits.square().mean().backward()
        found.append([logits.detach(), *(parameter.grad for parameter in model.parameters())])
    for plain, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-5)


def test_right_padding_changes_nothing_before_it() -> None:
    model = Decoder(small())
    ids = token_ids(1, 20)
    with torch.no_grad():
        torch.testing.assert_close(model(ids)[:, :9], model(ids[:, :9]), atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(model.logits(model.hidden(ids)), model(ids))


def test_fresh_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(5)
    first, second, other = Decoder(small(), 3), Decoder(small(), 3), Decoder(small(), 4)
    ids = token_ids()
    assert torch.equal(first(ids), second(ids))
    assert not torch.equal(first(ids), other(ids))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"use_sliding_window": True}, "sliding window"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"hidden_act": "gelu"}, "gelu"),
    ],
)
def test_unsupported_models_are_named(change: dict[str, object], named: str, tmp_path: Path) -> None:
    save_decoder(Decoder(small()), tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | change))
    with pytest.raises(ConfigError, match=named) as caught:
        load_decoder(tmp_path)
    assert "openai:" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"architectures": 3}, {"hidden_size": None}, {"vocab_size": "many"}, {"num_hidden_layers": 0},
     {"rope_parameters": [1]}, {"num_attention_heads": 0}],
)  # fmt: skip
def test_damaged_configurations_are_named(change: dict[str, object], tmp_path: Path) -> None:
    save_decoder(Decoder(small()), tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | change))
    with pytest.raises(ConfigError, match=str(tmp_path)):
        load_decoder(tmp_path)


def test_damaged_tokenizers_and_indices_are_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ConfigError, match=r"tokenizer\.json: "):
        read_tokenizer(tmp_path)
    for damaged in ("{}", '{"weight_map": 3}', '{"weight_map": {"a": 1, "b": "c"}}'):
        (tmp_path / "model.safetensors.index.json").write_text(damaged)
        with pytest.raises(ConfigError, match="not an index of model weights"):
            read_weights(tmp_path)


def test_broken_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        load_decoder(tmp_path)
    save_decoder(Decoder(small()), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("model.norm.weight")
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"model\.norm\.weight"):
        load_decoder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"model\.safetensors is missing"):
        load_decoder(tmp_path)


def test_config_files_cannot_lie_about_biases(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="qkv_bias"):
        save_decoder(Decoder(small(qkv_bias=True)), tmp_path)
