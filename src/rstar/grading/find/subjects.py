r"""Sentences that do not end with their answer.

The answer is the subject ("Evelyn has the greatest speed", "$4-3i$ is the conjugate"), precedes its reason ("It is 25,
because 5 squared is 25"), or must be assembled from words ("as 2 is to 1", "the point (1, -4)", "x equal to 3 together
with y equal to 0").
"""

from __future__ import annotations

import re

from rstar.grading.read.vocabulary import words_of

_FORMULA = r"\$[^$]{1,200}\$|\\\([^()]{1,200}\\\)"
_NUMBER = r"[-−]?\d+(?:\.\d+)?(?:/\d+)?"
_VALUE = rf"{_NUMBER}|[-−]?\\[dt]?frac\{{\d+\}}\{{\d+\}}|[-−]?\d*\\sqrt\{{\d+\}}|[-−]?√\d+"
_REASON = re.compile(r",?\s+(?:because|since|as it|as this|as they)\b")
_CONSEQUENCE = re.compile(r"\b(?:so|thus|hence|therefore|then|but|however|actually)\b", re.IGNORECASE)
_IS_DESCRIBED = re.compile(
    rf"(?:(?:so|thus|hence|therefore|then|and)\b,? )?({_FORMULA}) is (?:the|our) (?P<what>[a-z][a-z ]{{2,40}})\.?",
    re.IGNORECASE,
)
_ANOTHER = re.compile(
    r"\b(?:not|wrong|incorrect|false|first|second|third|last|next|previous|initial|other|intermediate|discriminant|same"
    r"|case|variable|unknown|step|half|double|extraneous|asymptote|number of|starting|only if|bound|where|subtract|add"
    r"|divide|multiply)\b"
)
"""Descriptions of values that are not the answer."""
_RESULT = re.compile(
    r"\b(?:answer|value|solution|result|conjugate|inverse|(?:anti)?derivative|integral|polynomial|equation|expression"
    r"|formula|matrix|vector|function|probability|simplified|factored|reduced|closed|required|desired|wanted|sought"
    r"|want|general|tangent|remainder|maximum|minimum|smallest|largest|only)\b"
)
"""Descriptions of values that are the answer."""
_SUPERLATIVE = re.compile(
    r"(?:(?:[Ss]o|[Tt]hus|[Hh]ence|[Tt]herefore),? )?(?P<name>[A-Z][a-z]{2,}) (?:has|had|is|was|runs|ran|got|gets"
    r"|won) the "
    r"(?:(?:most|least|best|worst)|[a-z]{2,}(?:est))\b(?P<rest>[^.]*)\.?"
)
_NO_NAMES = words_of("this that these those which who what she her his its one everyone nobody each there here")
_OTHER_NAMES = re.compile(
    r"\b(?:but|except|after|behind|besides|if|unless|not|or|and|than|when|while|nearly|almost)\b|[A-Z][a-z]{2,}|[?\d]"
)
_RATIO = re.compile(
    r"(?P<first>[^,;]{1,60}?) (?:is|are) to (?P<second>[^,;]{1,60}?) as (?P<a>\d+) (?:is|are) to (?P<b>\d+)\.?"
)
_NAMED = re.compile(r"\$?([A-Za-z](?:_\w)?)\$?")
_POINT = re.compile(
    rf"\b(?:meet|intersect|cross|touch|vertex|cent(?:er|re)|focus|midpoint|coincide)\w*\b[^()]*"
    rf" (?:at|in|is)(?: the)?(?: point)? (\((?:{_NUMBER}), ?(?:{_NUMBER})(?:, ?(?:{_NUMBER}))?\))\.?"
)
_ASSIGNED = re.compile(
    rf"(?<![\w+*/^)\\-])(?<![-+*/^=] )\$?(?P<name>[A-Za-z](?:_\d)?)\$? ?(?:=|is equal to|equals|equal to|is)"
    rf" ?\$?(?P<value>{_VALUE})\$?"
    r"(?!\w|[.,:]\d|\\| ?[-+*/^=<>(] ?[\w\\(])"
)
_UNCERTAIN = re.compile(
    r"\b(?:or|either|if|when|not|never|unless|suppose|assume|let|try|trying|would|could|cannot|instead|wrong|reject\w*"
    r"|discard\w*|extraneous|impossible|wait|no|since|because|fails?|contradict\w*)\b|n't\b|≠|\\ne|[?<>≤≥]",
    re.IGNORECASE,
)
_INTERMEDIATE = re.compile(
    r"^(?:for|with|at)\b|\b(?:check|almost|start\w*|plug\w*|guess|test\w*|lines?|asymptotes?|ax[ie]s|example|instance"
    r"|given|consider|take|put|set)\b",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z$\\])")
_OTHER_PLACE = re.compile(
    r"\b(?:where|want|reflect\w*|distance|from|through|before|after|between|neither|rarely|seldom|hardly"
    r"|yesterday|tomorrow)\b",
    re.IGNORECASE,
)
"""Words that mean another point or day."""
_MAX_LETTERS = 6
_WEEKDAY = re.compile(
    r"\b(?:falls|fell|fall|is|was|be|comes|lands|land|begins|starts) (?:on )?(?:an? )?"
    r"((?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)$"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:could|might|may|would|should|know|knew|if|suppose|given|guess|think)\b", re.IGNORECASE
)
_FURTHER_STATEMENT = re.compile(r",[^,]*(?:\b(?:is|are|was|were|equals)\b|=)")
"""A further statement after a reason."""


def clause_before_reason(line: str) -> str | None:
    """The clause before the reason that ends a line; None if there is none, or a conclusion follows."""
    reason = _REASON.search(line)
    if reason is None or _CONSEQUENCE.search(line, reason.end()) or _FURTHER_STATEMENT.search(line, reason.end()):
        return None
    main = line[: reason.start()]
    return None if _HYPOTHETICAL.search(main) else main


def described_formula(sentence: str) -> str | None:
    """The formula that a whole sentence describes: ``$4-3i$ is the conjugate``; None for any other sentence."""
    match = _IS_DESCRIBED.fullmatch(sentence)
    if match is None or _ANOTHER.search(match["what"]) or not _RESULT.search(match["what"]):
        return None
    return match[1]


def superlative_name(sentence: str) -> str | None:
    """The name with the superlative, in a sentence that names nobody else."""
    match = _SUPERLATIVE.fullmatch(sentence)
    if match is None or match["name"].lower() in _NO_NAMES or _OTHER_NAMES.search(match["rest"]):
        return None
    return match["name"]


def answer_in_words(sentence: str) -> str | None:
    """A ratio, a point or a weekday that a whole sentence gives in words."""
    if (ratio := _RATIO.fullmatch(sentence)) is not None:
        return _ratio(ratio)
    if (point := _POINT.search(sentence)) is not None:
        alone = sentence.count("(") == 1 and point.end() == len(sentence)
        return point[1] if alone and not _UNCERTAIN.search(sentence) and not _OTHER_PLACE.search(sentence) else None
    day = _WEEKDAY.search(sentence)
    alone = day is not None and len(re.findall(r"[a-z]day\b", sentence)) == 1 and not _UNCERTAIN.search(sentence)
    alone = alone and not _OTHER_PLACE.search(sentence)
    return day[1] if day is not None and alone else None


def _ratio(match: re.Match[str]) -> str | None:
    """``x:y=2:1`` if the terms are letters, otherwise ``2:1``; None if in doubt or the second term comes first."""
    first, second = (_NAMED.fullmatch(match[name].strip().split(" ")[-1]) for name in ("first", "second"))
    if first is not None and second is not None:
        return f"{first[1]}:{second[1]}={match['a']}:{match['b']}"
    if _UNCERTAIN.search(match[0]) or "second" in match["first"] or "latter" in match["first"]:
        return None
    return f"{match['a']}:{match['b']}"


def letter_values(line: str) -> str | None:
    """``x=1, y=2`` if the last sentence of a line gives several letters one value each; None if one is in doubt."""
    sentence = _SENTENCES.split(line)[-1]
    found = list(_ASSIGNED.finditer(sentence))
    values = {match["name"]: match["value"] for match in found}
    if (
        not 1 < len(values) == len(found) <= _MAX_LETTERS
        or _UNCERTAIN.search(sentence)
        or _INTERMEDIATE.search(sentence)
    ):
        return None
    return ", ".join(f"{name}={value}" for name, value in values.items())
