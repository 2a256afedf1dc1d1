"""Transformers model folders: load a `Decoder`, or save one that transformers, vLLM and others can load.

A folder holds ``config.json``, ``model.safetensors`` (or shards with ``model.safetensors.index.json``) and the
tokenizer's files, which `copy_tokenizer` copies unchanged.

What the decoder does not support (an unknown architecture, a sliding window, quantised weights) raises a `ConfigError`
that names it, so a model is never computed differently in silence.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from rstar.errors import ConfigError
from rstar.models.decoder import Architecture, Decoder, DecoderConfig, RopeScaling

CLASSES: dict[str, Architecture] = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
    "generation_config.json", "vocab.json", "merges.txt", "added_tokens.json", "tokenizer.model",
)  # fmt: skip
SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "max_position_embeddings",
)  # fmt: skip
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_ADVICE = "serve it (for example with vLLM) and use it as openai:URL#MODEL"


def read_config(folder: Path, classes: Mapping[str, Architecture] = CLASSES) -> DecoderConfig:
    """Read the shape of the model in `folder`, whose class must be one of `classes`.

    Raises:
        ConfigError: no readable ``config.json``, or a model that the decoder does not support.
    """
    raw = _read_json(folder / "config.json")
    names = raw.get("architectures") or []
    names = names if isinstance(names, list) else [names]
    architecture = classes.get(str(names[0])) if names else None
    if architecture is None:
        named = ", ".join(map(str, names)) or "(none)"
        raise ConfigError(f"{folder}: architecture {named} is not one of {', '.join(classes)}; {_ADVICE}")
    try:
        return _config(raw, architecture, folder)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{folder / 'config.json'}: not a model configuration: {error!r}") from error


def _config(raw: dict[str, Any], architecture: Architecture, folder: Path) -> DecoderConfig:
    _refuse_unsupported(raw, folder)
    theta, scaling = _rope(raw, folder)
    for name in SIZES:
        if type(raw[name]) is not int or raw[name] < 1:
            raise ValueError(f"{name} = {raw[name]!r}")
    heads = raw["num_attention_heads"]
    biased = bool(raw.get("attention_bias", False))
    eos = raw.get("eos_token_id")
    return DecoderConfig(
        architecture=architecture,
        **{name: raw[name] for name in SIZES},
        num_key_value_heads=raw.get("num_key_value_heads") or heads,
        head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
        rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=architecture == "qwen2" or biased,
        output_bias=architecture != "qwen2" and biased,
        bos_token_id=raw.get("bos_token_id"),
        eos_token_ids=() if eos is None else tuple(eos) if isinstance(eos, list) else (eos,),
        pad_token_id=raw.get("pad_token_id"),
        initializer_range=raw.get("initializer_range", 0.02),
    )


def _refuse_unsupported(raw: dict[str, Any], folder: Path) -> None:
    layers = raw.get("layer_types") or []
    unsupported = {
        "quantised weights": raw.get("quantization_config"),
        "a sliding window": raw.get("use_sliding_window") or any(kind != "full_attention" for kind in layers),
        "biases in the MLP": raw.get("mlp_bias"),
        f"activation {raw.get('hidden_act')}": raw.get("hidden_act", "silu") != "silu",
        "partial rotary positions": raw.get("partial_rotary_factor", 1.0) != 1.0,
    }
    if present := [feature for feature, value in unsupported.items() if value]:
        raise ConfigError(f"{folder}: {', '.join(present)} is not supported; {_ADVICE}")


def _rope(raw: dict[str, Any], folder: Path) -> tuple[float, RopeScaling | None]:
    # transformers 5 writes everything into rope_parameters; earlier versions use rope_theta and rope_scaling.
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10000.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ConfigError(f"{folder}: rotary scaling {kind!r} is not one of default, llama3; {_ADVICE}")
    return theta, RopeScaling(**{key: rope[key] for key in RopeScaling.__slots__})


def load_decoder(folder: Path, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> Decoder:
    """Load the model in `folder`, its weights cast to `dtype`.

    Raises:
        ConfigError: unsupported model, missing files, or weights that do not match the configuration.
    """
    return build_decoder(read_config(folder), read_weights(folder), str(folder), dtype).to(device)


def build_decoder(
    config: DecoderConfig, stored: Mapping[str, Tensor], where: str, dtype: torch.dtype = torch.float32
) -> Decoder:
    """Build a decoder of shape `config` from `stored` weights, cast to `dtype`.

    Raises:
        ConfigError: the weights do not match; the message begins with `where`.
    """
    weights = {name: tensor.to(dtype) for name, tensor in stored.items()}
    if config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    with torch.device("meta"):
        model = Decoder(config, seed=None)
    weights = {name: tensor for name, tensor in weights.items() if not name.endswith("rotary_emb.inv_freq")}
    check_shapes(model.state_dict(), weights, where)
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model


def check_shapes(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor], where: str) -> None:
    """Raise `ConfigError`, its message starting with `where`, if names or shapes of weights differ."""
    shapes = ({(name, tuple(tensor.shape)) for name, tensor in weights.items()} for weights in (expected, stored))
    if mismatched := sorted(set.symmetric_difference(*shapes))[:4]:
        raise ConfigError(f"{where}: weights do not fit config.json, for example {mismatched}")


def save_decoder(model: Decoder, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write ``config.json`` and ``model.safetensors`` (weights cast to `dtype`) to `folder`, created if missing."""
    write_model(folder, config_json(model.config, dtype), model.state_dict(), dtype)


def write_model(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """Write ``config.json`` and ``model.safetensors`` (weights cast to `dtype`) to `folder`, created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    stored = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in weights.items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    # safetensors makes its files readable by the owner only, whatever the umask
    shutil.copymode(folder / "config.json", folder / "model.safetensors")


def read_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer of the model in `folder`. Raises `ConfigError` if it is missing or damaged."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ConfigError(f"{folder}: tokenizer.json is missing")
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise ConfigError(f"{file}: {error}") from error


def copy_tokenizer(source: Path, target: Path, max_context: int = 0) -> None:
    """Copy the tokenizer files from one model folder to another.

    A limit on the context in them that is lower than `max_context`, in tokens, is raised to it.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    settings = target / "tokenizer_config.json"
    if max_context and settings.is_file():
        raw = json.loads(settings.read_text(encoding="utf-8"))
        if raw.get("model_max_length", max_context) < max_context:
            raw["model_max_length"] = max_context
            settings.write_text(json.dumps(raw, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def config_json(config: DecoderConfig, dtype: torch.dtype) -> dict[str, Any]:
    """Content of ``config.json`` for a causal model. Raises `ConfigError` if the biases cannot be expressed in it."""
    raw = asdict(config)
    architecture, scaling, eos = raw.pop("architecture"), raw.pop("rope_scaling"), raw.pop("eos_token_ids")
    qkv_bias, output_bias = raw.pop("qkv_bias"), raw.pop("output_bias")
    expected = (True, False) if architecture == "qwen2" else (output_bias, output_bias)
    if (qkv_bias, output_bias) != expected:
        raise ConfigError(f"{architecture} has no config file for qkv_bias={qkv_bias} with output_bias={output_bias}")
    return {
        "architectures": [next(name for name, value in CLASSES.items() if value == architecture)],
        "model_type": architecture,
        **raw,
        "rope_scaling": {"rope_type": "llama3", **scaling} if scaling else None,
        "eos_token_id": eos[0] if len(eos) == 1 else list(eos) or None,
        "attention_bias": output_bias,
        "hidden_act": "silu",
        "use_cache": True,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path.parent} is not a model folder: {path.name} is missing") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a JSON object")
    return value


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All stored tensors of a folder, by name. Raises `ConfigError` that names the missing or damaged file."""
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        try:
            names = sorted(set(_read_json(index)["weight_map"].values()))
        except (AttributeError, LookupError, TypeError) as error:
            raise ConfigError(f"{index}: not an index of model weights: {error!r}") from error
    weights: dict[str, Tensor] = {}
    for name in names:
        try:
            weights |= load_file(folder / name)
        except FileNotFoundError:
            raise ConfigError(f"{folder}: {name} is missing") from None
        except (OSError, SafetensorError) as error:
            raise ConfigError(f"{folder / name}: {error}") from error
    return weights
