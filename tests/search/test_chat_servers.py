"""Whole searches with instruct models behind a chat API: their styles, and servers that fail, talk nonsense or wait."""

import random
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from rstar.agent.solver import open_solver
from rstar.config import Config, EngineConfig, Method, MutualConfig
from rstar.problems import Problem
from rstar.specs import Server as ServerSpec
from tests.models.chat_servers import chat_server, counter
from tests.models.completion_servers import Answer, Server, serving
from tests.search.scripted import METHODS, settings

BLOCKS: list[str] = [
    "I add the two numbers.\n\n```python\nprint({a} + {b})\n```",
    "```python\ntotal = {a} + {b}\nprint(total)\n```\n\nThis prints the total.",
    "### Step 1: add\n\n```py\nprint({a} + {b})\n```\n",
    "**Code:**\n```\nprint({a} + {b})\n```\nNow we wait for the output.",
    "Sure! Here is the code:\n```python\n{a} + {b}\n```",
    "```Python\ntotal = {a} + {b}\n```",
    "First\n```python\nx = {a}\n```\nthen\n```python\nprint({a} + {b})\n```\n",
    "1. Add:\n   ```python\n   print({a} + {b})\n   ```",
    "```python\nprint({a} + {b})",
    "The code is below. I guess the answer is \\boxed{{0}}.\n```python\nprint({a} + {b})\n```",
    "Let's compute.\n\n~~~ is not a fence\n```python3\nprint({a}+{b})\n```\n",
    "I'll use Python:\n\n```python\ndef add(x, y):\n    return x + y\n\nprint(add({a}, {b}))\n```",
]
ANSWERS: list[str] = [
    "The answer is \\boxed{{{c}}}.",
    "**{c}**",
    "The final answer is **{c}**.",
    "**Answer:** {c}",
    "Therefore, the sum of the two numbers is {c}.",
    "So the answer is ${c}$.",
    "#### {c}",
    "<answer>{c}</answer>",
    "The output shows the result.\n\n**Final Answer**\n\n\\[\\boxed{{{c}}}\\]",
    "Great! The code worked. The answer is {c}. I hope this helps!",
    "\\boxed{{{c}}}",
    "The result is: `{c}`",
]
PROBLEMS = [Problem(str(i), f"Add {i + 11} and {7 * i + 5}.") for i in range(48)]


def instruct(messages: list[dict[str, str]], seed: int) -> str:
    """An instruct model: the style depends on the problem. It asks for code first, and then copies the output."""
    if "Count from" in messages[0]["content"]:
        return counter(messages, seed)
    asked = next(message for message in reversed(messages) if message["content"].startswith("Add "))
    a, b = map(int, re.findall(r"\d+", asked["content"]))
    style = a - 11
    if messages[-1]["content"].startswith("Output:"):
        printed = re.findall(r"\d+", messages[-1]["content"])
        if "x = " in messages[-1]["content"]:  # the stop string came before the second block
            return BLOCKS[0].format(a=a, b=b)
        return ANSWERS[style // 2 % 12].format(c=printed[-1] if printed else "unknown")
    if messages[-1]["content"].startswith("Continue your last") or messages[-1]["role"] == "assistant":
        written = messages[-1 if messages[-1]["role"] == "assistant" else -2]["content"]
        return f"print({a} + {b})\n```" if written.rstrip().endswith("```") else "and so on"
    return BLOCKS[style % 12].format(a=a, b=b)


def flaky(answer: Callable[[dict[str, Any]], Answer], nonsense: list[int]) -> Callable[[dict[str, Any]], Answer]:
    """5% failures, which are retried; 4% nonsense; up to 20 ms for each answer. Counts the nonsense."""
    draw = random.Random(5)

    def answer_sometimes(body: dict[str, Any]) -> Answer:
        time.sleep(draw.uniform(0, 0.02))
        what = draw.random()
        if what < 0.05 and "messages" in body:
            return 503, {}, {"error": "overloaded"}
        found = answer(body)
        if what > 0.96 and "Count from" not in str(body.get("messages", "Count from")):
            nonsense.append(1)
            for event in found[2] if body.get("stream") else [found[2]]:
                for choice in event["choices"]:
                    choice["delta" if body.get("stream") else "message"]["content"] = "\ufffd\x07 lorem ]]]\n" * 3
        return found

    return answer_sometimes


def solve(server: Server, search: Any, problems: list[Problem] = PROBLEMS) -> dict[str, str | None]:
    engine = EngineConfig(retries=6, timeout=100, concurrency=16)
    config = Config(policy=ServerSpec(server.url, "m"), search=search, engine=engine)
    return {solution.problem.id: solution.answer for solution in open_solver(config).solve(problems)}


def right(problem: Problem) -> str:
    return str(sum(map(int, re.findall(r"\d+", problem.question))))


def number(answer: str | None) -> str | None:
    found = re.findall(r"\d+", answer or "")
    return found[0] if found else None


@pytest.mark.parametrize("continues", ["never", "flag"])
def test_every_style_is_read_rightly(continues: str) -> None:
    with serving(chat_server(instruct, continues, names_stops=True)) as server:
        found = solve(server, {"method": "greedy"})
    assert {problem.id: number(found[problem.id]) for problem in PROBLEMS} == {
        problem.id: right(problem) for problem in PROBLEMS
    }


def test_several_servers_share_the_work() -> None:
    """Replicas of one model: each gets requests, and the format is that of their API."""
    with (
        serving(chat_server(instruct, names_stops=True)) as one,
        serving(chat_server(instruct, names_stops=True)) as two,
    ):
        config = Config(
            policy=ServerSpec(f"{one.url},{two.url}", "m"), search={"method": "greedy"}, engine={"concurrency": 2}
        )
        found = {solution.problem.id: solution.answer for solution in open_solver(config).solve(PROBLEMS)}
    assert {name: number(answer) for name, answer in found.items()} == {p.id: right(p) for p in PROBLEMS}
    shares = [sum("messages" in body for body in server.asked) for server in (one, two)]
    assert min(shares) > len(PROBLEMS) / 2


@pytest.mark.parametrize("method", METHODS)
def test_no_problem_is_lost_on_a_bad_server(method: Method) -> None:
    nonsense: list[int] = []
    wanted = {"expansions": 2, "rollouts": 4, "samples": 3, "beam_width": 2}
    with serving(flaky(chat_server(instruct, names_stops=True), nonsense)) as server:
        found = solve(server, settings(method, **wanted), PROBLEMS[:24])
    wrong = [problem.id for problem in PROBLEMS[:24] if number(found[problem.id]) != right(problem)]
    assert len(found) == 24
    assert len(wrong) <= len(nonsense), "only nonsense costs answers"


@pytest.mark.parametrize("continues", ["never", "always"])
def test_mutual_reasoning_on_a_bad_chat_server(continues: str) -> None:
    """The model is asked to continue ``Step 1: ``, or does so; either way its text is a step."""

    def speak(messages: list[dict[str, str]], seed: int) -> str:
        if "Count from" in messages[0]["content"]:
            return counter(messages, seed)
        begun = messages[-1 if messages[-1]["role"] == "assistant" else -2]["content"]
        asked = next(message for message in reversed(messages) if message["content"].startswith("Add "))
        a, b = map(int, re.findall(r"\d+", asked["content"]))
        label = begun.splitlines()[-1]
        repeated = label if seed % 2 and continues == "never" else ""
        if label.startswith("Question"):
            return f"{repeated}Now we can answer the question: What is the sum?\nAnswer 1: "
        if label.startswith("Conditions"):
            return f"{repeated}There are two numbers. 2. Question: What is their sum?\n"
        return f"{repeated}{a} + {b} = {a + b}. **The answer is {a + b}.**\n"

    nonsense: list[int] = []
    with serving(flaky(chat_server(speak, continues, names_stops=True), nonsense)) as server:
        config = MutualConfig(rollouts=4, votes=3, cuts=2, shots=1)
        found = solve(server, config, PROBLEMS[:12])
    assert {name: number(answer) for name, answer in found.items()} == {p.id: right(p) for p in PROBLEMS[:12]}
    assert nonsense


PROGRAMS: dict[str, Callable[[str], str]] = {
    "plain": lambda code: f"{code}\n<end_of_code>",
    "a fence": lambda code: f"```python\n{code}\n```",
    "a fence with the marker": lambda code: f"```python\n{code}\n<end_of_code>\n```",
    "a preamble": lambda code: f"Sure! Here is the program:\n\n```python\n{code}\n<end_of_code>\n```",
    "no marker": lambda code: code,
}


@pytest.mark.parametrize("style", PROGRAMS)
def test_programs_of_models_that_were_only_shown_the_format(style: str) -> None:
    """The model goes on in a new message, with code as instruct models write it, and states the answer in words."""

    def speak(messages: list[dict[str, str]], seed: int) -> str:
        if "Count from" in messages[0]["content"]:
            return counter(messages, seed)
        begun = messages[-2]["content"]
        asked = next(message for message in reversed(messages) if message["content"].startswith("Add "))
        a, b = map(int, re.findall(r"\d+", asked["content"]))
        if begun.endswith("<answer>"):
            printed = begun.rpartition("<output>")[2].partition("<end_of_output>")[0]
            return [f"The answer is {printed}.", printed, f"**{printed}**", f"\\boxed{{{printed}}}"][a % 4]
        if begun.endswith("# question:"):
            return "What is the sum?"
        if begun.endswith("# given:"):
            return f"{a} and {b}\n<end_of_step>"
        if "total" not in begun and seed % 2:
            return f"total = {a} + {b}\n<end_of_step>"
        return PROGRAMS[style](f"print({a} + {b})")

    with serving(chat_server(speak)) as server:
        found = solve(server, MutualConfig(domain="programs", rollouts=4, votes=2, cuts=2), PROBLEMS[:8])
    assert {name: number(answer) for name, answer in found.items()} == {p.id: right(p) for p in PROBLEMS[:8]}
