"""HTTP servers in this process that behave like those of vLLM, SGLang, transformers and llama.cpp."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rstar.models.engine import Completion, Context, Request
from rstar.models.openai import OpenAIEngine

Answer = tuple[int, dict[str, str], Any]
"""Status, headers, and a JSON value; or the events of a stream: a list, or an iterator that may have no end."""
TEXT = "one.two<stop>three"


@dataclass
class Server:
    """What a server is asked, and by which function it answers."""

    answer: Callable[[dict[str, Any]], Answer]
    models: Any = None
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def run(self, *requests: Request, **settings: Any) -> list[list[Completion]]:
        async def all_at_once() -> list[list[Completion]]:
            async with OpenAIEngine(self.url, "m", **{"pause": 0.001, **settings}) as engine:
                return [list(r) for r in await asyncio.gather(*(engine.complete(request) for request in requests))]

        return asyncio.run(all_at_once())


@contextmanager
def serving(answer: Callable[[dict[str, Any]], Answer], models: Any = None) -> Iterator[Server]:
    server = Server(answer, models)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200 if server.models else 500, {}, server.models or "no list")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.asked.append(body)
                server.keys.append(self.headers.get("Authorization"))
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self.reply(*server.answer(body))
            finally:
                with lock:
                    server.at_once -= 1

        def reply(self, status: int, headers: dict[str, str], value: Any) -> None:
            if status == 0:  # a lost connection
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if isinstance(value, Iterator):
                self.send_response(status)
                self.end_headers()
                self.close_connection = True
                with suppress(ConnectionError):
                    for event in value:
                        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                return
            if isinstance(value, list):
                data = "".join(f"data: {json.dumps(event)}\n\n" for event in value) + "data: [DONE]\n\n"
            else:
                data = value if isinstance(value, str) else json.dumps(value)
            self.send_response(status)
            for name, text in {"Content-Length": str(len(data.encode())), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def choices(*found: dict[str, Any]) -> Answer:
    return 200, {}, {"choices": [{"index": i, "finish_reason": "stop", **choice} for i, choice in enumerate(found)]}


def ask(n: int = 1, stop: tuple[str, ...] = ("<stop>", "never"), **settings: Any) -> Request:
    return Request(Context("prompt"), n=n, stop=stop, **settings)


def cut(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """`text` before the first stop string."""
    found = min(((text.find(s), s) for s in stop if s in text), default=(len(text), None))
    return text[: found[0]], found[1]


def vllm(body: dict[str, Any]) -> Answer:
    text, stop = cut(TEXT, body.get("stop", ()))
    return choices(*[{"text": text, "stop_reason": stop}] * body.get("n", 1))


def sglang(body: dict[str, Any]) -> Answer:
    text, stop = cut(TEXT, body.get("stop", ()))
    return choices(*[{"text": text, "matched_stop": stop or 2}] * body.get("n", 1))


def including(body: dict[str, Any]) -> Answer:
    """Like transformers serve: refuses unknown fields, ignores n, runs over the stop string to the token's end."""
    known = {"model", "prompt", "max_tokens", "temperature", "top_p", "seed", "n", "stop", "logprobs", "stream"}
    if unknown := set(body) - known:
        return 422, {}, {"detail": f"Unexpected fields in the request: {unknown}"}
    if body.get("stream"):
        return hiding(body)
    text, stop = cut(TEXT, body.get("stop", ()))
    return choices({"text": text + stop + "t" if stop else text})


def hiding(body: dict[str, Any]) -> Answer:
    """Like llama.cpp: cuts the stop string off and does not name it."""
    if body.get("stream"):
        pieces = [TEXT[i : i + 3] for i in range(0, len(TEXT), 3)]
        events = [{"choices": [{"index": 0, "text": piece, "finish_reason": None}]} for piece in pieces]
        return 200, {}, [*events, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}]
    return choices(*[{"text": cut(TEXT, body.get("stop", ()))[0]}] * body.get("n", 1))
