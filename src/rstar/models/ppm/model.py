"""The process preference model (arXiv 2501.04519, section 3.3): scores a step from -1 to 1.

The policy's backbone with a scalar head instead of the output matrix. A step's score is the tanh of the head at its
last token. The model folder is an ordinary transformers sequence classifier with one label
(``LlamaForSequenceClassification``), whose logit is the score before the tanh. With optional inputs
(`rstar.models.ppm.inputs`) it has extra weights that transformers ignores, so only this module scores it correctly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from rstar.errors import ConfigError
from rstar.models.decoder import Architecture, Decoder, DecoderConfig
from rstar.models.decoder_files import check_shapes, config_json, read_config, read_weights, write_model
from rstar.models.ppm.inputs import FEATURES, INPUTS, NUMBERS, Input, Rows

CLASSES: dict[str, Architecture] = {
    "LlamaForSequenceClassification": "llama",
    "Qwen2ForSequenceClassification": "qwen2",
    "Qwen3ForSequenceClassification": "qwen3",
}


class PreferenceModel(nn.Module):
    """Backbone with a scalar head.

    Args:
        backbone: used in place; its output matrix is ignored.
        inputs: optional inputs besides the text.
        seed: seed of the head's fresh weights.
    """

    def __init__(self, backbone: Decoder, inputs: Sequence[Input] = (), seed: int = 0) -> None:
        super().__init__()
        self.backbone = backbone
        self.inputs = tuple(name for name in INPUTS if name in inputs)
        width = backbone.config.hidden_size
        self.score = nn.Linear(width, 1, bias=False)
        self._reads_features = bool({"logprobs", "numbers"} & set(self.inputs))
        if self._reads_features:
            self.features = nn.Linear(FEATURES, width, bias=False)
            nn.init.zeros_(self.features.weight)
        if "numbers" in self.inputs:
            self.numbers = nn.Embedding(NUMBERS, width)
            nn.init.zeros_(self.numbers.weight)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.score.weight.normal_(0.0, backbone.config.initializer_range, generator=generator)

    @property
    def config(self) -> DecoderConfig:
        """Shape of the backbone."""
        return self.backbone.config

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.backbone.device

    def added(self, features: Tensor, numbers: Tensor) -> Tensor | None:
        """What optional inputs add to the token embeddings: (..., D); None without such inputs.

        Args:
            features: (..., `FEATURES`).
            numbers: (...) int64.
        """
        if not self._reads_features:
            return None
        added: Tensor = self.features(features.to(self.features.weight.dtype))
        return added + self.numbers(numbers.to(self.device)) if "numbers" in self.inputs else added

    def forward(self, rows: Rows) -> Tensor:
        """Score each solution at its last token: (N,) in [-1, 1], float32."""
        hidden = self.backbone.hidden(rows.ids, rows.ends, self.added(rows.features, rows.numbers))  # (B, T, D)
        return torch.tanh(cast(Tensor, self.score(hidden[rows.row, rows.last])).squeeze(-1).float())


def save_ppm(model: PreferenceModel, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write ``config.json`` and ``model.safetensors`` (weights cast to `dtype`) to `folder`, created if missing."""
    weights = {f"model.{name}": tensor for name, tensor in model.backbone.model.state_dict().items()}
    weights["score.weight"] = model.score.weight
    weights |= {name: part for name, part in model.state_dict().items() if name.startswith(("features.", "numbers."))}
    config = config_json(model.config, dtype)
    config |= {
        "architectures": [next(name for name, value in CLASSES.items() if value == model.config.architecture)],
        "id2label": {"0": "score"},
        "label2id": {"score": 0},
        "ppm_inputs": list(model.inputs),
    }
    write_model(folder, config, weights, dtype)


def load_ppm(folder: Path, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> PreferenceModel:
    """Load the PPM in `folder`, its weights cast to `dtype`.

    Raises:
        ConfigError: not a PPM, missing files, or weights that do not match the configuration.
    """
    config = read_config(folder, CLASSES)
    inputs = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("ppm_inputs", [])
    if not isinstance(inputs, list) or not all(name in INPUTS for name in inputs):
        raise ConfigError(f"{folder}: unknown inputs {inputs} in config.json; known: {', '.join(INPUTS)}")
    model = PreferenceModel(Decoder(replace(config, tie_word_embeddings=True), seed=None), inputs)  # no output matrix
    stored = read_weights(folder)
    weights = {(f"backbone.{name}" if name.startswith("model.") else name): part for name, part in stored.items()}
    expected = model.state_dict()
    weights = {name: part for name, part in weights.items() if name in expected or "model." in name}
    check_shapes(expected, weights, str(folder))
    model.load_state_dict(weights)
    return model.to(device, dtype)
