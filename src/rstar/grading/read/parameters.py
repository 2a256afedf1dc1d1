r"""Clauses on the parameter of a formula, in symbols: "for some integer k" is ``,k\in\mathbb{Z}``.

"``$n=3^m$`` for some integer ``$m\ge 0$``" becomes ``$n=3^m,m\in\mathbb{Z},m\ge 0$``, and "``$7k+3$``, ``$k$``
为正整数" becomes ``$7k+3,k\in\mathbb{Z},k\ge 1$``. A clause counts only after a formula with its letter.
"""

from __future__ import annotations

import re

_SEARCHED_LENGTH = 2_000
"""Characters at the end of a text in which clauses are rewritten."""
_FORMULA_LENGTH = 200
_KEY = re.compile(
    r"integer|natural number|whole number|entier|entero|natur[ae]l|ganz[ez]|natürliche|inteiro|intero|整数|自然数"
    r"|\\in ?(?:\\math(?:bb|bf|rm) ?)?\{?[ZN]|[01], ?\\?p?m? ?[12],"
)
_SIGNAL = ("integer", "nat", "whole", "ent", "ganz", "int", "整", "自然", r"\in", "1,")
"""One of these is in every text that `_KEY` matches."""
_KINDS = {
    r"\in\mathbb{Z},LETTER\ge 1": r"positive integers?|正整数|entiers? (?:strictement )?positifs?"
    r"|(?:número )?enteros? positivos?|positive[nr]? ganze[nr]? Zahl(?:en)?|inteiros? positivos?|inter[io] positiv[io]",
    r"\in\mathbb{Z},LETTER\ge 0": r"non-?negative integers?|非负整数|(?:número )?enteros? no negativos?"
    r"|nicht-?negative[nr]? ganze[nr]? Zahl(?:en)?",
    r"\in\mathbb{N}": r"natural numbers?|自然数|entiers? naturels?|(?:número )?natural(?:es)?"
    r"|natürliche[nr]? Zahl(?:en)?",
    r"\in\mathbb{Z}": r"integers?|whole numbers?|整数|entiers?(?: relatifs?| quelconques?)?|(?:número )?enteros?"
    r"|ganze[nr]? Zahl(?:en)?|ganzzahlig|(?:número )?inteiros?|(?:numero )?intero|interi",
}
_KIND = "|".join(f"(?P<k{at}>{words})" for at, words in enumerate(_KINDS.values()))
_GAP = r"\s{0,3}"
_BOUND = rf"{_GAP}(?:\\(?:[gl]eq?|[gl]t|neq?)(?![A-Za-z])|[<>≤≥]){_GAP}-?\d{{1,6}}"
_LETTER = rf"\$?(?P<letter>[a-z])(?P<bound>{_BOUND})?\$?(?!{_GAP}(?:,|and){_GAP}\$?[a-z](?![A-Za-z]))"
_LINK = r"(?:where|with|for|as|and|其中|où|avec|pour|donde|con|para|wobei|mit|für|onde|com|dove|per)"
_SOME = r"(?:some|any|all|every|each|an?|arbitrary|任意|tout|un|une|algún|todo|einer?|alle|um|uno)"
_OPEN = rf"[\s,，]{{0,4}}[(（]?{_GAP}(?:{_LINK}{_GAP})?"
_CLOSE = rf"{_GAP}[)）]?"
_SETS = re.compile(
    rf"{_OPEN}\$(?P<member>(?P<letter>[a-z]){_GAP}\\in{_GAP}(?:\\math(?:bb|bf|rm){_GAP})?\{{?[ZN]\}}?"
    rf"(?:{_GAP}[_^]{_GAP}\{{?[*+]\}}?)?){_GAP}\${_CLOSE}"
)
_BEFORE = re.compile(rf"{_OPEN}(?:{_SOME} ){{0,2}}(?:{_KIND}) {_LETTER}(?![A-Za-z\\]){_CLOSE}")
_AFTER = re.compile(
    rf"{_OPEN}{_LETTER}{_GAP}(?:\b(?:is|being|est|es|ist|é|è)\b|[为是])?{_GAP}(?:{_SOME} ?){{0,2}}"
    rf"(?:{_KIND})(?![A-Za-z])(?: ist)?{_CLOSE}"
)
_COUNTED = re.compile(
    rf"{_OPEN}\$?(?P<letter>[a-z]){_GAP}={_GAP}"
    rf"(?:(?P<first>[01]),{_GAP}(?P<second>[12]),{_GAP}(?P<third>[23]),?"
    rf"|(?P<both>0,{_GAP}(?:\\pm|±){_GAP}1,{_GAP}(?:\\pm|±){_GAP}2,?))"
    rf"{_GAP}(?:,?{_GAP}(?:\\[lc]?dots|\.\.\.|…))\$?{_CLOSE}"
)
_EVERYWHERE = re.compile(
    rf"(?P<formula>[fghuvFGHPQ]\((?P<letter>[a-z])\){_GAP}=[^=\n]{{1,120}}?)(?P<close>\$?),?{_GAP}"
    rf"(?:\\text{_GAP}\{{{_GAP})?for (?:all|every|any|each)(?: real)?(?: numbers?)?{_GAP}\}}?{_GAP}"
    rf"\$?(?P=letter){_GAP}(?:\\in{_GAP}\\mathbb{_GAP}\{{?R\}}?)?{_GAP}(?P<end>\$?)"
    rf"(?={_GAP}(?:[,;.}}]|$|\b(?:and|or)\b|\\text{_GAP}\{{{_GAP}(?:and|or)\b))"
)
"""A formula of a function for all its arguments."""
_UPRIGHT = re.compile(r"\\(?:text|textrm|mathrm|mbox) ?\{([^{}]*)\}")
_CLAUSE = re.compile(rf"{_KEY.pattern}|^[\s,]*{_LINK}(?: {_SOME})?\s*$")
_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")


def parameters_in_symbols(text: str) -> str:
    """Rewrite the clauses on parameters at the end of a text in symbols; drop "for all x" after ``f(x) = 2x``."""
    if ")" in text and "for " in text:
        text = _EVERYWHERE.sub(lambda match: match["formula"] + (match["close"] or match["end"]), text)
    start = max(len(text) - _SEARCHED_LENGTH, 0)
    end = text[start:]
    if not any(map(end.__contains__, _SIGNAL)) or _KEY.search(end) is None:
        return text
    end = _UPRIGHT.sub(lambda match: f" {match[1]} " if _CLAUSE.search(match[1]) else match[0], end)
    for pattern in (_SETS, _BEFORE, _AFTER, _COUNTED):
        end = _rewritten(pattern, end)
    return text[:start] + end


def _rewritten(pattern: re.Pattern[str], text: str) -> str:
    parts: list[str] = []
    done = 0
    for match in pattern.finditer(text):
        condition = _condition(match)
        before = "".join(parts) + text[done : match.start()]
        if condition is None or not _has_parameter(before, match["letter"]):
            continue
        closed = before.endswith("$")
        parts = [before[:-1] if closed else before, condition, "$" if closed else ""]
        done = match.end()
        if text[done : done + 1].isalnum():
            parts.append(" ")
    return "".join(parts) + text[done:]


def _condition(match: re.Match[str]) -> str | None:
    """What a clause says of its letter; None if the letter's sequence of values is unknown."""
    letter = match["letter"]
    if match.re is _SETS:
        return "," + match["member"].replace(" ", "")
    if match.re is _COUNTED:
        if match["both"]:
            return rf",{letter}\in\mathbb{{Z}}"
        first, second, third = (int(match[name]) for name in ("first", "second", "third"))
        return rf",{letter}\in\mathbb{{Z}},{letter}\ge {first}" if (first + 1, first + 2) == (second, third) else None
    kind = next(text for at, text in enumerate(_KINDS) if match[f"k{at}"])
    bound = f",{letter}{match['bound']}" if match["bound"] else ""
    return f",{letter}{kind.replace('LETTER', letter)}{bound}"


def _has_parameter(before: str, letter: str) -> bool:
    """Whether a text ends in a formula with a letter."""
    if before.endswith("$"):
        formula = before[:-1].rpartition("$")[2]
    else:
        tail = before[-_FORMULA_LENGTH:]
        formula = tail[max((word.end() for word in _WORD.finditer(tail)), default=0) :]
    return len(formula.strip()) > 1 and re.search(rf"(?<![A-Za-z\\]){letter}(?![a-z])", formula) is not None
