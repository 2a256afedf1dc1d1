"""A fake engine: deterministic text in the code-step format, for tests and benchmarks of whole pipelines.

`FakeEngine` keeps every invariant of `Engine` (ids concatenate, stop strings end texts, a completion depends on its
request alone) with a byte tokenizer: ids 0..255 are bytes, `BOS` begins a context and `EOS` ends a text. Its weights
are only a version number; each version is a different model. Kinds, as in ``fake:steps?seed=3``:

* ``steps`` adds up the numbers of the question, one per step ("Add 12, 30 and 7." has the answer 49). About two thirds
  of its steps are right, in two wordings that lead to the same state; the others raise an error, use a wrong operation,
  or print too early. A program ends within three steps; the answer repeats the program's output. It also knows the
  openings of the actions of mutual reasoning (`rstar.search.actions`), and continues them.
* ``noise`` writes random bytes.
* ``fail`` raises `EngineError` for a share ``rate`` of the requests and otherwise behaves like ``steps``. A repeated
  request fails again.
* With a ``script``, it calls that function or plays back that list of texts in request order. A text without a stop
  string ends with ``eos``.

At temperature 0 every sample is the same text, whatever the seed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import Self

from rstar.errors import ContextFullError, EngineError
from rstar.models.engine import Capacity, Completion, Context, Request, StopReason, Weights
from rstar.prompts.code_steps import ANSWER, ASSISTANT, END_CODE, END_OUTPUT, END_STEP, OUTPUT, USER, answer
from rstar.specs import Fake

BOS, EOS = 256, 257

Script = Callable[[Request, int], str | tuple[str, float]]
"""Returns the text of the sample with this number (see `Request.first`), and its log-probability if that matters."""


class FakeEngine:
    """An `Engine` driven by a hash function; the module docstring describes the kinds."""

    def __init__(self, spec: Fake | None = None, script: Script | Sequence[str] | None = None) -> None:
        """Open the model of `spec` (default ``fake:steps``), or one that writes the texts of `script`."""
        self.options = spec or Fake()
        self.name = "fake:script" if script is not None else str(self.options)
        self.max_context = self.options.max_context
        self.version = 0
        self._kind = "script" if script is not None else self.options.kind
        self._call = script if callable(script) else None
        self._texts: Iterator[str] = iter(()) if script is None or callable(script) else iter(script)

    def context(self, text: str) -> Context:
        """Encode `text` as `BOS` and its bytes."""
        return Context(text, (BOS, *text.encode()))

    def append(self, context: Context, text: str) -> Context:
        """Append the bytes of `text`."""
        return Context(context.text + text, context.ids + tuple(text.encode()))

    async def complete(self, request: Request) -> Sequence[Completion]:
        """Generate `request.n` completions, in order.

        Raises:
            ContextFullError: the context leaves no room.
            EngineError: the scripted list is used up, or kind ``fail`` chose to fail.
        """
        if self.options.latency:
            await asyncio.sleep(self.options.latency)
        length = len(request.context.ids)
        if length >= self.max_context:
            raise ContextFullError(f"{length} tokens of context fill max_context {self.max_context}")
        room = min(self.max_context - length, request.max_tokens)
        version = self.version.to_bytes(8, "little") if self.version else b""
        weights = self.options.seed.to_bytes(8, "little") + version
        key = blake2b(request.context.text.encode(), digest_size=16, key=weights).digest()
        if self._kind == "fail" and _draw(key, request.seed, -1) % 10**6 < self.options.rate * 10**6:
            raise EngineError(f"{self.name}: failed on purpose")
        stop = tuple(string.encode() for string in request.stop)
        numbers = range(request.first, request.first + request.n)
        return [_completion(*self._write(request, i, key, room), stop, room, self.version) for i in numbers]

    async def load(self, weights: Weights, version: int) -> None:
        """Switch to `version`; `weights` is ignored."""
        self.version = version

    def capacity(self) -> Capacity:
        """Effectively unlimited."""
        return Capacity(1 << 20, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def _write(self, request: Request, index: int, key: bytes, room: int) -> tuple[bytes, float]:
        """Text that the model would write without stop strings, and its log-probability per token."""
        draw = _draw(key, request.seed, index) if request.temperature > 0 else _draw(key, 0, 0)
        logprob = -0.05 - (draw >> 40) % 64 / 64
        if self._kind == "noise":
            return Random(draw).randbytes(min(room, draw % 2048)), logprob
        if self._kind == "script":
            text = self._call(request, index) if self._call else next(self._texts, None)
            if text is None:
                raise EngineError(f"{self.name}: the list of texts is used up")
            if isinstance(text, tuple):
                text, total = text
                logprob = total / max(1, len(text.encode()))
            return text.encode(), logprob
        text = request.context.text
        return (_continue_action(text, draw) or _continue_steps(text, draw)), logprob


def _draw(key: bytes, seed: int, index: int) -> int:
    """64 pseudo-random bits from (key, seed, index), identical on every machine."""
    return int.from_bytes(blake2b(b"%d/%d" % (seed, index), digest_size=8, key=key).digest(), "little")


def _completion(data: bytes, logprob: float, stop: tuple[bytes, ...], room: int, version: int) -> Completion:
    """Cut `data` after its first completed stop string and at `room` bytes; without either it ends with ``eos``."""
    ends = [(at + len(string), string) for string in stop if (at := data.find(string)) >= 0]
    end, string = min(ends, default=(len(data) + 1, b""))
    reason: StopReason = "length" if end > room else "stop" if string else "eos"
    data = data[: min(end, room)]
    ended_by = string.decode() if reason == "stop" else None
    text = data.decode(errors="replace")
    end_token = (EOS, logprob) if reason == "eos" else None
    return Completion(text, tuple(data), (logprob,) * len(data), reason, ended_by, version=version, end=end_token)


_OPENING = re.compile(r"(Step|Question|Answer) \d+:(?: Let's think step by step\.)?\Z")


def _continue_action(text: str, draw: int) -> bytes | None:
    """The continuation of an action's opening; None if `text` does not end with one."""
    if text.endswith("# question:"):
        return b" What is the sum so far?\n"
    if text.endswith(("# given:", "Conditions: 1.")):
        return f" the numbers of the question\n{END_STEP}".encode()
    if (match := _OPENING.search(text)) is None:
        return None
    start = text.rfind(ASSISTANT)
    numbers = _numbers(text[text.rfind(USER, 0, start) + 1 : start])
    sums = re.findall(r"the sum is (-?\d+)", text[start:])
    total, lines = int(sums[-1]) if sums else 0, []
    for k in range(min(len(sums), len(numbers) - 1), len(numbers)):
        last = k == len(numbers) - 1
        if match[1] == "Question":
            return b" Now we can answer the question: What is the sum?\n" if last else b" What is the sum so far?\n"
        total += numbers[k] - (draw & 15 >= 12)
        stated = f" The answer is {total}." if last or match[1] == "Answer" else ""
        lines.append(f" After adding {numbers[k]}, the sum is {total}.{stated}\n")
        draw >>= 4
    return "".join(lines[:1] + [f"Step {n}:{line}" for n, line in enumerate(lines[1:], len(sums) + 2)]).encode()


def _continue_steps(text: str, draw: int) -> bytes:
    """The rest of the program, or the answer, for a text in `rstar.prompts.code_steps` format, chosen by `draw`."""
    if text.endswith(ANSWER):
        return answer(text[text.rfind(OUTPUT) + len(OUTPUT) : text.rfind(END_OUTPUT)].strip()).encode()
    start = text.rfind(ASSISTANT)
    numbers = _numbers(text[text.rfind(USER, 0, max(start, 0)) + 1 : start] if start >= 0 else text)
    depth = text.count(END_STEP, max(start, 0))
    pieces = []
    while True:
        step, last = _step(numbers, depth, draw & 15)
        new_line = "\n" if depth and not text.endswith("\n") else ""
        pieces.append(new_line + step + (f"\nprint(x)\n{END_CODE}" if last else f"\n{END_STEP}"))
        if last:
            return "".join(pieces).encode()
        depth, draw = depth + 1, draw >> 4


def _step(numbers: tuple[int, ...], depth: int, choice: int) -> tuple[str, bool]:
    """Code that adds number `depth` to x, right or wrong by `choice` in 0..15, and whether it ends the program."""
    if depth >= len(numbers):
        return "# that is all", True
    number = numbers[depth]
    last = depth == len(numbers) - 1 or choice == 15
    before = "x + " if depth else ""
    if choice < 7 or choice == 15:
        return f"# add {number}\nx = {before}{number}", last
    if choice < 11:
        return f"# now comes {number}\nx = {before}{number}", last
    if choice < 13:
        return f"# {number} is too much\nx = {before}{number} - 1", last
    return f"# add {number} to y\nx = y + {number}", last


@lru_cache(maxsize=4096)
def _numbers(question: str) -> tuple[int, ...]:
    """Two or three numbers from the question, padded by hash if it has fewer than two."""
    numbers = [int(digits) for digits in re.findall(r"\d{1,6}", question)[:3]]
    if len(numbers) < 2:
        numbers += [byte % 50 for byte in blake2b(question.encode(), digest_size=2).digest()]
    return tuple(numbers)
