"""Training and serving the models of a run, each in a process of its own.

They end with the run, also when it is killed: nobody is left who trains in its folder, or holds its port.
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
from rstar.specs import Folder, Model, Server
from rstar.train.folder import MODEL
from rstar.train.settings import TrainConfig


def train(kind: str, config: TrainConfig, data: Path | Sequence[Path], out: Path, launcher: Sequence[str]) -> Path:
    """Run ``python -m rstar.train KIND`` in a process of its own, and return the folder of the finished model.

    The memory of a training is given back, and a launcher (torchrun, accelerate) can make several processes of it. An
    interrupted training goes on; a finished one is not begun again.

    Args:
        kind: ``sft`` or ``ppm``.
        config: its settings.
        data: data files, in the order of the stages.
        out: its folder.
        launcher: command and options before ``-m rstar.train``; empty: this Python.

    Raises:
        ConfigError: the launcher cannot be started.
        DataError: it refused its settings or its data.
        TrainingError: it failed otherwise.
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
    if code == BAD_INPUT and not launcher:  # what that of a launcher means, nobody knows
        raise DataError(f"training {out} refused its input and said why; it cannot go on with this recipe")
    if code:
        raise TrainingError(f"training {out} ended with exit status {code}; the same command goes on with it")
    return model


def as_toml(tree: Mapping[str, Any], name: str = "") -> str:
    """Nested plain data as TOML: single values, then tables. `name` is that of the table itself."""
    single = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    lines = [f"[{name}]\n"] if name else []
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in single.items()]
    tables = ((f"{name}.{key}" if name else key, tree[key]) for key in tree if key not in single)
    return "".join([*lines, *(as_toml(table, full) for full, table in tables)])


@contextmanager
def served(model: Path, command: Sequence[str], port: int, seconds: float) -> Iterator[Model]:
    """A model by name: its folder, or a server that runs until the end of the block.

    Args:
        model: its folder.
        command: starts a server, with ``{model}`` and ``{port}`` in it; empty: no server.
        port: where it is to listen, on this machine.
        seconds: how long it may take until it answers.

    Raises:
        ConfigError: there is no such command, or somebody else listens at the port.
        EngineError: the server ended, or was not ready in time.
    """
    if not command:
        yield Folder(str(model))
        return
    with socket.socket() as other:
        if other.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigError(f"serve: port {port} is in use; set serve_port to another one")
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
    """The name of the first model that the server lists, once it does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise EngineError(f"serve: the server ended with exit status {process.returncode} before it was ready")
        with suppress(httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
            answer = httpx.get(f"{url}/v1/models", timeout=5.0)
            if answer.is_success:
                return str(answer.json()["data"][0]["id"])
        time.sleep(0.2)
    raise EngineError(f"serve: the server was not ready after {seconds:g} s")
