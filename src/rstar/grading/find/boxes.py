r"""Answers in boxes: ``\boxed{…}`` with balanced braces, and the text around them.

The last box counts. Boxes separated only by "and", commas, names and the like form one list. A denied box ("not
``\boxed{7}``") is skipped. A box that is only a part of a formula (``\frac{1}{\boxed{7}}``, ``2\boxed{7}``) holds no
answer. A sign, a base, a percent sign or a "million" beside a box belongs to it.
"""

from __future__ import annotations

import re

from rstar.grading.read.units import LETTERS, is_known

_BRACE = re.compile(r"\\(?:boxed|fbox|framebox)\s*\{|\\.|[{}]", re.DOTALL)
_PLAIN = re.compile(r"\\boxed\{((?:[^{}\\]|\\[dt]?frac\{\d+\}\{\d+\})*)\}")
_DOUBTFUL = re.compile(r"(?:[-−{≠\d+*/<>]|\b(?:not|be|never)\b|n't|\\[a-z]+)[\s$]*(?:\\[(\[]\s*)?$")
"""Text before a box that rules out the fast path."""
_SECOND_THOUGHTS = re.compile(r"\b(?:wait|wrong|mistake|incorrect|actually|correction)\b", re.IGNORECASE)
_APART = re.compile(
    r"\b(?:answer|final|intermediate|wait|wrong|mistake|incorrect|actually|correction|no|not|never|cannot|impossible"
    r"|reject\w*|discard\w*|extraneous|instead|guess|since|rather)\b|n't\b|\\ne",
    re.IGNORECASE,
)
"""Words between two boxes that make them separate answers."""
_NEAT = re.compile(r"[\s$.]*(?:\\[)\]][\s$.]*$|[\s$.]*$|[\s$]*[.\n]\s*[A-Z])")
"""Text after a box that allows the fast path."""
_LOOSE = re.compile(r"(?<![\\A-Za-z])boxed\{|\\Boxed\{")
_BARE = re.compile(r"\\boxed +([^\s{}$\\]+)")
"""Boxes that models misspell, and boxes without braces, which TeX allows."""
_EMPTY = re.compile(r"\\(?:boxed|fbox|framebox)\s*\{\s*\}")
_NAMED = r"([A-Za-z](?:_\w|_\{\w+\})?)\s*=\s*"
_BETWEEN = re.compile(
    r"(?:(?<=\n)(?:[-*•]|\d{1,2}[.)]) |\s|[,;:$&]|\([a-z]\)|\\[,;!()\\ ]|\\q?quad|\\\[|\\\]"
    r"|\\(?:text|textnormal|textrm|mathrm)\{\s*(?:and|or)\s*\}|and|or)*"
    rf"(?:{_NAMED})?"
)
_HEADING = re.compile(r"\b(?:final )?answers\b[ *]*(?:are)?[ *]*:[ *]*\n(?=[^\n]*$)", re.IGNORECASE)
_NAME = re.compile(rf"(?<![A-Za-z\\]){_NAMED}$")
_LABEL = re.compile(r"\((\d|[a-h]|i{1,3}|iv|v)\)[^()]*$")
_DENIED = re.compile(r"(?:\\neq?|≠|!=|\b(?:not|cannot be|never|n't be)\b|n't)[\s$]*$")
_MINUS = re.compile(r"(?:[=$]|\\[(\[])(?!\s*\n\s*[-−] )\s*[-−]\s*$|^[-−]$")
_INSIDE = re.compile(r"(?:\\(?:[dt]?frac|sqrt|binom)|[\]}^_])\s*$")
_DEGREE = r"(?!\{?\s*\\circ)"
_FACTOR = r"[a-fi-ko-rt-z](?![a-z])"  # a letter that is not a unit
_OPERATION = r"\\(?:cdot|times|div|sqrt|frac|pi|pm|geq?|leq?|[lg]t)(?![a-z])"
_BEFORE = re.compile(r"(?:\d|[+*/<>≤≥]|\\(?:cdot|times|div|pm|geq?|leq?|[gl]t|sqrt))\s*$")
_AFTER = re.compile(rf"\s*(?:[+*/:<>!](?!\s*$)|\^{_DEGREE}|-\s*[\d\\a-z]|{_OPERATION}|\{{,\}}|{_FACTOR})")
"""Text around a box in a formula that makes it a part of that formula."""
_ATTACHED = re.compile(rf"[/:*+](?=[\d\\{{(])|\^{_DEGREE}|\{{,\}}\d|{_FACTOR}|\\sqrt")
"""Text after any box that makes it a part of a formula."""
_BASE = re.compile(r"\s*(_(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}|\w))")
_UNIT = re.compile(
    r"[\s$~]*(?:\\[,;: ]\s*)?(?:\\(?:text|mathrm)\{\s*)?(?P<unit>[ap]\.m\b\.?|[A-Za-z]+|¢|')[\s$]*\}?"
    r"(?P<power>\^\{?\d\}?)?"
)
_IN_BASE = re.compile(r"[\s$]*(?:\\text\{\s*)?\(?(?:in )?base[- ](\w+)", re.IGNORECASE)
_SCALED = re.compile(r"[\s$]*(?:\\text\{\s*)?(hundred|thousand|million|billion|trillion|dozen|\\?%)(?![a-z])")

MAX_BOXES = 50

BoxSpan = tuple[int, int, int]
"""(start of the command, start of the content, end of the content)."""


def boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{…}`` with balanced braces; None if there is none or it is empty."""
    spans = _boxes(text)
    return text[spans[-1][1] : spans[-1][2]].strip() or None if spans else None


def without_empty_boxes(text: str) -> str:
    """Drop empty boxes: models only mention them."""
    return _EMPTY.sub("", text) if "{" in text else text


def only_box(text: str, start: int) -> str | None:
    """The content of the box at `start` if it is plain and stands alone; None if it needs the full path."""
    match = _PLAIN.match(text, start)
    if match is None or _DOUBTFUL.search(text, max(start - 20, 0), start) or not _NEAT.match(text, match.end()):
        return None
    return None if _SECOND_THOUGHTS.search(text, match.end()) else match[1]


def boxed_answer(text: str) -> str | None:
    """The combined content of the last boxes; None without boxes, empty if none holds an answer."""
    if "oxed{" in text:
        text = _LOOSE.sub(r"\\boxed{", text)
    if "\\boxed " in text:
        text = _BARE.sub(r"\\boxed{\1}", text)
    spans = _boxes(text)
    if not spans:
        return None
    spans = [span for span in spans if not _DENIED.search(text, max(span[0] - 20, 0), span[0])]
    if not spans:
        return ""
    contents = [_content(text, spans[-1])]
    named, ratio = None, False
    for before, after in zip(spans[-2::-1], spans[::-1], strict=False):
        between = _BETWEEN.fullmatch(text, before[2] + 1, after[0])
        if between is None or len(contents) == MAX_BOXES:
            break
        ratio = ":" in between[0]
        if between[1]:
            contents[0], named = f"{between[1]}={contents[0]}", before
        contents.insert(0, _content(text, before, after[0]))
    if named is not None and (name := _NAME.search(text, max(named[0] - 20, 0), named[0])) is not None:
        contents[0] = f"{name[1]}={contents[0]}"
    if not all(contents):
        return ""
    return (":" if ratio else ", ").join(contents if ratio else dict.fromkeys(contents))


def combined_boxes(text: str) -> str | None:
    """The combined content of all boxes if each may be a part of the answer; None if in doubt."""
    spans = _boxes(text)
    if not 1 < len(spans) <= MAX_BOXES or _SECOND_THOUGHTS.search(text, spans[-1][2]):
        return None
    contents: list[str] = []
    labels: list[str] = []
    end = max(spans[0][0] - 60, 0)
    for span in spans:
        before = text[end : span[0]]
        if _APART.search(before if contents else _HEADING.sub("", before)):
            return None
        name = _NAME.search(before[-20:])
        content = _content(text, span)
        contents.append(content if name is None or not content else f"{name[1]}={content}")
        labels += _LABEL.findall(before)
        end = span[2]
    if len(set(labels)) == len(contents) and all(contents):
        return "; ".join(f"({label}) {content}" for label, content in zip(labels, contents, strict=True))
    return ", ".join(dict.fromkeys(contents)) if all(contents) else None


def _boxes(text: str) -> list[BoxSpan]:
    """All outermost boxes that are not empty."""
    stack: list[tuple[int, int] | None] = []
    found: list[BoxSpan] = []
    for match in _BRACE.finditer(text):
        token = match.group()
        if token == "{":
            stack.append(None)
        elif token == "}":
            opener = stack.pop() if stack else None
            if opener is not None:
                while found and found[-1][0] > opener[0]:
                    found.pop()
                found.append((*opener, match.start()))
        elif token.endswith("{") and len(token) > 2:
            stack.append((match.start(), match.end()))
    return [span for span in found if text[span[1] : span[2]].strip()]


def _content(text: str, span: BoxSpan, limit: int | None = None) -> str:
    """The content of a box with what belongs to it, up to a limit; empty if the box is a part of a formula."""
    start, first, last = span
    content = text[first:last].strip()
    before, after = (
        text[max(start - 20, 0) : start],
        text[last + 1 : last + 40 if limit is None else min(last + 40, limit)],
    )
    opener = before.rstrip()
    if _ATTACHED.match(after) or (opener.endswith("{") and _INSIDE.search(opener[:-1])):
        return ""
    if _in_formula(text, start) and (_BEFORE.search(before) or _AFTER.match(after)):
        return ""
    if _MINUS.search(before):
        content = f"-({content})"
    if (base := _BASE.match(after)) is not None:
        content += base[1]
    if (base := _IN_BASE.match(after)) is not None:
        return f"{content} in base {base[1]}" if "_" in content else f"{content}_{{{base[1]}}}"
    if (scale := _SCALED.match(after)) is not None:
        return f"{content} {scale[1]}"
    unit = _UNIT.match(after)
    if unit is None or content[-1:] not in "0123456789}":
        return content
    if is_known(unit["unit"]) or (unit["unit"] in LETTERS and "{" in unit[0]):
        return rf"{content} \text{{{unit['unit']}}}{unit['power'] or ''}"
    return content if unit["unit"].isalpha() else f"{content} {unit['unit']}"


def _in_formula(text: str, place: int) -> bool:
    if any(text.rfind(f"\\{start}", 0, place) > text.rfind(f"\\{end}", 0, place) for start, end in ("[]", "()")):
        return True
    double = text.count("$$", 0, place)
    return bool(double % 2 or (text.count("$", 0, place) - text.count("\\$", 0, place) - 2 * double) % 2)
