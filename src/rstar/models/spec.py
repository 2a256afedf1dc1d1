"""Open the model that a spec names (`rstar.specs`). torch is imported for local engines only."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeGuard

from rstar.config import EngineConfig
from rstar.errors import ConfigError
from rstar.http_client import ServerClient
from rstar.models.engine import Engine
from rstar.models.fake import FakeEngine
from rstar.models.openai import OpenAIEngine, base_url
from rstar.models.replicas import Replicas
from rstar.specs import Bundled, Fake, LocalModel, Model, Server

if TYPE_CHECKING:
    from rstar.models.local.tokens import TokenText

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def open_engine(model: Model, settings: EngineConfig | None = None) -> Engine:
    """Create the engine for a model, ready for ``async with``.

    Args:
        model: parsed model spec.
        settings: how to run or reach it; default `EngineConfig()`.

    Raises:
        ConfigError: the model cannot be opened, or the key file cannot be read.
    """
    settings = settings or EngineConfig()
    check_model(model)
    match model:
        case Fake():
            return FakeEngine(model)
        case Server():
            return _server(model, settings)
        case _:
            return _local(model, settings)


async def uses_chat(engine: Engine) -> bool:
    """Whether an engine is a server, or replicas of one, that is asked by chat. Raises `EngineError`."""
    if isinstance(engine, Replicas):
        engine = engine.engines[0]
    return isinstance(engine, OpenAIEngine) and await engine.api() == "chat"


def check_model(model: Model) -> None:
    """Raise `ConfigError` if the model's folder is missing. Neither opens nor sends anything."""
    if is_local(model):
        check_folder(local_folder(model), str(model))


def check_folder(folder: Path, where: str) -> None:
    """Raise `ConfigError`, its message starting with `where`, if `folder` holds no model (a hub name, for example)."""
    if (folder / "config.json").is_file():
        return
    if not folder.exists() and _HUB_NAME.fullmatch(str(folder)):
        raise ConfigError(
            f"{where}: no folder {str(folder)!r}. Models are not downloaded from a hub; run "
            f"`hf download {folder} --local-dir models/{folder.name}` and give the path models/{folder.name}"
        )
    raise ConfigError(f"{where}: not a model folder: {folder / 'config.json'} is missing")


def is_local(model: Model) -> TypeGuard[Bundled | LocalModel]:
    """Whether the model runs on this machine from a folder."""
    return isinstance(model, Bundled | LocalModel)


def local_folder(model: Bundled | LocalModel, part: Literal["weights", "ppm"] = "weights") -> Path:
    """Folder of a local model; for the bundled policy, that of the policy (``weights``) or of its PPM.

    Raises:
        ConfigError: the installation has no bundled model.
    """
    if isinstance(model, LocalModel):
        return model.path
    folder = Path(str(files("rstar") / "tiny" / (part if model.part == "policy" else model.part)))
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{model}: this installation has no bundled model in {folder}")
    return folder


def fingerprint(folder: Path) -> str:
    """Hash of the names and contents of a model's files."""
    files = sorted(file for pattern in ("*.json", "*.safetensors") for file in folder.glob(pattern))
    stats = ((file, file.stat()) for file in files)
    return _hash_of(tuple((file, stat.st_size, stat.st_mtime_ns) for file, stat in stats))


@lru_cache(maxsize=64)
def _hash_of(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Hash files, cached by size and modification time so that gigabytes are not read twice."""
    digest = hashlib.sha256()
    for file, size, _ in files:
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


@contextmanager
def local_extra(where: str) -> Iterator[None]:
    """Import packages of ``rstar[local]``; raises `ConfigError`, starting with `where`, if one is missing."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{where}: needs {error.name}; install rstar[local]") from error


def resolved_dtype(settings: EngineConfig) -> str:
    """Dtype that a local model uses on this machine. Raises `ConfigError` if torch is not installed."""
    if settings.dtype != "auto":
        return settings.dtype
    with local_extra("local model"):
        from rstar.models.device import resolve_device
    return resolve_device(settings.device, settings.dtype)[1]


def _local(model: Bundled | LocalModel, settings: EngineConfig) -> Engine:
    with local_extra(str(model)):
        from rstar.models.local.engine import LocalEngine
        from rstar.models.local.pool import LocalPool, useful_workers
    # Workers share the processors, and the engine in this process must compute exactly as they do.
    threads = 1 if settings.threads is None and settings.processes else settings.threads
    engine = LocalEngine(
        local_folder(model),
        name=str(model),
        batch=settings.batch,
        dtype=settings.dtype,
        device=settings.device,
        threads=threads,
        max_context=settings.max_context,
    )
    if settings.processes is not None:
        return LocalPool(engine, settings.processes, start_delay=0.0) if settings.processes else engine
    workers = useful_workers(engine)
    return LocalPool(engine, workers) if workers else engine


def _server(model: Server, settings: EngineConfig) -> Engine:
    tokenizer = None if model.tokenizer is None else _tokenizer(Path(model.tokenizer).expanduser())
    engines = [
        OpenAIEngine(
            url,
            model.model,
            name=str(model),
            key=_key(settings.key_file),
            tokenizer=tokenizer,
            api=model.api,
            continues=None if model.continues == "auto" else model.continues == "yes",
            max_context=settings.max_context,
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            retries=settings.retries,
            asks_capacity=len(model.urls) > 1,
        )
        for url in model.urls
    ]
    return engines[0] if len(engines) == 1 else Replicas(engines)


def server_client(model: Server, settings: EngineConfig) -> ServerClient:
    """A client of a model's server, without an engine.

    Raises `ConfigError` if the model has several servers, or the key file cannot be read.
    """
    if len(model.urls) > 1:
        raise ConfigError(f"{model}: name a single server")
    return ServerClient(
        base_url(model.url),
        key=_key(settings.key_file),
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        retries=settings.retries,
    )


def _tokenizer(folder: Path) -> TokenText:
    with local_extra(f"tokenizer={folder}"):
        from rstar.models.local.tokens import TokenText
    return TokenText(folder)


def _key(file: Path | None) -> str | None:
    """API key from the file, else from the environment; never written anywhere."""
    if file is None:
        where, key = "OPENAI_API_KEY", os.environ.get("OPENAI_API_KEY", "")
    else:
        where = f"engine.key_file {file}"
        try:
            key = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ConfigError(f"{where}: {error.strerror}") from error
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{where}: the key contains characters that HTTP headers cannot carry")
    return key or None
