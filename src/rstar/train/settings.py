"""Training settings. One file per run, `recipes/*.toml`; unknown keys are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field

from rstar.sections import Section, checked, flatten, override, read_toml

CHANGEABLE = frozenset({"device", "threads", "checkpoint_seconds", "tensorboard", "wandb"})
"""Settings that may change on resume."""


class TokenizerConfig(Section):
    """A byte-level BPE tokenizer trained from scratch."""

    vocab_size: int = Field(1536, ge=300, description="number of tokens, including markers and phrases")
    sample: int = Field(40_000, ge=100, description="number of solutions to train the tokenizer on")
    phrase_share: float = Field(
        0.002,
        gt=0,
        description="minimum share of solutions that must contain a code block for it to become one token",
    )


class ShapeConfig(Section):
    """Shape of a fresh Llama model."""

    hidden_size: int = Field(192, ge=8, description="width of the residual stream")
    layers: int = Field(6, ge=1, description="number of blocks")
    heads: int = Field(6, ge=1, description="number of attention heads, each of width hidden_size / heads")
    kv_heads: int = Field(3, ge=1, description="number of key-value heads; divides `heads`")
    intermediate_size: int = Field(512, ge=8, description="width of the MLP")
    max_context: int = Field(
        1024,
        ge=64,
        description="maximum sequence length, tokens; longer sequences are dropped. A `base` whose limit is lower gets "
        "this limit",
    )


class TrainConfig(Section):
    """Supervised fine-tuning, or training from scratch if `base` is not set."""

    base: Path | None = Field(None, description="model folder to start from; unset: a new model, described by `shape`")
    tokenizer: TokenizerConfig = TokenizerConfig()
    shape: ShapeConfig = ShapeConfig()
    tokens: int = Field(
        1_000_000, ge=1, description="number of training tokens, prompts included; data repeats as needed"
    )
    epochs: float | None = Field(None, gt=0, description="number of passes over the data; overrides `tokens`")
    curriculum: bool = Field(
        True, description="true: every pass reads the data files in order; false: the files are mixed"
    )
    batch_tokens: int = Field(8192, ge=64, description="tokens per step, padding included")
    micro_tokens: int = Field(
        2048,
        ge=64,
        description="tokens per forward pass, in sequences of similar length; fewer tokens need less memory",
    )
    packing: bool = Field(
        False,
        description="sft: pack sequences into shared rows, where each sequence attends only to itself. Packing reduces "
        "padding if lengths differ within a micro-batch; it is slower on a CPU, where attention covers whole rows",
    )
    optimizer: Literal["muon", "adamw", "sgd"] = Field(
        "muon", description="muon (AdamW for weights outside the blocks' matrices) | adamw | sgd (with momentum)"
    )
    matrix_lr: float = Field(0.02, gt=0, description="learning rate for Muon")
    other_lr: float = Field(3e-3, gt=0, description="learning rate for AdamW and SGD")
    weight_decay: float = Field(
        0.0,
        ge=0,
        description="decoupled weight decay (with sgd: added to the gradient); with muon, applied only to the matrices "
        "that Muon trains",
    )
    warmup_tokens: int = Field(300_000, ge=0, description="number of tokens in the linear warmup of the learning rates")
    decay: float = Field(
        0.5, ge=0, le=1, description="share of the steps in the final, linear decay of the learning rates to 0"
    )
    clip: float = Field(1.0, gt=0, description="maximum gradient norm")
    bf16: bool | Literal["auto"] = Field(
        "auto",
        description="compute in bfloat16 (weights and optimizer stay in float32); auto: if the hardware supports it. "
        "A resumed run keeps the original choice",
    )
    save_dtype: Literal["bfloat16", "float16", "float32"] = Field(
        "bfloat16",
        description="dtype of the finished model. bfloat16 has 8 significant bits, so it loses changes below 0.2% of a "
        "weight; float16 has 11, in the same space",
    )
    seed: int = Field(0, ge=0, description="seed for new weights and for the order of the data")
    device: str = Field("auto", description="cpu, cuda, cuda:1 …; auto: an accelerator if available")
    threads: int | None = Field(None, ge=1, description="CPU threads per process; unset: torch's choice")
    checkpoint_seconds: float = Field(120.0, gt=0, description="seconds between checkpoints")
    tensorboard: bool = Field(True, description="write TensorBoard event files to OUT/tensorboard")
    wandb: str | None = Field(None, description="Weights & Biases project that also receives the metrics")

    def identity(self) -> dict[str, Any]:
        """Flat settings that determine the weights, without those for device, speed and logging."""
        return {key: value for key, value in flatten(self.model_dump(mode="json")).items() if key not in CHANGEABLE}


C = TypeVar("C", bound=TrainConfig)


def read_train_config(file: Path, kind: type[C], overrides: Sequence[str] = ()) -> C:
    """Read the training configuration from a TOML file, with `overrides` (see `rstar.sections.override`).

    Raises:
        ConfigError: names the file and every invalid key.
    """
    tree = read_toml(file)
    override(tree, overrides)
    return checked(kind, tree, str(file))
