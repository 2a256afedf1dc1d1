"""Attention of new tokens over cached keys and values, in float32 on a CPU.

Generation reads every cached key and value for a few queries, so memory limits it. The matrix products of libraries are
slow at that shape, and compute padding for rows of different lengths: batched products of torch took three to five
times as long. `rstar.models.local.attention_code` has the loops themselves, which LLVM compiles at the first call.

Invariant: what a query gets depends on the keys and values up to its own position alone, bit for bit. Sums have a fixed
order, and no multiplication is fused with an addition, so neither the processor's vector width nor the number of
threads shows.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rstar.models.local.attention_code import LANES, attention

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]


def attend(
    qk: Floats,
    fused: Floats,
    keys: Floats,
    values: Floats,
    first: int,
    starts: Ints,
    sources: Ints,
    order: Ints,
    threads: int,
) -> Floats:
    """Store the keys and values of T new tokens in each of R rows, and compute their attention: (R, T, H, C).

    All arrays are contiguous; ``LANES`` divides the capacity of the cache.

    Args:
        qk: (R, T, H + K, C), queries of H heads and new keys of K heads, both with their positions.
        fused: (R, T, H + 2 K, C), of which the last K heads are the new values.
        keys: (cache rows, K, capacity / LANES, C, LANES), changed.
        values: (cache rows, K, capacity, C), changed.
        first: cache row of the first of the R rows, which are adjacent.
        starts: (R,) positions each row already holds.
        sources: (R, capacity / LANES), the cache row from which each block of positions is read.
        order: (R * K,), the units: row * K + head of keys, in the order in which they are computed.
        threads: number of threads that share the work.
    """
    rows, length, _, dim = qk.shape
    kv, capacity = values.shape[1:3]
    heads = qk.shape[2] - kv
    assert keys.shape[1:] == (kv, capacity // LANES, dim, LANES)
    assert sources.shape == (rows, capacity // LANES)
    assert len(order) == rows * kv
    out = np.empty((rows, length, heads, dim), np.float32)
    arrays = (qk, fused, keys, values, out, starts, sources, order)
    assert all(array.flags.c_contiguous for array in arrays)
    scratch = np.empty((threads, heads // kv, capacity), np.float32)
    code = attention(heads, kv, dim)
    addresses = [array.ctypes.data for array in arrays]

    def compute(thread: int, begin: int, end: int) -> None:
        """Compute units `begin` to `end` - 1 of the order."""
        code(scratch[thread].ctypes.data, *addresses, first, length, capacity, begin, end)

    units = rows * kv
    if threads == 1 or units == 1:
        compute(0, 0, units)
        return out
    bounds = [units * part // threads for part in range(threads + 1)]
    parts: list[Future[None]] = [
        _pool(threads).submit(partial(compute, thread, *bound)) for thread, bound in enumerate(pairwise(bounds))
    ]
    for part in parts:
        part.result()
    return out


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "rstar attention")
