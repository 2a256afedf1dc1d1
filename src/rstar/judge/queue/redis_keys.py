"""What the API and the workers share of Redis: keys, connection, consumer group, kinds of errors."""

from __future__ import annotations

import re
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import (
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from rstar.errors import ConfigError

GROUP = "workers"
ALIVE_SECONDS = 10
"""A worker or API process without a heartbeat for this long is dead."""

HEARTBEAT_SECONDS = 2.0
FAILURES = (RedisError, OSError)
_TEMPORARY = (OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError)
_TEMPORARY_CODES = re.compile("BUSY|MISCONF|NOREPLICAS|NOGROUP")
"""Codes without a class of their own; of all others, the client leaves the code out of the message."""

_WORKER = re.compile(rb"(\d{1,9}) (\d{1,9})(?: .*)?")


def is_permanent(error: Exception) -> bool:
    """Whether Redis has refused a command for good, because of its content or its key, so a retry is no use."""
    if not isinstance(error, ResponseError) or isinstance(error, _TEMPORARY):
        return False
    return _TEMPORARY_CODES.match(str(error)) is None


def read_worker(value: bytes | None) -> tuple[int, int] | None:
    """(slots, capacity) of a worker's key; None if the key has expired or is malformed."""
    found = _WORKER.fullmatch(value or b"")
    return None if found is None else (int(found[1]), int(found[2]))


class Keys:
    """The Redis keys of a service.

    Attributes:
        short, long: streams of urgent and of patient jobs.
        cancel: channel for the ids of cancelled jobs.
    """

    def __init__(self, prefix: str = "rstar:judge") -> None:
        self.prefix = prefix
        self.short, self.long, self.cancel = f"{prefix}:jobs:short", f"{prefix}:jobs:long", f"{prefix}:cancel"

    def directed(self, worker: str) -> str:
        """Stream of jobs for one worker and (field ``f``) of states it can forget."""
        return f"{self.prefix}:jobs:for:{worker}"

    def answers(self, owner: str) -> str:
        """Stream of the answers to one API process."""
        return f"{self.prefix}:answers:{owner}"

    def worker(self, name: str) -> str:
        """Slots and capacity of a worker; exists while it lives."""
        return f"{self.prefix}:worker:{name}"

    def owner(self, name: str) -> str:
        """Exists while the API process lives."""
        return f"{self.prefix}:owner:{name}"

    def trial(self, worker: str) -> str:
        """Ids of the suspects a worker is trying, one per line."""
        return f"{self.prefix}:trial:{worker}"

    def deaths(self, job: str) -> str:
        """Number of workers that died with a job."""
        return f"{self.prefix}:deaths:{job}"


def connect(url: str) -> Any:  # the client's types are unions over both of its protocols
    """A client with its own pool. Raises `ConfigError` for an invalid URL."""
    try:
        pool = BlockingConnectionPool.from_url(  # callers wait for a free connection
            url, max_connections=100, timeout=20, socket_connect_timeout=5, socket_timeout=30, health_check_interval=15
        )
        return Redis.from_pool(pool)
    except ValueError as error:
        raise ConfigError(f"the URL of Redis: {error}") from error


async def make_group(client: Any, stream: str) -> None:
    """Create the consumer group of a stream if it is missing."""
    try:
        await client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
