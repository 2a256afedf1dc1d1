"""A `Decoder` laid out for generation: fused weights, rotary positions as complex products, a static KV cache.

The cache has a fixed number of rows; each row holds the keys and values of one sequence. `forward` extends a contiguous
range of rows by T tokens each: prompts (T large) or one new token per row (T = 1).

Invariant (float32 on a CPU): a row's output depends on its own tokens alone, bit for bit, not on the other rows or
tokens in the call, nor on how its tokens were split into calls. `rstar.models.local.attention` guarantees it for
attention. For the other matrix products it relies on a measured property of the CPU kernels, which a test checks: a
row's result is the same for any shape with at least 16 rows (`ROW_STEP`); smaller products are padded. The property
holds for one thread: with two, rows of 1,536 numbers gave other results in products of up to 128 rows than in larger
ones; rows of up to 1,024 did not.

Rows that were copied from each other are read from one place (`rstar.models.local.shared_blocks`).

Not done here: sampling, scheduling (`rstar.models.local.engine`), gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rstar.models.decoder import Block, Decoder, inverse_frequencies
from rstar.models.local.attention import Ints, attend
from rstar.models.local.attention_code import LANES
from rstar.models.local.shared_blocks import SharedBlocks

ROW_STEP = 16
SPAN_STEP = 16
"""On an accelerator, all rows attend to a multiple of this many positions, to limit the number of shapes."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one block; the rotary pairs of queries and keys are adjacent."""

    norm_in: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    norm_mlp: Tensor
    gate_up: Tensor
    down: Tensor


class _Call(NamedTuple):
    """What all layers need in a call: R rows from cache row `first` on, T tokens each.

    Attributes:
        first: cache row of the first row.
        starts: (R,) positions that the rows hold, on the CPU.
        positions: (R, T) of the new tokens.
        turns: (R * T, 1, C / 2) rotary positions.
        order: argument of `attend`; None on an accelerator, and in other dtypes.
        bias: (R, 1, T, span), 0 where a token attends and else -inf; None where `order` is not.
    """

    first: int
    starts: Tensor
    positions: Tensor
    turns: Tensor
    order: Ints | None
    bias: Tensor | None


class CachedDecoder:
    """Generates with the weights of a `Decoder`; the module docstring states the invariant."""

    def __init__(self, decoder: Decoder, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        """Allocate a cache of `rows` rows; compute in `dtype` on `device`."""
        self.config = decoder.config
        self.rows = rows
        self.dtype = dtype
        self.device = device
        self.capacity = 0
        self._compiled = device.type == "cpu" and dtype == torch.float32
        self._lanes = LANES if self._compiled else 1
        self._shared = SharedBlocks(rows, LANES)
        self._keys = self._values = self._turns = self._places = torch.empty(0)
        self.reserve(1)
        self.load(decoder)

    @torch.no_grad()
    def load(self, decoder: Decoder) -> None:
        """Copy the weights of `decoder`, which must have the same configuration. The cache contents become stale."""

        def ready(weight: Tensor) -> Tensor:
            return weight.detach().to(self.device, self.dtype, copy=True).contiguous()

        self._shared.clear()
        self._layers = [_fuse(block, ready) for block in decoder.model.layers if isinstance(block, Block)]
        self._embedding = ready(decoder.model.embed_tokens.weight)
        self._norm = ready(decoder.model.norm.weight)
        self._output = self._embedding if self.config.tie_word_embeddings else ready(decoder.output_weight())

    def reserve(self, length: int) -> None:
        """Grow every row to at least `length` positions; cached contents are kept."""
        if length <= self.capacity:
            return
        config = self.config
        capacity = max(256, 1 << (length - 1).bit_length())
        layers, kv, dim = config.num_hidden_layers, config.num_key_value_heads, config.head_dim
        keys = _zeros((layers, self.rows, kv, capacity // self._lanes, dim, self._lanes), self.dtype, self.device)
        values = _zeros((layers, self.rows, kv, capacity, dim), self.dtype, self.device)
        if self.capacity:
            keys[:, :, :, : self._keys.shape[3]] = self._keys
            values[:, :, :, : self.capacity] = self._values
        self._keys, self._values, self.capacity = keys, values, capacity
        self._shared.reserve(capacity)
        angles = torch.arange(capacity, dtype=torch.float32)[:, None] * inverse_frequencies(config)
        self._turns = torch.polar(torch.ones_like(angles), angles).to(self.device)
        self._places = torch.arange(capacity, device=self.device)

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy positions `start` .. `end` - 1 of a row to another that holds the same positions before `start`.

        What lies behind `end` may be copied, too; both rows will overwrite it.
        """
        blocks = slice(start // self._lanes, -(-end // self._lanes))
        self._keys[:, target, :, blocks] = self._keys[:, source, :, blocks]
        self._values[:, target, :, start:end] = self._values[:, source, :, start:end]
        if self._compiled:
            self._shared.copy(source, target, start, end)

    def forward(self, first: int, ids: Tensor, starts: Tensor, last: Tensor | None = None) -> Tensor:
        """Extend rows `first` .. `first` + R - 1 and return logits (R, V) in float32; arguments as in `hidden`."""
        return self.logits(self.hidden(first, ids, starts, last))[: len(ids)]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (R, V) in float32 of states (R, D); R is a multiple of `ROW_STEP`."""
        return F.linear(hidden, self._output).float()

    def hidden(
        self, first: int, ids: Tensor, starts: Tensor, last: Tensor | None = None, added: Tensor | None = None
    ) -> Tensor:
        """Extend rows `first` .. `first` + R - 1 and return states after the final norm: (R, D), and padding behind it.

        Args:
            first: first of R adjacent rows.
            ids: (R, T) tokens, on the CPU; R * T is a multiple of `ROW_STEP`.
            starts: (R,) positions each row already holds, on the CPU. Padding behind a row's tokens is harmless: the
                next call overwrites it.
            last: (R,) on the CPU, index in 0..T-1 of the token whose state is returned; None when T is 1.
            added: (R, T, D) added to the token embeddings.
        """
        rows, length = ids.shape
        self.reserve(_span(starts, length))
        call = self._call(first, starts, length)
        x = F.embedding(ids.to(self.device).reshape(-1), self._embedding)
        if added is not None:
            x = x + added.view(x.shape)
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            mixed = self._attention(layer, keys, values, x, call)
            x = _add_linear(x, mixed, layer.out, layer.out_bias)
            gate, up = F.linear(self._normed(x, layer.norm_mlp), layer.gate_up).chunk(2, dim=-1)
            x = _add_linear(x, F.silu(gate).mul_(up), layer.down, None)
        if last is not None:
            x = x.view(rows, length, -1)[self._places[:rows], last.to(self.device)]
        return self._normed(F.pad(x, (0, 0, 0, -rows % ROW_STEP)), self._norm)

    def _call(self, first: int, starts: Tensor, length: int) -> _Call:
        positions = starts.to(self.device)[:, None] + self._places[:length]
        turns, order, bias = self._turns[positions.reshape(-1)][:, None], None, None
        if self._compiled:
            self._shared.write(first, starts.numpy())
            order = self._shared.order(first, starts.numpy(), self.config.num_key_value_heads)
        else:
            bias = self._bias(starts, positions)
        return _Call(first, starts, positions, turns, order, bias)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)

    def _bias(self, starts: Tensor, positions: Tensor) -> Tensor:
        """0 where a token attends, else -inf: (R, 1, T, span)."""
        rows, length = positions.shape
        span = _span(starts, length)
        bias = torch.zeros((rows, 1, length, span), dtype=self.dtype, device=self.device)
        return bias.masked_fill_((self._places[:span] > positions[:, :, None])[:, None], -torch.inf)

    def _attention(self, layer: _Layer, keys: Tensor, values: Tensor, x: Tensor, call: _Call) -> Tensor:
        """Attention of `x` (R * T, D), as (R * T, H * C).

        Writes the keys and values of `x` to `keys` (cache rows, K, capacity / lanes, C, lanes) and to `values` (cache
        rows, K, capacity, C).
        """
        config = self.config
        rows, length = call.positions.shape
        heads, kv, dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        fused = F.linear(self._normed(x, layer.norm_in), layer.qkv, layer.qkv_bias).view(rows * length, -1, dim)
        qk = fused[:, : heads + kv]
        if layer.q_norm is not None and layer.k_norm is not None:
            qk = torch.cat((self._normed(qk[:, :heads], layer.q_norm), self._normed(qk[:, heads:], layer.k_norm)), 1)
        pairs = torch.view_as_complex(qk.float().view(rows * length, heads + kv, dim // 2, 2))
        qk = torch.view_as_real(pairs * call.turns).flatten(-2).to(self.dtype).view(rows, length, -1, dim)
        fused = fused.view(rows, length, -1, dim)
        if call.order is None:
            chosen = slice(call.first, call.first + rows)
            return self._masked(keys[chosen].squeeze(-1), values[chosen], qk, fused[:, :, heads + kv :], call)
        arrays = (qk.numpy(), fused.numpy(), keys.numpy(), values.numpy())
        sources = self._shared.sources(call.first, rows)
        mixed = attend(*arrays, call.first, call.starts.numpy(), sources, call.order, torch.get_num_threads())
        return torch.from_numpy(mixed).view(rows * length, heads * dim)

    def _masked(self, keys: Tensor, values: Tensor, qk: Tensor, new_values: Tensor, call: _Call) -> Tensor:
        """`attend` for accelerators and other dtypes. All rows read equally many positions; a mask hides the rest.

        `keys` and `values` are (R, K, capacity, C).
        """
        config, positions, bias = self.config, call.positions, call.bias
        assert bias is not None
        rows, length = positions.shape
        heads, kv, dim, group = config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.group
        row, span = self._places[:rows, None], bias.shape[-1]
        keys[row, :, positions] = qk[:, :, heads:]
        values[row, :, positions] = new_values
        q = qk[:, :, :heads].view(rows, length, kv, group, dim).permute(0, 2, 3, 1, 4)
        scores = torch.bmm(q.reshape(rows * kv, group * length, dim), keys[:, :, :span].flatten(0, 1).mT)
        scores.mul_(dim**-0.5).view(rows, kv * group, length, span).add_(bias)
        mixed = torch.bmm(torch.softmax(scores, dim=-1), values[:, :, :span].flatten(0, 1))
        return mixed.view(rows, kv, group, length, dim).permute(0, 3, 1, 2, 4).reshape(rows * length, heads * dim)


def _span(starts: Tensor, length: int) -> int:
    """Positions that rows attend to after `length` more tokens, padded."""
    longest = int(starts.max()) + length
    return longest + -longest % SPAN_STEP


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU, the memory of unused rows is never touched."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(shape)


def _add_linear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute x + y @ weight.T + bias in one product."""
    return torch.addmm(x if bias is None else x + bias, y, weight.t())


def _fuse(block: Block, ready: Callable[[Tensor], Tensor]) -> _Layer:
    attention, mlp = block.self_attn, block.mlp
    dim = attention.config.head_dim
    # The decoder rotates pairs (i, i + dim / 2) of a head; adjacent pairs can be viewed as complex numbers.
    order = torch.arange(dim).view(2, -1).t().reshape(-1)

    def paired(weight: Tensor) -> Tensor:
        return weight.reshape(-1, dim, *weight.shape[1:])[:, order].flatten(0, 1)

    def fused(name: str) -> Tensor:
        q, k, v = (getattr(layer, name) for layer in (attention.q_proj, attention.k_proj, attention.v_proj))
        return ready(torch.cat((paired(q), paired(k), v)))

    normed = attention.config.qk_norm
    return _Layer(
        norm_in=ready(block.input_layernorm.weight),
        qkv=fused("weight"),
        qkv_bias=fused("bias") if attention.config.qkv_bias else None,
        q_norm=ready(paired(attention.q_norm.weight)) if normed else None,
        k_norm=ready(paired(attention.k_norm.weight)) if normed else None,
        out=ready(attention.o_proj.weight),
        out_bias=ready(attention.o_proj.bias) if attention.config.output_bias else None,
        norm_mlp=ready(block.post_attention_layernorm.weight),
        gate_up=ready(torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight))),
        down=ready(mlp.down_proj.weight),
    )
