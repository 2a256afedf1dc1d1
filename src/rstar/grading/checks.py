"""Verifiers for problems with many correct answers, selected by the `kind` of `AnswerKey.check`.

``{"kind": "expression", "numbers": [4, 7, 8, 8], "target": 24}``: the prediction must be an arithmetic expression with
+ - * / and parentheses. It must use exactly these numbers, each as often as listed, and its exact value must be the
target. Refused: signs in front of a number, powers, ``//``, decimals, concatenated digits, division by zero. Operators
may be written as × ÷ ``\\times`` ``\\cdot`` ``\\div``, and "= 24" may follow.

The prediction is parsed with `ast` under a length limit; Python never evaluates it.

``{"kind": "programs", "inputs": ["3\\n"], "outputs": ["9\\n"]}``: the prediction must be a program that turns each
input into its output. Running it is not grading but the task of an agent's environment (`rstar.agent.environment`).

``{"kind": "workup", "diagnosis": "Varnic fever", "topics": ["travel"], "tests": ["opal stain"]}``: the prediction must
name the condition. The topics and tests are those that the case needed; only an agent's environment verifies them.

``{"kind": "verifiers", "name": "gsm8k", "task": {…}}``: the data of a task of the verifiers library, whose own code
computes the reward (`rstar.agent.verifiers`).
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from rstar.errors import DataError
from rstar.grading.find.extract import answer_of
from rstar.grading.read.normal import words
from rstar.grading.verdict import Verdict

MAX_EXPRESSION_LENGTH = 2_000
_SIGNS = {
    **dict.fromkeys(("\\times", "\\cdot", "×", "·", "\\*"), "*"),
    **dict.fromkeys(("\\div", "÷"), "/"),
    **dict.fromkeys("−–", "-"),
    **dict.fromkeys("[{", "("),
    **dict.fromkeys("]}", ")"),
    **dict.fromkeys(("\\left", "\\right", "\\(", "\\)", "$"), ""),
}
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_ALLOWED = re.compile(r"[0-9+\-*/() \t]+")
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class _NotAnExpression(Exception):  # noqa: N818 - internal control flow
    """The text is not an allowed expression; the message is the verdict's reason."""


def run_check(check: Mapping[str, Any], prediction: str | None) -> Verdict:
    """Verify a prediction against a check.

    Raises:
        DataError: the check has an unknown kind or is malformed.
    """
    kind = check.get("kind")
    verifier = CHECKS.get(kind) if isinstance(kind, str) else None
    if verifier is None:
        raise DataError(f"unknown kind of check {kind!r}; known: {', '.join(sorted(CHECKS))}")
    return verifier(check, answer_of(prediction))


def check_expression(check: Mapping[str, Any], answer: str | None) -> Verdict:
    """Verify that `answer` is an expression over exactly ``check["numbers"]`` with the value ``check["target"]``."""
    numbers, target = check.get("numbers"), check.get("target")
    if not isinstance(numbers, list | tuple) or not numbers or not all(type(n) is int and n >= 0 for n in numbers):
        raise DataError(f"an expression check needs 'numbers', a list of non-negative integers, got {numbers!r}")
    if type(target) is not int:
        raise DataError(f"an expression check needs 'target', an integer, got {target!r}")
    wanted = f"{target} from {', '.join(map(str, sorted(numbers)))}"
    if answer is None:
        return Verdict("unparseable", "no answer found", wanted)
    left, _, right = _SIGN.sub(lambda match: _SIGNS[match.group()], answer[: MAX_EXPRESSION_LENGTH + 1]).partition("=")
    form = left.strip()
    try:
        if right.strip(" .") not in ("", str(target)):
            return Verdict("wrong", f"claims {right.strip()[:40]} instead of {target}", wanted, form)
        tree = _parse(form)
        used = Counter(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        if used != Counter(numbers):
            return Verdict("wrong", "does not use exactly the given numbers", wanted, form)
        value = _value(tree)
    except _NotAnExpression as error:
        return Verdict("unparseable", str(error), wanted, form[:200])
    except ZeroDivisionError:
        return Verdict("wrong", "divides by zero", wanted, form)
    if value != target:
        return Verdict("wrong", f"has the value {value}", wanted, form)
    return Verdict("correct", "the expression has the value asked for", wanted, form)


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise _NotAnExpression("the expression is too long")
    if not _ALLOWED.fullmatch(text):
        raise _NotAnExpression("not an expression of numbers, + - * / and parentheses")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _NotAnExpression("not a well-formed expression") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            continue
        if isinstance(node, ast.operator) or (isinstance(node, ast.Constant) and type(node.value) is int):
            continue
        raise _NotAnExpression(f"{type(node).__name__} is not allowed in the expression")
    return tree


def _value(tree: ast.expr) -> Fraction:
    """Return the exact value. The count of numbers, already checked, bounds depth and size."""
    if isinstance(tree, ast.Constant):
        return Fraction(tree.value)  # type: ignore[arg-type]
    assert isinstance(tree, ast.BinOp)
    return _OPERATORS[type(tree.op)](_value(tree.left), _value(tree.right))


def test_cases(check: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The test cases of a check of kind ``programs``: standard input and expected output of each.

    Raises:
        DataError: it is not such a check, or has no test case, or a malformed one.
    """
    check = check or {}
    inputs, outputs = check.get("inputs"), check.get("outputs")
    for name, texts in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise DataError(f"a programs check needs {name!r}, a list of texts, got {texts!r}")
    assert isinstance(inputs, list)
    assert isinstance(outputs, list)
    if len(inputs) != len(outputs):
        raise DataError(f"a programs check needs an output for each input, got {len(inputs)} and {len(outputs)}")
    return list(zip(inputs, outputs, strict=True))


def check_program(check: Mapping[str, Any], answer: str | None) -> Verdict:
    """No verdict: a grader runs no code. The environment ``programs`` does."""
    cases = test_cases(check)
    return Verdict("error", "a program is graded by running it: use the agent with environment 'programs'", str(cases))


def workup_needs(check: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """The topics and the tests that a case needed, from its check of kind ``workup``.

    Raises:
        DataError: it is not such a check, or it is malformed.
    """
    check = check or {}
    needs = check.get("topics"), check.get("tests")
    for name, texts in zip(("topics", "tests"), needs, strict=True):
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise DataError(f"a workup check needs {name!r}, a list of texts, got {texts!r}")
    topics, tests = needs
    assert isinstance(topics, list)
    assert isinstance(tests, list)
    return topics, tests


def check_workup(check: Mapping[str, Any], answer: str | None) -> Verdict:
    """Verify that `answer` names the condition ``check["diagnosis"]``, up to case, article and punctuation."""
    workup_needs(check)
    diagnosis = check.get("diagnosis")
    if not isinstance(diagnosis, str) or not diagnosis.strip():
        raise DataError(f"a workup check needs 'diagnosis', a text, got {diagnosis!r}")
    if answer is None:
        return Verdict("unparseable", "no answer found", diagnosis)
    if words(answer) == words(diagnosis):
        return Verdict("correct", "the condition that fits", diagnosis, answer)
    return Verdict("wrong", "another condition", diagnosis, answer)


def verifiers_task(check: Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any]]:
    """The task set and the task's data of a check of kind ``verifiers``.

    Raises:
        DataError: it is not such a check, or it is malformed.
    """
    name, task = (check or {}).get("name"), (check or {}).get("task")
    if not isinstance(name, str) or not isinstance(task, dict):
        raise DataError(f"a verifiers check needs 'name', a text, and 'task', an object, got {name!r} and {task!r}")
    return name, task


def check_verifiers(check: Mapping[str, Any], answer: str | None) -> Verdict:
    """No verdict: the task set's own code rewards a rollout, in the environment ``verifiers:NAME``."""
    name, _ = verifiers_task(check)
    return Verdict("error", f"graded by its task set: use the agent with environment 'verifiers:{name}'", name)


CHECKS: dict[str, Callable[[Mapping[str, Any], str | None], Verdict]] = {
    "expression": check_expression,
    "programs": check_program,
    "workup": check_workup,
    "verifiers": check_verifiers,
}
"""Verifier per kind: (check, extracted answer or None) -> Verdict."""
