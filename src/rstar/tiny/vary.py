"""Training data that varies more than its templates: blurred questions, and other programs for the same problem.

*Questions* are blurred so that a policy learns to read wordings that it has never seen: words that carry no number and
no name are replaced or left out. *Programs* vary so that a policy learns more than one right way, and its samples
differ: factors and terms change places, a result is used where it was named, names change. Programs of search families,
whose steps call a helper, stay as they are.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Sequence

RENAMED, COMMUTED, INLINED = 0.3, 0.3, 0.3
"""Probability of new names, of other order for each operation, and of each inlined step."""

BLURRED, REPLACED, DROPPED = 0.5, 0.08, 0.03
"""Share of blurred questions; in these, probability that a word is replaced or left out."""

_WORD = re.compile(r"(?<![\w{\\])[a-z]{2,}(?!\w)")
_LETTERS = "bcdefghjkmnpqrstuvwxyz"
"""Names for variables, without ``a`` and ``i``, which are words, and ``l`` and ``o``, which look like digits."""

_Step = tuple[str, str]
"""Comment and code."""


def blur(question: str, words: Sequence[str], rng: random.Random) -> str:
    """The question, or one in which some lower-case words are replaced by others of `words` or left out."""
    if rng.random() >= BLURRED:
        return question

    def other(word: re.Match[str]) -> str:
        draw = rng.random()
        return rng.choice(words) if draw < REPLACED else "" if draw < REPLACED + DROPPED else word[0]

    return " ".join(_WORD.sub(other, question).split())


def vary(steps: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """Another program of the same meaning, or the same program.

    Args:
        steps: reference solution; each step is a ``# comment`` line and code, or code alone.
        rng: chooses the changes.
    """
    if any("def " in step for step in steps):
        return tuple(steps)
    parsed = _inlined([_parse(step) for step in steps], rng)
    parsed = [(comment, _commuted(code, rng)) for comment, code in parsed]
    if rng.random() < RENAMED:
        parsed = _renamed(parsed, rng)
    return tuple(f"# {comment}\n{code}" if comment else code for comment, code in parsed)


def _parse(step: str) -> _Step:
    first, _, rest = step.partition("\n")
    return (first.removeprefix("# "), rest) if first.startswith("# ") else ("", step)


def _assignment(code: str) -> tuple[str, ast.expr] | None:
    """Name and value if the code is a single assignment to a name, on one line."""
    match ast.parse(code).body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)] if "\n" not in code:
            return name, value
    return None


def _inlined(steps: list[_Step], rng: random.Random) -> list[_Step]:
    """Join pairs of steps of which the second uses the first's result once, and nothing uses it later."""
    done: list[_Step] = []
    for place, (comment, code) in enumerate(steps):
        now, before = _assignment(code), _assignment(done[-1][1]) if done else None
        if now and before and comment and done[-1][0] and rng.random() < INLINED:
            name, value = before
            uses = [node for node in ast.walk(now[1]) if isinstance(node, ast.Name) and node.id == name]
            rest = " ".join(part for step in steps[place + 1 :] for part in step)
            inside = any(isinstance(node, ast.comprehension | ast.Lambda) for node in ast.walk(now[1]))
            lost = name == now[0] or not _mentions(name, rest)
            if len(uses) == 1 and lost and not inside and not _mentions(name, comment):
                text = ast.get_source_segment(done[-1][1], value) or ""
                (use,) = uses
                text = f"({text})" if isinstance(value, ast.BinOp | ast.UnaryOp) and use is not now[1] else text
                done[-1] = f"{done[-1][0]}, {comment}", code[: use.col_offset] + text + code[use.end_col_offset :]
                continue
        done.append((comment, code))
    return done


def _commuted(code: str, rng: random.Random) -> str:
    """Swap the operands of a sum or product of two numbers or names."""
    found = _assignment(code)
    match found and found[1]:
        case ast.BinOp(
            ast.Constant() | ast.Name() as left, ast.Add() | ast.Mult(), ast.Constant() | ast.Name() as right
        ):
            if rng.random() < COMMUTED:
                head, sign = code[: left.col_offset], code[left.end_col_offset : right.col_offset]
                first, second = (code[node.col_offset : node.end_col_offset] for node in (left, right))
                return f"{head}{second}{sign}{first}"
    return code


def _renamed(steps: list[_Step], rng: random.Random) -> list[_Step]:
    """Give the one-letter variables other letters, in code and comments."""
    names = {node.id for _, code in steps for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    text = " ".join(part for step in steps for part in step)
    stored = [
        name for name in sorted(names) if len(name) == 1 and name in _LETTERS and re.search(rf"\b{name}\b =", text)
    ]
    free = [letter for letter in _LETTERS if not _mentions(letter, text)]
    if len(free) < len(stored):
        return steps
    new = dict(zip(stored, rng.sample(free, len(stored)), strict=True))
    if not new:
        return steps
    pattern = re.compile(rf"\b({'|'.join(new)})\b")
    return [tuple(pattern.sub(lambda name: new[name[0]], part) for part in step) for step in steps]  # type: ignore[misc]


def _mentions(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
