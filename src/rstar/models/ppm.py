"""The process preference model (arXiv 2501.04519, section 3.3): how good a step is, from -1 to 1.

The policy's backbone with a scalar head in place of its output matrix; the score of a step is read at its last token,
through a tanh. In a folder it is an ordinary transformers sequence classifier with one label
(``LlamaForSequenceClassification``), whose logit is the score before the tanh.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from rstar.errors import ConfigError
from rstar.models.decoder import Architecture, Decoder, DecoderConfig
from rstar.models.decoder_files import config_json, read_config, read_weights

CLASSES: dict[str, Architecture] = {
    "LlamaForSequenceClassification": "llama",
    "Qwen2ForSequenceClassification": "qwen2",
    "Qwen3ForSequenceClassification": "qwen3",
}


class PreferenceModel(nn.Module):
    """A backbone and a scalar head.

    Args:
        backbone: a decoder, used as it is; its output matrix is not.
        seed: of the head's fresh weights.
    """

    def __init__(self, backbone: Decoder, seed: int = 0) -> None:
        super().__init__()
        self.backbone = backbone
        self.score = nn.Linear(backbone.config.hidden_size, 1, bias=False)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.score.weight.normal_(0.0, backbone.config.initializer_range, generator=generator)

    @property
    def config(self) -> DecoderConfig:
        """The backbone's shape."""
        return self.backbone.config

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.backbone.device

    def scores(self, ids: Tensor) -> Tensor:
        """The score of every prefix: (B, T) token ids to (B, T) values in [-1, 1], float32.

        Padding at the right changes nothing before it.
        """
        return torch.tanh(self.score(self.backbone.hidden(ids)).squeeze(-1).float())

    def forward(self, ids: Tensor, last: Tensor) -> Tensor:
        """The score at token `last` (B,) of each row of `ids` (B, T): (B,) in [-1, 1], float32."""
        hidden = self.backbone.hidden(ids)  # (B, T, D)
        ends = hidden[torch.arange(len(ids), device=ids.device), last]
        return torch.tanh(self.score(ends).squeeze(-1).float())


def save_ppm(model: PreferenceModel, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write ``config.json`` and ``model.safetensors`` (weights cast to `dtype`) into `folder`, made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": tensor for name, tensor in model.backbone.model.state_dict().items()}
    weights["score.weight"] = model.score.weight
    stored = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in weights.items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = config_json(model.config, dtype)
    config |= {
        "architectures": [next(name for name, value in CLASSES.items() if value == model.config.architecture)],
        "id2label": {"0": "score"},
        "label2id": {"score": 0},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_ppm(folder: Path, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> PreferenceModel:
    """The model in `folder`, its weights cast to `dtype`.

    Raises:
        ConfigError: no PPM, missing files, or weights that do not fit the configuration.
    """
    config = read_config(folder, CLASSES)
    weights = read_weights(folder)
    head = weights.pop("score.weight", None)
    if head is None or tuple(head.shape) != (1, config.hidden_size):
        raise ConfigError(f"{folder}: no score head of one label")
    model = PreferenceModel(Decoder(config, seed=None))
    stack = {name.removeprefix("model."): tensor for name, tensor in weights.items() if name.startswith("model.")}
    wanted = {name: tuple(tensor.shape) for name, tensor in model.backbone.model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in stack.items()}
    if wanted != found:
        odd = sorted(set(wanted.items()) ^ set(found.items()))[:4]
        raise ConfigError(f"{folder}: weights do not fit config.json, for example {odd}")
    model.backbone.model.load_state_dict(stack)
    model.score.load_state_dict({"weight": head})
    return model.to(device, dtype)


class Scorer:
    """A PPM with its tokenizer, for texts; several threads take turns.

    Args:
        folder: what `save_ppm` wrote, with the tokenizer of the policy.
        batch_tokens: most tokens of one forward pass, padding included (a longer text is alone).

    Raises:
        ConfigError: as `load_ppm`, or there is no tokenizer.
    """

    def __init__(self, folder: Path, batch_tokens: int = 8192) -> None:
        if not (folder / "tokenizer.json").is_file():
            raise ConfigError(f"{folder}: tokenizer.json is missing")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._model = load_ppm(folder)
        self._batch_tokens = batch_tokens
        self._turn = threading.Lock()

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float | None]:
        """The score of each continuation of a prompt at its last token, in [-1, 1]; None where it is too long."""
        start = self._encode(prompt)
        rows = [start + self._encode(text) for text in continuations]
        found: list[float | None] = [None] * len(rows)
        most = self._model.config.max_position_embeddings
        order = sorted(
            (place for place, row in enumerate(rows) if len(row) <= most), key=lambda place: len(rows[place])
        )
        with self._turn, torch.no_grad():
            while order:
                count = max(1, self._batch_tokens // len(rows[order[-1]]))
                some, order = order[-count:], order[:-count]
                ids = torch.zeros(len(some), max(len(rows[place]) for place in some), dtype=torch.int64)
                for at, place in enumerate(some):
                    ids[at, : len(rows[place])] = torch.tensor(rows[place])
                last = torch.tensor([len(rows[place]) - 1 for place in some])
                for place, value in zip(some, self._model(ids, last).tolist(), strict=True):
                    found[place] = value
        return found

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
