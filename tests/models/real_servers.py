"""Inference servers that nobody here wrote, as processes on loopback.

``make servers`` installs those of llama.cpp and vLLM, each in an environment of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from rstar.specs import Server

ENVIRONMENTS = Path(sys.prefix) / "servers"
GGUF_WRITER = Path(__file__).with_name("gguf_writer.py")


@contextmanager
def transformers_serve(folder: Path) -> Iterator[str]:
    """The base URL of ``transformers serve``, which keeps its log in `folder`. Models are named by their paths."""
    program = str(Path(sys.executable).with_name("transformers"))
    with _served([program, "serve", "--device", "cpu", "--dtype", "float32"], folder, "health") as url:
        yield url


@contextmanager
def llama_cpp(model: Path, folder: Path) -> Iterator[Server]:
    """The server of llama-cpp-python with the model folder `model`, converted to GGUF in `folder`."""
    python = str(ENVIRONMENTS / "llama-cpp/bin/python")
    subprocess.run([python, str(GGUF_WRITER), str(model), str(folder / "model.gguf")], check=True)
    command = [
        python, "-m", "llama_cpp.server", "--model", str(folder / "model.gguf"), "--model_alias", "tiny",
        "--n_ctx", "1024", "--n_threads", "1", "--logits_all", "true", "--interrupt_requests", "false",
    ]  # fmt: skip
    with _served(command, folder, "v1/models") as url:
        yield Server(url, "tiny")


@contextmanager
def vllm(model: Path, folder: Path) -> Iterator[Server]:
    """The server of a CPU build of vLLM with the model folder `model`."""
    command = [
        str(ENVIRONMENTS / "vllm/bin/python"), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "1024", "--enforce-eager",
    ]  # fmt: skip
    with _served(command, folder, "health", VLLM_CPU_KVCACHE_SPACE="1") as url:
        yield Server(url, "tiny")


@contextmanager
def _served(command: Sequence[str], folder: Path, health: str, **environment: str) -> Iterator[str]:
    """Base URL of a server that takes ``--host`` and ``--port``, once the page `health` is there."""
    port = _free_port()
    log = folder / "serve.log"
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | environment
    address = ["--host", "127.0.0.1", "--port", str(port)]
    with (
        log.open("wb") as out,
        subprocess.Popen([*command, *address], stdout=out, stderr=out, env=variables) as process,
    ):
        try:
            deadline = time.monotonic() + 300
            while not _healthy(f"http://127.0.0.1:{port}/{health}"):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _healthy(url: str) -> bool:
    try:
        return httpx.get(url, timeout=10).is_success
    except httpx.TransportError:
        return False
