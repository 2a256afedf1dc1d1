"""The size of a server's KV cache, by its page of metrics."""

import asyncio
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from rstar.models.kv_capacity import ask_kv_tokens, kv_tokens

LINE = (
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_cpu_blocks="None",num_gpu_blocks="%s"} '
    "1.0"
)
METRICS = f'# TYPE vllm:cache_config_info gauge\n{LINE % 1820}\nvllm:other{{block_size="9"}} 1.0\n'


@pytest.mark.parametrize(
    ("metrics", "tokens"),
    [
        (METRICS, 29_120),
        (f"{LINE % 100}\n{LINE % 50}\n", 2_400),
        (LINE % "None", None),
        ("sglang:token_usage 0.1\n", None),
        ("", None),
    ],
)
def test_metrics_of_vllm(metrics: str, tokens: int | None) -> None:
    assert kv_tokens(metrics) == tokens


def test_a_server_is_asked() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/metrics"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(METRICS.encode() if found else b"")

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert asyncio.run(ask_kv_tokens(f"{url}/v1")) == 29_120
        server.shutdown()
    assert asyncio.run(ask_kv_tokens(f"{url}/v1")) is None, "nobody there"
