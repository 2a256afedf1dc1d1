"""The Llama / Qwen2 / Qwen3 decoder, shared by the trainer and the local engine.

Invariants:

* Parameters have the names that transformers uses (``model.layers.0.self_attn.q_proj.weight``), so a saved model is an
  ordinary transformers folder. `rstar.models.decoder_files` reads and writes it.
* Logits equal those of transformers for the same weights (tested to 1e-5 in float32).
* `Decoder.forward` is for training and scoring: whole sequences, no cache. `rstar.models.local.cached_decoder` is built
  from a `Decoder` and generates with a KV cache.

Not supported: sliding windows, mixtures of experts, quantised weights (serve such models and use ``openai:``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Architecture = Literal["llama", "qwen2", "qwen3"]

FUSED_LENGTH = 384
"""Sequences of at least this many tokens are attended to by torch's fused kernel on the CPU, too; see `attend`."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """``llama3`` scaling of rotary frequencies: low frequencies are divided by `factor`, high ones kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Shape of a decoder; field names are those of a transformers ``config.json``.

    Attributes:
        vocab_size: rows of the embedding.
        hidden_size: width of the residual stream.
        intermediate_size: width of the SwiGLU layer.
        num_hidden_layers: number of blocks.
        num_attention_heads: query heads.
        num_key_value_heads: key and value heads; divides `num_attention_heads`.
        head_dim: width of one head.
        max_position_embeddings: longest sequence, prompt plus completion.
        architecture: model family, which selects the config file written; ``qwen3`` normalises queries and keys.
        rms_norm_eps: epsilon of the norms.
        rope_theta: base of the rotary frequencies.
        rope_scaling: None for plain rotary positions.
        tie_word_embeddings: the output matrix is the embedding.
        qkv_bias: query, key and value projections have a bias (always true for qwen2).
        output_bias: the attention's output projection has a bias.
        bos_token_id: beginning-of-text token, or None.
        eos_token_ids: tokens that end a text.
        pad_token_id: written to the config file; not used in computation.
        initializer_range: standard deviation of fresh weights.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    architecture: Architecture = "llama"
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    tie_word_embeddings: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    initializer_range: float = 0.02

    @property
    def qk_norm(self) -> bool:
        """Whether queries and keys are normalised per head before rotation."""
        return self.architecture == "qwen3"

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.num_attention_heads // self.num_key_value_heads


def inverse_frequencies(config: DecoderConfig) -> Tensor:
    """Rotary angle per position for each pair of dimensions: (head_dim / 2,) float32."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    inverse = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope_scaling
    if scaling is None:
        return inverse
    turns = scaling.original_max_position_embeddings * inverse / (2 * math.pi)
    smooth = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    smooth = smooth.clamp(0.0, 1.0)
    return (1 - smooth) * inverse / scaling.factor + smooth * inverse


def rotary(inverse: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of `positions` (...): two float32 tensors (..., head_dim)."""
    angles = positions[..., None].float() * inverse
    doubled = torch.cat((angles, angles), dim=-1)
    return doubled.cos(), doubled.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to `x` (..., head_dim); `cos` and `sin` broadcast against it."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` (..., width); shape and dtype are kept."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * normed.to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query attention over whole sequences."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        width, dim = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(width, config.num_attention_heads * dim, bias=config.qkv_bias)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * dim, bias=config.qkv_bias)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * dim, bias=config.qkv_bias)
        self.o_proj = nn.Linear(config.num_attention_heads * dim, width, bias=config.output_bias)
        if config.qk_norm:
            self.q_norm = RMSNorm(dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(dim, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor | None) -> Tensor:
        """`x` (B, T, D); `cos`, `sin` (B or 1, 1, T, head_dim); `bias` as in `attend`."""
        config = self.config
        rows, length, _ = x.shape
        shape = (rows, length, -1, config.head_dim)
        q, k, v = self.q_proj(x).view(shape), self.k_proj(x).view(shape), self.v_proj(x).view(shape)
        if config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        cos, sin = cos.to(v.dtype), sin.to(v.dtype)
        q = rotate(q.transpose(1, 2), cos, sin)
        k = rotate(k.transpose(1, 2), cos, sin)
        mixed = attend(q, k, v.transpose(1, 2), bias)
        return cast(Tensor, self.o_proj(mixed.transpose(1, 2).reshape(rows, length, -1)))


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Attention of `q` (B, H, T, C) over `k`, `v` (B, K, T, C), H a multiple of K.

    `bias` (B or 1, 1, T, T) is added to the scores; None means causal attention. On the CPU, sequences shorter than
    `FUSED_LENGTH` require a bias: for them, plain matrix products are 15 to 30% faster than torch's fused kernel (with
    AVX-512). With 1,024 tokens, they take 3.6 times as long, forward and backward (with AVX2).
    """
    rows, heads, length, dim = q.shape
    if q.device.type != "cpu" or length >= FUSED_LENGTH:
        mask = None if bias is None else bias.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
    assert bias is not None
    groups = heads // k.shape[1]
    grouped = (q * dim**-0.5).reshape(rows, heads // groups, groups * length, dim)
    scores = (grouped @ k.transpose(-1, -2)).view(rows, heads, length, length)
    weights = torch.softmax(scores + bias.to(scores.dtype), dim=-1).to(v.dtype)
    return (weights.view(rows, heads // groups, groups * length, length) @ v).view(rows, heads, length, dim)


def visible(length: int, ends: Tensor | None, device: torch.device) -> Tensor:
    """Attention mask, last dimension the tokens attended to: (1, T, T) bool, or (B, T, T) with `ends` (B, T)."""
    place = torch.arange(length, device=device)
    seen = (place[:, None] >= place)[None]
    return seen if ends is None else seen & (place[:, None] < ends[:, None, :])


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        return cast(Tensor, self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Block(nn.Module):
    """One layer: pre-norm attention, then pre-norm MLP, each with a residual connection."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor | None) -> Tensor:
        """Shapes as in `Attention.forward`."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, bias)
        return cast(Tensor, x + self.mlp(self.post_attention_layernorm(x)))


class Stack(nn.Module):
    """Embedding, blocks and final norm; named ``model`` in a transformers folder."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        # Otherwise nn.Embedding fills the weights, and on the meta device that imports torch's compiler, for seconds.
        empty = torch.empty(config.vocab_size, config.hidden_size)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, _weight=empty)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Decoder(nn.Module):
    """A language model: `forward` gives logits, `hidden` the states for the output matrix or a reward head."""

    def __init__(self, config: DecoderConfig, seed: int | None = 0) -> None:
        """Initialise weights from `seed`: normal with `initializer_range`, residual projections scaled by depth.

        `seed` None leaves weights uninitialised, for a caller that loads them.
        """
        super().__init__()
        self.config = config
        self.model = Stack(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        with torch.device("cpu"):
            self._inverse = inverse_frequencies(config)  # not a buffer: casting the weights must not round it
        if seed is not None:
            self._fill(seed)

    @torch.no_grad()
    def _fill(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        into_stream = (2 * self.config.num_hidden_layers) ** -0.5
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                parameter.zero_()
            elif parameter.ndim == 2:
                scale = into_stream if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
                parameter.normal_(0.0, self.config.initializer_range * scale, generator=generator)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.model.embed_tokens.weight.device

    def output_weight(self) -> Tensor:
        """Output matrix (V, D), from hidden states to logits."""
        return self.model.embed_tokens.weight if self.config.tie_word_embeddings else self.lm_head.weight

    def hidden(self, ids: Tensor, ends: Tensor | None = None, added: Tensor | None = None) -> Tensor:
        """Hidden states after the final norm: (B, T, D).

        Args:
            ids: (B, T) int64 token ids. Right padding needs no mask: causality hides it from earlier tokens.
            ends: (B, T) for rows of several sequences: token t is visible to positions before ``ends[t]`` only. In a
                packed row that is the end of its sequence, in a trie's preorder the end of its subtree
                (`rstar.models.ppm.trie`). A token's position is then the number of earlier tokens it sees.
            added: (B, T, D) added to the token embeddings.
        """
        _, length = ids.shape
        bias = None
        positions = torch.arange(length, device=ids.device)[None]
        if ends is not None or (ids.device.type == "cpu" and length < FUSED_LENGTH):
            seen = visible(length, ends, ids.device)
            bias = torch.zeros(seen.shape, device=ids.device).masked_fill_(~seen, -torch.inf)[:, None]
            positions = seen.sum(-1) - 1
        cos, sin = rotary(self._inverse.to(ids.device), positions[:, None])
        x = self.model.embed_tokens(ids)
        if added is not None:
            x = x + added.to(x.dtype)
        for block in self.model.layers:
            x = block(x, cos, sin, bias)
        return cast(Tensor, self.model.norm(x))

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of hidden states (..., D); pass only the states the loss needs."""
        return F.linear(hidden, self.output_weight())

    def forward(self, ids: Tensor, ends: Tensor | None = None) -> Tensor:
        """Logits (B, T, V); arguments as in `hidden`."""
        return self.logits(self.hidden(ids, ends))
