"""Training and serving of a run's models, each in a process of its own.

These processes end with the run, even if it is killed: none is left training in its folder or holding its port.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from rstar.errors import BAD_INPUT, ConfigError, DataError, EngineError, TrainingError
from rstar.lifecycle import die_with_parent
from rstar.specs import LocalModel, Model, Server
from rstar.train.folder import MODEL
from rstar.train.settings import TrainConfig


def train(kind: str, config: TrainConfig, data: Path | Sequence[Path], out: Path, launcher: Sequence[str]) -> Path:
    """Run ``python -m rstar.train KIND`` in a process of its own; return the folder of the finished model.

    The process frees its memory when it ends, and a launcher (torchrun, accelerate) can start several. An interrupted
    training resumes; a finished one is not repeated.

    Args:
        kind: ``sft`` or ``ppm``.
        config: its settings.
        data: data files, in the order of the stages.
        out: its folder.
        launcher: command and options before ``-m rstar.train``; empty: this Python.

    Raises:
        ConfigError: the launcher cannot be started.
        DataError: training refused its settings or its data.
        TrainingError: training failed otherwise.
    """
    model = out / MODEL
    if model.is_dir():
        return model
    out.mkdir(parents=True, exist_ok=True)
    recipe = out.with_name(f"{out.name}.toml")
    recipe.write_text(as_toml(config.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    files = [data] if isinstance(data, Path) else data
    options = [part for file in files for part in ("--data", str(file))]
    command = [*(launcher or [sys.executable]), "-m", "rstar.train", kind, str(recipe), *options, "--out", str(out)]
    try:
        with subprocess.Popen(command, stdout=sys.stderr, preexec_fn=die_with_parent) as process:
            code = process.wait()
    except OSError as error:
        raise ConfigError(f"launcher: cannot start {command[0]!r}: {error.strerror}") from error
    if code == BAD_INPUT and not launcher:  # a launcher's exit status has no known meaning
        raise DataError(f"training {out}: invalid settings or data, as reported above")
    if code:
        raise TrainingError(f"training {out} ended with exit status {code}; repeat the command to resume it")
    return model


def as_toml(tree: Mapping[str, Any], name: str = "") -> str:
    """Write nested plain data as TOML: values first, then tables. `name` is the name of the table itself."""
    values = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    lines = [f"[{name}]\n"] if name else []
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()]
    tables = ((f"{name}.{key}" if name else key, tree[key]) for key in tree if key not in values)
    return "".join([*lines, *(as_toml(table, full) for full, table in tables)])


@contextmanager
def served(model: Path, command: Sequence[str], port: int, seconds: float) -> Iterator[Model]:
    """A model by name: its folder, or a server that runs until the end of the block.

    Args:
        model: its folder.
        command: starts a server; contains ``{model}`` and ``{port}``. Empty: no server.
        port: local port of the server.
        seconds: timeout until the server is ready.

    Raises:
        ConfigError: the command does not exist, or the port is in use.
        EngineError: the server ended, or was not ready in time.
    """
    if not command:
        yield LocalModel(str(model))
        return
    with socket.socket() as client:
        if client.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigError(f"serve: port {port} is in use; set serve_port to another port")
    filled = [part.replace("{model}", str(model)).replace("{port}", str(port)) for part in command]
    try:
        process = subprocess.Popen(filled, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    except OSError as error:
        raise ConfigError(f"serve: cannot start {filled[0]!r}: {error.strerror}") from error
    try:
        name = _wait_ready(process, f"http://127.0.0.1:{port}", seconds)
        yield Server(f"http://127.0.0.1:{port}", name)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: subprocess.Popen[bytes], url: str, seconds: float) -> str:
    """Wait until the server lists its models; return the name of the first."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise EngineError(f"serve: the server ended with exit status {process.returncode} before it was ready")
        with suppress(httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
            response = httpx.get(f"{url}/v1/models", timeout=5.0)
            if response.is_success:
                return str(response.json()["data"][0]["id"])
        time.sleep(0.2)
    raise EngineError(f"serve: the server was not ready after {seconds:g} s")
