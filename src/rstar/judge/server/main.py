"""The API process. Started by `rstar.judge.service`."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path

import uvicorn

from rstar.judge.boot import boot
from rstar.judge.queue.broker import Broker, MemoryBroker
from rstar.judge.queue.redis_broker import RedisBroker
from rstar.judge.server.app import create_app
from rstar.judge.server.protocol import BoundedProtocol


def main() -> None:
    """Serve HTTP on the inherited socket."""
    settings, arguments = boot()
    owner = uuid.uuid4().hex
    broker: Broker
    if settings.redis is None:
        broker = MemoryBroker(Path(arguments["folder"]) / "workers", settings.max_waiting)
    else:
        broker = RedisBroker(settings.redis, owner, settings.max_waiting)
    app = create_app(broker, settings, owner, arguments["heartbeat_fd"])
    BoundedProtocol.memory = app.memory
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", access_log=False,
        http=BoundedProtocol, loop="uvloop", ws="none", proxy_headers=False,
        timeout_graceful_shutdown=3, timeout_keep_alive=75,
    )  # fmt: skip
    uvicorn.Server(config).run([socket.socket(fileno=arguments["fd"])])


if __name__ == "__main__":
    main()
