"""The loops of `rstar.models.local.attention`, as code for the shape of a model.

Numbers of heads and their width are constants of the code, so sums stay in registers. In outline:

    for each unit, a row's head of keys and values:
        store the keys and values of the new tokens
        for each new token: scores, softmax, weighted sum of values, for all heads that share the keys
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import e, gcd, log2

from llvmlite import ir

from rstar.models.local.vector_code import FLOAT, INT, WIDTH, VectorCode, compiled, vector

LANES = 16
"""Positions in a block. The keys of a block lie beside each other, channel by channel."""
_HALVES = range(0, LANES, WIDTH)
_SUMS = 8
"""Vectors of sums that a loop keeps in registers."""
_FLOATS, _INDICES = ("weights", "qk", "fused", "keys", "values", "out"), ("starts", "sources", "order")
_NUMBERS = ("first", "length", "capacity", "begin", "end")


@cache
def attention(heads: int, kv: int, dim: int) -> Callable[..., None]:
    """The compiled function for H heads of width C that share K heads of keys and values.

    Its arguments are the addresses of arrays as in `rstar.models.local.attention.attend`: `_FLOATS` and `_INDICES`,
    where ``weights`` is scratch memory (H / K, capacity) and ``out`` is (R, T, H, C); then `_NUMBERS`: the cache row
    of the first row, T, the capacity, and the places in the order of the first unit and behind the last one.
    """
    module, group = ir.Module("attention"), heads // kv
    kinds = [FLOAT.as_pointer() for _ in _FLOATS] + [INT.as_pointer() for _ in _INDICES] + [INT for _ in _NUMBERS]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "attend")
    weights, qk, fused, keys, values, out, starts, sources, order, first, length, capacity, begin, end = function.args
    code = VectorCode(function)
    rows = [code.at(weights, capacity, g) for g in range(group)]
    with code.loop(begin, end) as place:
        row, head = code.divided(code.load(code.at(order, place)), kv)
        blocks, _ = code.divided(capacity, LANES)
        unit = _Unit(code, keys, values, code.at(sources, row, blocks), head, kv, capacity, dim)
        start, tokens = code.load(code.at(starts, row)), code.product(row, length)
        with code.loop(0, length) as t:
            token = code.total(tokens, t)
            key = code.at(qk, code.total(code.product(token, heads + kv), heads, head), dim)
            value = code.at(fused, code.total(code.product(token, heads + 2 * kv), heads + kv, head), dim)
            unit.store(code.total(first, row), code.total(start, t), key, value)
        with code.loop(0, length) as t:
            token, count, some = code.total(tokens, t), code.total(start, t, 1), code.product(head, group)
            blocks, _ = code.divided(code.total(count, LANES - 1), LANES)
            queries = code.at(qk, code.total(code.product(token, heads + kv), some), dim)
            mixed = code.at(out, code.total(code.product(token, heads), some), dim)
            unit.score([code.at(queries, dim, g) for g in range(group)], rows, blocks)
            shares = [_softmax(code, scores, count, blocks, dim) for scores in rows]
            unit.mix(rows, shares, [code.at(mixed, dim, g) for g in range(group)], blocks)
    code.end()
    return compiled(module, "attend")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A row's head of keys and values.

    Attributes:
        code: the code being built.
        keys, values: those of all cache rows.
        sources: the cache row that each block is read from.
        head: number of the head, of `heads`.
        capacity, dim: positions in a cache row; width of the head.
    """

    code: VectorCode
    keys: ir.Value
    values: ir.Value
    sources: ir.Value
    head: ir.Value
    heads: int
    capacity: ir.Value
    dim: int

    def _block(self, array: ir.Value, row: ir.Value, number: ir.Value) -> ir.Value:
        """The address of a block of `keys` (C, LANES) or of `values` (LANES, C) in a cache row."""
        code = self.code
        before = code.product(code.total(code.product(row, self.heads), self.head), self.capacity)
        return code.at(array, code.total(before, code.product(number, LANES)), self.dim)

    def _source(self, array: ir.Value, number: ir.Value) -> ir.Value:
        """The address that a block is read from."""
        return self._block(array, self.code.load(self.code.at(self.sources, number)), number)

    def store(self, row: ir.Value, position: ir.Value, key: ir.Value, value: ir.Value) -> None:
        """Store a key and a value (C,) in a cache row."""
        code = self.code
        block, lane = code.divided(position, LANES)
        keys = code.at(self._block(self.keys, row, block), lane)
        values = code.at(self._block(self.values, row, block), lane, self.dim)
        with code.loop(0, self.dim) as c:
            code.store(code.load(code.at(key, c)), code.at(keys, c, LANES))
            code.store(code.load(code.at(value, c)), code.at(values, c))

    def score(self, queries: Sequence[ir.Value], rows: Sequence[ir.Value], blocks: ir.Value) -> None:
        """Set the first `blocks` blocks of each of `rows` to the products of its query (C,) and the keys."""
        code, step, some = self.code, gcd(self.dim, 8), _SUMS // len(_HALVES)
        pairs = list(zip(queries, rows, strict=True))
        for chosen in (pairs[number : number + some] for number in range(0, len(pairs), some)):
            with code.loop(0, blocks) as block:
                keys = self._source(self.keys, block)
                sums = [[code.variable() for _ in _HALVES] for _ in chosen]
                with code.loop(0, self.dim, step) as c:
                    for channel in (code.total(c, i) for i in range(step)):
                        parts = [code.read(code.at(code.at(keys, channel, LANES), half)) for half in _HALVES]
                        for (query, _), variables in zip(chosen, sums, strict=True):
                            number = code.spread(code.load(code.at(query, channel)))
                            for variable, part in zip(variables, parts, strict=True):
                                code.add_product(variable, number, part)
                for (_, scores), variables in zip(chosen, sums, strict=True):
                    for variable, place in zip(variables, _halves(code, scores, block), strict=True):
                        code.write(code.load(variable), place)

    def mix(
        self, rows: Sequence[ir.Value], shares: Sequence[ir.Value], outs: Sequence[ir.Value], blocks: ir.Value
    ) -> None:
        """Set each of `outs` (C,) to the sum of the values, weighted by one of `rows`, times its share."""
        code, width = self.code, gcd(self.dim, WIDTH)
        vectors = min(self.dim // width, _SUMS // 2)
        some, heads = _SUMS // vectors, list(zip(rows, shares, outs, strict=True))
        for first in range(0, self.dim, vectors * width):
            places = range(first, min(first + vectors * width, self.dim), width)
            for chosen in (heads[number : number + some] for number in range(0, len(heads), some)):
                sums = [[code.variable(width) for _ in places] for _ in chosen]
                with code.loop(0, blocks) as block:
                    values = self._source(self.values, block)
                    with code.loop(0, LANES) as p:
                        value, position = code.at(values, p, self.dim), code.total(code.product(block, LANES), p)
                        parts = [code.read(code.at(value, place), width) for place in places]
                        for (weights, _, _), variables in zip(chosen, sums, strict=True):
                            weight = code.spread(code.load(code.at(weights, position)), width)
                            for variable, part in zip(variables, parts, strict=True):
                                code.add_product(variable, weight, part)
                for (_, share, out), variables in zip(chosen, sums, strict=True):
                    for variable, place in zip(variables, places, strict=True):
                        code.write(code.fmul(code.load(variable), code.spread(share, width)), code.at(out, place))


def _halves(code: VectorCode, scores: ir.Value, block: ir.Value) -> list[ir.Value]:
    """The addresses of the two vectors of a block's scores."""
    return [code.at(scores, code.total(code.product(block, LANES), half)) for half in _HALVES]


def _softmax(code: VectorCode, scores: ir.Value, count: ir.Value, blocks: ir.Value, dim: int) -> ir.Value:
    """Turn the first `count` scores into exponentials and the padding behind them into 0; returns 1 / their sum.

    The exponentials are those of C**-0.5 times the distance to the largest score.
    """
    padded, factor = code.product(blocks, LANES), code.constant(dim**-0.5 * log2(e), vector())
    with code.loop(count, padded) as p:
        code.store(code.constant(float("-inf"), FLOAT), code.at(scores, p))
    largest = [code.variable(value=float("-inf")) for _ in _HALVES]
    with code.loop(0, blocks) as block:
        for variable, place in zip(largest, _halves(code, scores, block), strict=True):
            code.store(code.larger(code.read(place), code.load(variable)), variable)
    top = code.spread(code.fold(code.larger, largest))
    with code.loop(0, blocks) as block:
        for place in _halves(code, scores, block):
            code.write(code.power(code.fmul(code.fsub(code.read(place), top), factor)), place)
    with code.loop(count, padded) as p:
        code.store(code.constant(0.0, FLOAT), code.at(scores, p))
    sums = [code.variable() for _ in _HALVES]
    with code.loop(0, blocks) as block:
        for variable, place in zip(sums, _halves(code, scores, block), strict=True):
            code.store(code.fadd(code.load(variable), code.read(place)), variable)
    return code.fdiv(code.constant(1.0, FLOAT), code.fold(code.fadd, sums))
