"""Settings of a judge service, passed to its processes as JSON on stdin because they may hold secrets."""

from __future__ import annotations

import ipaddress
import secrets
import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from rstar.config import Level
from rstar.errors import ConfigError


class JudgeSettings(BaseModel):
    """Settings of all processes of a service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65_535)
    workers: int = Field(1, ge=1, description="number of concurrent programs on this machine")
    redis: str | None = Field(None, description="URL of the shared queue; none: the queue is in this service")
    token: str | None = Field(None, repr=False, description="bearer token that clients must send")
    level: Level = Field("full", description="required isolation level")
    seconds: float = Field(10.0, gt=0, description="default limit on the wall time of a call, seconds")
    memory_mb: int = Field(256, ge=16, description="default limit on the memory of a call, MiB")
    compile_seconds: float = Field(30.0, gt=0, description="limit on the wall time of a C++ compilation, seconds")
    compile_mb: int = Field(1_024, ge=64, description="limit on the memory of a C++ compilation, MiB")
    queue_seconds: float = Field(4.0, gt=0, description="maximum wait for a worker on the short routes, seconds")
    long_queue_seconds: float = Field(3600.0, gt=0, description="maximum wait for a worker in a long batch, seconds")
    idle_seconds: float = Field(600.0, gt=0, description="idle seconds after which a session ends")
    max_sessions: int = Field(100_000, ge=1, description="maximum number of sessions; one host may have half")
    max_waiting: int = Field(1_000_000, ge=1, description="maximum number of waiting calls; one client may have half")


def read_token(file: Path) -> str:
    """Read the token file. Raises `ConfigError` if there is no token or other users may read it."""
    try:
        token = file.read_text(encoding="utf-8").strip()
        mode = file.stat().st_mode
    except OSError as error:
        raise ConfigError(f"token file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"token file {file}: not UTF-8 text (byte {error.start})") from error
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError(f"token file {file}: expected one line of printable characters")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"token file {file}: other users can read it; run: chmod 600 {file}")
    return token


def check_exposure(settings: JudgeSettings) -> None:
    """Raise `ConfigError` if the service is reachable from outside without a token."""
    try:
        local = settings.host == "localhost" or ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        local = False
    if not local and settings.token is None:
        raise ConfigError(f"--host {settings.host} is reachable from outside: add --token-file")


def check_url(redis: str) -> None:
    """Raise `ConfigError` if this is not a Redis URL."""
    if not redis.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigError(f"--redis {redis!r}: expected a URL such as redis://host:6379/0")


def allowed(settings: JudgeSettings, authorization: str) -> bool:
    """Whether this ``Authorization`` header is accepted."""
    if settings.token is None:
        return True
    scheme, _, token = authorization.partition(" ")
    return scheme.lower() == "bearer" and secrets.compare_digest(token.strip().encode(), settings.token.encode())
