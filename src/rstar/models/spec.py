"""Opening the model that a name stands for (`rstar.specs`). torch is imported for local engines only."""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeGuard

from rstar.config import EngineConfig
from rstar.errors import ConfigError
from rstar.models.engine import Engine
from rstar.models.fake import FakeEngine
from rstar.models.openai import OpenAIEngine, Tokenizer
from rstar.specs import Bundled, Fake, Folder, Model, Server

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def open_engine(model: Model, settings: EngineConfig | None = None) -> Engine:
    """The engine for a model, ready for ``async with``.

    Args:
        model: which one.
        settings: how to run or reach it; default `EngineConfig()`.

    Raises:
        ConfigError: a model that cannot be opened, or an unreadable key file.
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


def check_model(model: Model) -> None:
    """Raise `ConfigError` for a model whose folder is not there. Opens and sends nothing."""
    if is_local(model):
        check_folder(local_folder(model), str(model))


def check_folder(folder: Path, where: str) -> None:
    """Raise `ConfigError` that begins with `where` for a folder without a model, such as the name of one on a hub."""
    if (folder / "config.json").is_file():
        return
    if not folder.exists() and _HUB_NAME.fullmatch(str(folder)):
        raise ConfigError(
            f"{where}: there is no folder {str(folder)!r}. Names of a model hub are not loaded; get a folder with "
            f"`hf download {folder} --local-dir models/{folder.name}` and give its path (models/{folder.name})"
        )
    raise ConfigError(f"{where}: no model there: {folder / 'config.json'} is missing")


def is_local(model: Model) -> TypeGuard[Bundled | Folder]:
    """Whether a model runs on this machine from a folder."""
    return isinstance(model, Bundled | Folder)


def local_folder(model: Bundled | Folder, part: Literal["weights", "ppm"] = "weights") -> Path:
    """The folder of a model; of the bundled one the policy's (``weights``) or its PPM's.

    Raises:
        ConfigError: an installation without the bundled model.
    """
    if isinstance(model, Folder):
        return model.path
    folder = Path(str(files("rstar") / "tiny" / part))
    if not (folder / "config.json").is_file():
        raise ConfigError(f"tiny: this installation has no bundled model in {folder}")
    return folder


def fingerprint(folder: Path) -> str:
    """A hash of a model's files, their names and all that is in them."""
    files = sorted(file for pattern in ("*.json", "*.safetensors") for file in folder.glob(pattern))
    stats = ((file, file.stat()) for file in files)
    return _hash_of(tuple((file, stat.st_size, stat.st_mtime_ns) for file, stat in stats))


@lru_cache(maxsize=64)
def _hash_of(files: tuple[tuple[Path, int, int], ...]) -> str:
    """A hash of files that have not changed since their size and time were seen: gigabytes are not read twice."""
    digest = hashlib.sha256()
    for file, size, _ in files:
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def arithmetic(settings: EngineConfig) -> str:
    """The dtype in which a local model computes on this machine. Raises `ConfigError` where there is no torch."""
    if settings.dtype != "auto":
        return settings.dtype
    try:
        from rstar.models.device import resolve_device
    except ImportError as error:
        raise ConfigError(f"a local model needs {error.name}; install rstar[local]") from error
    return resolve_device(settings.device, settings.dtype)[1]


def _local(model: Bundled | Folder, settings: EngineConfig) -> Engine:
    try:
        from rstar.models.local.engine import LocalEngine
        from rstar.models.local.pool import PATIENCE, LocalPool, worthwhile
    except ImportError as error:
        raise ConfigError(f"{model}: needs {error.name}; install rstar[local]") from error
    # Workers share the processors, and all compute alike, with the engine in this process, too.
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
        return LocalPool(engine, settings.processes, patience=0.0) if settings.processes else engine
    workers = worthwhile(engine)
    return LocalPool(engine, workers, PATIENCE) if workers else engine


def _server(model: Server, settings: EngineConfig) -> Engine:
    return OpenAIEngine(
        model.url,
        model.model,
        name=str(model),
        key=_key(settings.key_file),
        tokenizer=None if model.tokenizer is None else _tokenizer(Path(model.tokenizer).expanduser()),
        max_context=settings.max_context,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        retries=settings.retries,
    )


def _tokenizer(folder: Path) -> Tokenizer:
    try:
        from rstar.models.local.tokens import TokenText
    except ImportError as error:
        raise ConfigError(f"tokenizer={folder}: needs {error.name}; install rstar[local]") from error
    return TokenText(folder)


def _key(file: Path | None) -> str | None:
    """The API key of a file, else of the environment; it is never written anywhere."""
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
        raise ConfigError(f"{where}: the key holds characters that cannot be sent")
    return key or None
