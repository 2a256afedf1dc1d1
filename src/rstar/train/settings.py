"""Training settings. One file per run, `recipes/*.toml`; unknown keys are refused."""

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

    vocab_size: int = Field(1536, ge=300, description="entries, markers and phrases included")
    sample: int = Field(40_000, ge=100, description="solutions that it is trained on")
    phrase_share: float = Field(
        0.002, gt=0, description="a block of code that this share of the solutions repeats literally is one token"
    )


class ShapeConfig(Section):
    """Shape of a fresh Llama model."""

    hidden_size: int = Field(192, ge=8, description="width of the model")
    layers: int = Field(6, ge=1, description="blocks")
    heads: int = Field(6, ge=1, description="heads of attention; they share the width")
    kv_heads: int = Field(3, ge=1, description="heads of keys and values; they divide `heads`")
    intermediate_size: int = Field(512, ge=8, description="width of the MLP")
    max_context: int = Field(1024, ge=64, description="longest sequence the model will be used with, tokens")


class TrainConfig(Section):
    """Supervised fine-tuning, or training from scratch if `base` is not set."""

    base: Path | None = Field(None, description="transformers folder to start from; unset: a fresh model of `shape`")
    tokenizer: TokenizerConfig = TokenizerConfig()
    shape: ShapeConfig = ShapeConfig()
    tokens: int = Field(1_000_000, ge=1, description="tokens to train on, prompts included; data repeats as needed")
    epochs: float | None = Field(None, gt=0, description="passes over the data, instead of `tokens`")
    curriculum: bool = Field(
        True, description="several data files are stages, in their order in every pass; else one set"
    )
    batch_tokens: int = Field(8192, ge=64, description="tokens of one step, padding included")
    micro_tokens: int = Field(
        2048, ge=64, description="tokens of one forward pass, of sequences of similar length; less needs less memory"
    )
    packing: bool = Field(
        False,
        description="sft: sequences share rows without seeing each other. Less padding where a micro-batch holds many "
        "lengths; slower on a CPU, whose attention computes whole rows",
    )
    optimizer: Literal["muon", "adamw"] = Field("muon", description="muon: for the matrices of the blocks; else AdamW")
    matrix_lr: float = Field(0.02, gt=0, description="learning rate of Muon")
    other_lr: float = Field(3e-3, gt=0, description="learning rate of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="of AdamW and of Muon, decoupled")
    warmup_tokens: int = Field(300_000, ge=0, description="tokens at the beginning with a rising rate")
    decay: float = Field(0.5, ge=0, le=1, description="share of the steps at the end with a falling rate")
    clip: float = Field(1.0, gt=0, description="largest gradient norm")
    bf16: bool | Literal["auto"] = Field(
        "auto",
        description="compute in bfloat16 (weights and optimizer stay in float32); auto: where the hardware does. "
        "A run that is continued goes on as it began",
    )
    seed: int = Field(0, ge=0, description="of the fresh weights and of the order of the data")
    device: str = Field("auto", description="cpu, cuda, cuda:1 …; auto: an accelerator where there is one")
    threads: int | None = Field(None, ge=1, description="processor threads of each process; unset: torch's choice")
    checkpoint_seconds: float = Field(120.0, gt=0, description="time between checkpoints")
    tensorboard: bool = Field(True, description="write event files for TensorBoard, into `tensorboard` of the folder")
    wandb: str | None = Field(None, description="a project of Weights & Biases that gets the metrics, too")

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
