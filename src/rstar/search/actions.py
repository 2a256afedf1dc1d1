"""The five actions of mutual reasoning: a table, and how their texts are written and parsed (arXiv 2408.06195, §3.2).

An action opens with fixed text (``Step 2:``), which a template inserts, and the policy continues it. A solution is
the sequence of these texts. Two styles exist: plain text, and code steps as in rStar-Math, in which a step's code runs
in the sandbox. In the code style a step and the rest of a solution need no opening: they simply continue the program.

``docs/mutual.md`` lists the places to change for a new action. This module asks no model; `rstar.search.generate` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rstar.config import ActionName
from rstar.errors import ConfigError
from rstar.models.engine import Completion
from rstar.prompts.code_steps import STOPS, USER
from rstar.prompts.domains import FILES, Domain
from rstar.search.code_steps import CODE_STEPS
from rstar.search.format import Format, Reading
from rstar.search.loose_code_steps import LOOSE_CODE_STEPS
from rstar.search.stated import stated_answer, states_answer, still_thinking

ROOT = "root"
MAX_HEADING = 80
"""Characters; a longer line is more than a heading."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of the search.

    Attributes:
        name: its name in settings, prompts and records.
        after: actions that it may follow; `ROOT` stands for the beginning of a solution.
        several: whether it has several children per node (`search.children`); otherwise one.
    """

    name: ActionName
    after: frozenset[str]
    several: bool = False


_ANY = frozenset({ROOT, "step", "question", "reanswer", "rephrase"})
ACTIONS: Mapping[ActionName, Action] = {
    action.name: action
    for action in (
        Action("step", _ANY, several=True),
        Action("finish", _ANY),
        Action("question", _ANY - {"step"}, several=True),
        Action("reanswer", frozenset({"question"})),
        Action("rephrase", frozenset({ROOT})),
    )
}
"""A1 to A5: the next step; all remaining steps; the next sub-question with its answer; the last sub-question's answer
again, by a chain of thought; the question's conditions as a list. A2 ends a solution, so nothing follows it."""


def allowed(last: str, names: Sequence[str]) -> list[Action]:
    """The actions among `names` that may follow the action `last` (`ROOT`: none so far)."""
    return [action for action in ACTIONS.values() if action.name in names and last in action.after]


@dataclass(frozen=True, slots=True)
class Style:
    """How the texts of actions look.

    Attributes:
        openings: text before the policy's continuation; ``{n}`` is the number of the step or sub-question. It never
            ends with a space, because tokens of words begin with one.
        stops: stop strings of the continuation.
        answer: opening of the answer to a sub-question, and its stop strings.
        code: how code is read; None: the steps are text.
        yes_no: the problems ask for a yes or no.
    """

    openings: Mapping[str, str]
    stops: Mapping[str, tuple[str, ...]]
    answer: tuple[str, tuple[str, ...]]
    code: Format | None = None
    yes_no: bool = False


_QUESTION = "\nQuestion"
_NEXT = (f"\n\n{USER}", _QUESTION, "\nProblem")
"""Where a model that goes on after the solution begins another one."""

TEXT = Style(
    openings={
        "step": "Step {n}:",
        "finish": "Step {n}:",
        "question": "Question {n}:",
        "reanswer": "Answer {n}: Let's think step by step.",
        "rephrase": "Conditions: 1.",
    },
    stops={"step": ("\n",), "finish": _NEXT, "question": ("\n",), "reanswer": ("\n",), "rephrase": ("\n",)},
    answer=("Answer {n}:", ("\n",)),
)
CODE = Style(
    openings={
        "step": "",
        "finish": "",
        "question": "# question:",
        "reanswer": "# think again\n",
        "rephrase": "# given:",
    },
    stops={"step": STOPS, "finish": STOPS[1:], "question": ("\n",), "reanswer": STOPS, "rephrase": STOPS},
    answer=("", STOPS),
    code=CODE_STEPS,
)
LOOSE_CODE = replace(CODE, code=LOOSE_CODE_STEPS)
"""Code of models that were not trained on code steps."""

_HEADING = re.compile(
    r"#.*|\*\*[^*]+\*\*:?|[^.!?=]*:|(?:(?:first|next|now|then|finally|let['’]s),? )?"
    r"(?:add|analy[sz]|apply|calculat|check|comput|consider|convert|count|defin|determin|divid|estimat|evaluat|express"
    r"|find|identif|isolat|list|multipl|rearrang|recall|set|simplif|solv|subtract|sum|translat|understand|us|verif|writ)"
    r"(?:e|y|ying|ing|ting)?\b(?!.*(?:[=+*/]|\b(?:gets?|gives?|equals?|is|are|obtain|yields?|makes?)\b))[^.!?]*\.?"
    r"|(?!.*\b(?:is|are|was|were|has|have|had|can(?:not)?|could|do|does|did|will|would|must|may)\b)"
    r"(?:[^\W\d]+ ){1,5}[^\W\d]+",
    re.IGNORECASE,
)
"""A line that names a step: marked as a heading, ending with a colon, saying what to do, or a few words alone.

Too much rather than too little: a step with one line more is still a step.
"""

_ANNOUNCED = re.compile(r":\W*$|^\W*#|\bis\W*$")
"""A line that announces an answer without giving it."""
_ITEM = re.compile(r"\s*(?:\d+[.)]|[-*•])\s")
_SECOND_ITEM = re.compile(r"\b2[.)]\s")

_FINAL = re.compile(r"\bnow we can answer\b|\boriginal (?:question|problem)\b", re.IGNORECASE)
"""A sub-question with one of these is the question itself."""


def style_of(domain: Domain, shots: int) -> Style:
    """The style of a domain's steps; without worked examples (`shots`), the model is one trained on it."""
    if not domain.code:
        return replace(TEXT, yes_no=domain.yes_no)
    return LOOSE_CODE if shots else CODE


def check_openings(domain: Domain) -> None:
    """Raise `ConfigError` if a worked example does not show the opening of its action, which the search inserts."""
    style = CODE if domain.code else TEXT
    for action, examples in domain.examples.items():
        shown = style.openings[action].strip()
        line = re.compile(rf"^{re.escape(shown)}".replace(r"\{n\}", r"\d+"), re.MULTILINE)
        for number, (_, solution) in enumerate(examples.worked, 1):
            if line.search(solution) is None:
                raise ConfigError(
                    f"search.domain {domain.name!r}: {FILES[action]}.toml, example {number}: no line begins with "
                    f"{shown.replace('{n}', '1')!r}, with which the search opens this action"
                )


def rest_stops(style: Style, begun: str) -> tuple[str, ...]:
    """Stop strings for the rest of a solution. One that asks sub-questions may ask more of them."""
    stops = style.stops["finish"]
    asks = style.code is None and _QUESTION in f"\n{begun}"
    return tuple(stop for stop in stops if stop != _QUESTION) if asks else stops


def opening(style: Style, action: str, text: str) -> str:
    """The opening of `action` after the solution's `text` so far, on a line of its own; ``answer``: see `Style`."""
    template = style.answer[0] if action == "answer" else style.openings[action]
    about_question = action in ("question", "answer", "reanswer")
    begun = sum(line.startswith("Question " if about_question else "Step ") for line in text.splitlines())
    line = template.replace("{n}", str(begun + (action not in ("answer", "reanswer"))))
    return f"\n{line}" if line and text and not text.endswith("\n") else line


def is_heading(text: str, action: str = "step") -> bool:
    """Whether a text ends with a line that only names a step, as in ``**Find the total**``: the work is written below.

    The answer to a sub-question may be a few words, so only empty lines and those that end with a colon count there.
    """
    line = text.rstrip().rpartition("\n")[2].strip()
    if states_answer(text):  # "Final answer:", and the answer below
        return stated_answer(text) is None and _ANNOUNCED.search(line) is not None
    if not line or action != "step":
        return not line or line.endswith(":")
    return len(line) <= MAX_HEADING and _HEADING.fullmatch(line) is not None


def lists_one_item(text: str) -> bool:
    """Whether a line of conditions holds the first one alone, so that others may follow below."""
    return _SECOND_ITEM.search(text) is None


def is_item(line: str) -> bool:
    """Whether a line is an item of a list."""
    return _ITEM.match(line) is not None


def is_final_question(subquestion: str, question: str) -> bool:
    """Whether a sub-question asks for the answer of the whole problem."""
    return bool(_FINAL.search(subquestion)) or _words(subquestion) == _words(question)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def read(style: Style, action: str, before: str, completion: Completion, final: bool = False) -> Reading:
    """Parse the continuation of an action.

    Args:
        style: of the domain.
        action: its name, or ``answer`` for the answer to a sub-question.
        before: what the step holds already, such as its opening.
        completion: what the policy wrote.
        final: the sub-question is the whole problem, so its answer is the final one.
    """
    if style.code is not None:
        return style.code.read(replace(completion, text=before + completion.text))
    if completion.stop_reason == "length":
        return Reading(failure="length")
    if still_thinking(completion.text) or not completion.text.strip():
        return Reading(failure="no_step")
    text = before + completion.text
    if action == "finish" or final:
        answer = stated_answer(text.partition(f"\n\n{USER}")[0], yes_no=style.yes_no)
        return Reading(failure="no_answer") if answer is None else Reading(answer=answer)
    if action == "step" and states_answer(text):
        return Reading(answer=stated_answer(text, yes_no=style.yes_no))
    return Reading()


def asked(text: str) -> str:
    """The sub-question in the policy's text, without what it repeats of the opening."""
    return re.sub(r"^(?:#? *question(?: \d+)?: *)+", "", text.strip(), flags=re.IGNORECASE)
