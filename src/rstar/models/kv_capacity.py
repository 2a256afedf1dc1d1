"""How many tokens the KV cache of a server holds, if the server tells: vLLM does, on its page of metrics."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx

_SECONDS = 5.0
_CONFIG = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="(\d+)"')


async def ask_kv_tokens(url: str) -> int | None:
    """Ask the server with base URL `url`; None if it does not tell. All its engines count."""
    parts = urlsplit(url)
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, verify=parts.scheme == "https") as client:
            response = await client.get(f"{parts.scheme}://{parts.netloc}/metrics")
    except httpx.HTTPError:
        return None
    return kv_tokens(response.text) if response.is_success else None


def kv_tokens(metrics: str) -> int | None:
    """Number of tokens by vLLM's metrics; None if they do not tell."""
    found = [dict(_LABEL.findall(labels)) for labels in _CONFIG.findall(metrics)]
    sizes = [int(labels.get("num_gpu_blocks", 0)) * int(labels.get("block_size", 0)) for labels in found]
    return sum(sizes) or None
