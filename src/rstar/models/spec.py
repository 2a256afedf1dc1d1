"""From a line of text to an engine: ``tiny``, ``hf:PATH``, ``openai:URL#MODEL``, ``fake:KIND``.

torch is imported for the local engines only.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from rstar.config import EngineConfig
from rstar.errors import ConfigError
from rstar.models.engine import Engine
from rstar.models.fake import FakeEngine
from rstar.models.openai import OpenAIEngine, Tokenizer

FORMS = {
    "tiny": "the bundled model",
    "hf:PATH": "a folder with a Llama, Qwen2 or Qwen3 model",
    "openai:URL#MODEL": "a server with /v1/completions; append ?tokenizer=FOLDER for token ids",
    "fake:KIND": "no model: steps, noise or fail",
}
"""What a model can be called, and what it is."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def open_engine(spec: str, settings: EngineConfig | None = None) -> Engine:
    """The engine that `spec` names, ready for ``async with``.

    Args:
        spec: one of `FORMS`.
        settings: how to run or reach it; default `EngineConfig()`.

    Raises:
        ConfigError: an unknown form, a model that cannot be opened, or an unreadable key file.
    """
    settings = settings or EngineConfig()
    check_spec(spec)
    kind = spec.partition(":")[0]
    if kind == "fake":
        return FakeEngine(spec)
    if kind == "openai":
        return _server(spec, settings)
    folder = local_folder(spec)
    assert folder is not None, "any other spec is refused above"
    return _local(folder, spec, settings)


def check_spec(spec: str) -> None:
    """Raise `ConfigError` for a spec of no known form, or of a folder that is not there. Opens and sends nothing."""
    kind, colon, rest = spec.partition(":")
    folder = local_folder(spec)
    if folder is not None:
        check_folder(folder, spec)
        return
    if kind == "fake" and rest:
        FakeEngine(spec)
        return
    if kind == "openai" and rest:
        _read_server(spec)
        return
    if kind == "vllm" and colon:
        raise ConfigError(f"{spec}: vLLM in process is not part of this version; serve it and use openai:URL#MODEL")
    near = difflib.get_close_matches(kind, [form.partition(":")[0] for form in FORMS], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"model {spec!r} is not one of {', '.join(FORMS)}{hint}")


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


def local_folder(spec: str) -> Path | None:
    """The folder of a model that runs here, None for another spec. Raises `ConfigError` as `tiny_folder`."""
    kind, _, rest = spec.partition(":")
    if spec == "tiny":
        return tiny_folder()
    return Path(rest).expanduser() if kind == "hf" and rest else None


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
        from rstar.models.local import placed
    except ImportError as error:
        raise ConfigError(f"a local model needs {error.name}; install rstar[local]") from error
    return placed(settings.device, settings.dtype)[1]


def tiny_folder(part: Literal["weights", "ppm"] = "weights") -> Path:
    """Where the bundled policy lies, or its PPM. Raises `ConfigError` in an installation without it."""
    folder = Path(str(files("rstar") / "tiny" / part))
    if not (folder / "config.json").is_file():
        raise ConfigError(f"tiny: this installation has no bundled model in {folder}")
    return folder


def _local(folder: Path, spec: str, settings: EngineConfig) -> Engine:
    try:
        from rstar.models.local import LocalEngine
        from rstar.models.local_pool import PATIENCE, LocalPool, worthwhile
    except ImportError as error:
        raise ConfigError(f"{spec}: needs {error.name}; install rstar[local]") from error
    # Workers share the processors, and all compute alike, with the engine in this process, too.
    threads = 1 if settings.threads is None and settings.processes else settings.threads
    engine = LocalEngine(
        folder,
        name=spec,
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


def _read_server(spec: str) -> tuple[str, str, Path | None]:
    """URL, model and perhaps the folder of the tokenizer."""
    url, _, fragment = spec.removeprefix("openai:").partition("#")
    model, _, options = fragment.partition("?")
    parts = urlsplit(url)
    try:
        parts.port  # noqa: B018  (raises for a port that is none)
    except ValueError as error:
        raise ConfigError(f"{spec}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not model:
        raise ConfigError(f"{spec}: expected openai:URL#MODEL, such as openai:http://127.0.0.1:8000/v1#my-model")
    if parts.username or parts.password:
        raise ConfigError("openai: no credentials in the URL, it is written into run folders; use engine.key_file")
    known = parse_qs(options, keep_blank_values=True)
    if unknown := set(known) - {"tokenizer"}:
        raise ConfigError(f"{spec}: option {', '.join(sorted(unknown))} is not one of tokenizer")
    return url, model, Path(known["tokenizer"][0]).expanduser() if known else None


def _server(spec: str, settings: EngineConfig) -> Engine:
    url, model, folder = _read_server(spec)
    return OpenAIEngine(
        url,
        model,
        name=spec,
        key=_key(settings.key_file),
        tokenizer=None if folder is None else _tokenizer(folder),
        max_context=settings.max_context,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        retries=settings.retries,
    )


def _tokenizer(folder: Path) -> Tokenizer:
    try:
        from rstar.models.local_tokens import TokenText
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
