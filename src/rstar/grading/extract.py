r"""Finding the answer in what a model wrote.

Places are tried in a fixed order; the first that holds something decides, and within one place the *last* occurrence:

1. what stands after ``</think>`` (a text whose thinking never ends holds no answer);
2. ``<answer>…</answer>`` or ``<answer>…<end_of_answer>``;
3. ``\boxed{…}`` with balanced braces; boxes with nothing but "and", commas and the like between them are one list;
4. a phrase that announces it: "The answer is 42.", "**Answer:** 42", "#### 42";
5. the text itself, when it is an answer and not prose;
6. in the last line of prose: the formula, the bold text or the "… is 42", "… = 42" that comes last; failing that, the
   only number of its last sentence ("Tom has 9 apples left").

What is denied ("not \\boxed{7}", "the answer cannot be 7") or withdrawn ("It is 7. No, it is 8.") is no answer. Not
done on purpose: taking the last of several numbers ("Tom ate 8 of them, so 9 are left"). Everything here
is linear in the length of the text, of which only the last `TAIL` characters are looked at; what is longer than
`LONGEST_ANSWER` is no answer. Meaning is not this module's business: what it returns may still be wrapped in ``$…$`` or
carry a unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TAIL = 50_000
LONGEST_ANSWER = 2_000
LONGEST_SENTENCE_ANSWER = 60
MOST_WORDS = 5

_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_PLAIN_BOX = re.compile(r"\\boxed\{((?:[^{}\\]|\\[dt]?frac\{\d+\}\{\d+\})*)\}")
_DOUBTFUL = re.compile(r"(?:[-−{≠]|\b(?:not|be|never)\b|n't|\\neq?)[\s$]*(?:\\[(\[]\s*)?$")
"""What before a box asks for a closer look."""
_EMPTY_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{\s*\}")
_BETWEEN_BOXES = re.compile(
    r"(?:\s|[,;$&]|\\[,;!()\\ ]|\\q?quad|\\\[|\\\]|\\(?:text|textnormal|textrm|mathrm)\{\s*(?:and|or)\s*\}|and|or)*"
    r"(?:(?P<name>[A-Za-z](?:_\w|_\{\w+\})?)\s*=\s*)?"
)
_NAME = re.compile(r"(?<![A-Za-z\\])([A-Za-z](?:_\w|_\{\w+\})?)\s*=\s*$")
_DENIED = re.compile(r"(?:\\neq?|≠|!=|\b(?:not|cannot be|never|n't be)\b|n't)[\s$]*$")
_MINUS = re.compile(r"(?:[=$]|\\[(\[])\s*[-−]\s*$")
_INSIDE = re.compile(r"(?:\\(?:[dt]?frac|sqrt|binom)|[\]}^_])\s*$")
_CHANGED = re.compile(r"\s*(?:\^|!|\\cdot|\\times)")
_SCALED = re.compile(r"[\s$]*(?:\\text\{\s*)?(hundred|thousand|million|billion|trillion|dozen|\\?%)(?![a-z])")
_CLOSING_TAG = re.compile(r"</answer>|<end_of_answer>")
_CUE = re.compile(
    r"####[ \t]*|"
    r"\b(?:choose|select|pick)[ ]+(?:option[ ]+)?(?=\(?[A-H]\b)|"
    r"\b(?:answer|answers|result|(?:correct |right )?(?:option|choice))\b[ *_]*"
    r"(?:(?:is|are|was|be|equals)\b(?:[ *]*:)?|[:=]|would be\b|to (?:this|the) (?:problem|question) is\b)[ *_:]*",
    re.IGNORECASE,
)
_MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textnormal|textrm|mathrm|mbox)\s*\{[^{}]*\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}(?:\s*\{[^{}]*\})?")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"(?![A-Z]+\b)[^\W\d_]{2,}")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|equals|we|get|gives?|thus|hence|therefore|then|since|because)\b",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"\b(?:will|can|must|does|costs?|pays?|paid|earns?|needs?|takes?|took|makes?|made|spends?|spent|sells?|sold|buys?"
    r"|bought|saves?|saved|receives?|received|eats?|ate|weighs?|wins?|won|owes?|travels?|drives?|drove|walks?|runs?|ran"
    r"|reads?|finds?)\b"
)
"""Verbs of sentences; of an answer in words, where there is no number in it."""
_SENTENCE_END = re.compile(r"(?:[.?]|(?<![\d)}])(?<!\b[A-Za-z])!)(?=\s|$)|\n|,?\s+(?:because|since|which|where)\b")
_NUMBER = re.compile(
    r"(?<![\w.,/^])(?:\\?\$)?-?\d{1,30}(?:,\d{3}){0,10}(?:\.\d{1,30})?(?:/\d{1,30})?(?:\\?%)?(?![\w^/])"
)
_ASIDE = re.compile(
    r"(?<=\d)((?:\s+(?!out\b)[a-z]+){0,2}?)\s+(?:of|in|for|from|on|at|to|that|which|who|when|such)\s+(?!\d|every).*"
)
_NEGATION = re.compile(r"\b(?:not|never|no longer|cannot)\b|n't\b|(?<!no )\b(?:less|more|fewer|greater) than\b")
_CLAUSE = re.compile(r"[,;:]|\b(?:so|thus|hence|therefore|but|then)\b")
_WITHDRAWN = re.compile(r"[\s*_.]*(?:no\s*[,.!:]|wait|actually|correction|sorry|oops|hmm|scratch that)", re.IGNORECASE)
_MISTAKE = re.compile(r"\b(?:wrong|incorrect|mistake|error)\b", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\s*,?\s*\b(?:or|and)\s*|\s*,\s*")
_CONNECTIVE = re.compile(r"(?:so|thus|hence|therefore|then|finally)\b[\s,:]*", re.IGNORECASE)
_SAID_IN_BOX = re.compile(r"\\(?:text|textbf|mathrm)\s*\{([^{}]*)\}")
_LAST_SAID = re.compile(r"(?:\b(?:is|are|equals|be)\b|=)(?P<value>[^=]*)$")


def answer_of(text: str | None) -> str | None:
    """The answer in `text`, as it was written; None when there is none. See the module for the order of places."""
    if text is None:
        return None
    text = _after_thinking(text[-TAIL:])
    if text is None:
        return None
    tagged = _tagged(text)
    found = _within(text) if tagged is None else _within(tagged) or tagged.strip() or None
    return None if found is None or len(found) > LONGEST_ANSWER else found


def quick_answer(text: str) -> str | None:
    """What `answer_of` would find, where that is plain to see: one box of plain content, or what follows ``####``."""
    if "</think>" in text or "<answer>" in text or "<think>" in text:
        return None
    start = text.rfind("\\boxed{", -TAIL)
    if start >= 0:
        if text.find("\\boxed", max(len(text) - TAIL, 0)) != start or "\\fbox" in text:
            return None
        match = _PLAIN_BOX.match(text, start)
        if match is None or _DOUBTFUL.search(text, max(start - 20, 0), start):
            return None
        return None if _SCALED.match(text, match.end()) or _CHANGED.match(text, match.end()) else match[1]
    mark = text.rfind("####", -TAIL)
    if mark >= 0 and "\\fbox" not in text and "\\boxed" not in text:
        rest = text[mark + 4 :].strip()
        return rest if _CUE.search(rest) is None else None
    return None


def boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{…}`` with balanced braces; None when there is none, or it is empty."""
    spans = _boxes(text)
    return text[spans[-1][1] : spans[-1][2]].strip() or None if spans else None


def _after_thinking(text: str) -> str | None:
    head, mark, tail = text.rpartition("</think>")
    if mark:
        return tail if tail.strip() else _if_boxed(head)
    return None if text.lstrip().startswith("<think>") else text


def _if_boxed(text: str) -> str | None:
    content = boxed(text)
    return None if content is None else f"\\boxed{{{content}}}"


def _tagged(text: str) -> str | None:
    start = text.rfind("<answer>")
    if start < 0:
        return None
    content = text[start + len("<answer>") :]
    end = _CLOSING_TAG.search(content)
    return content[: end.start()] if end else content


def _within(text: str) -> str | None:
    """The answer in a text without tags."""
    text = _EMPTY_BOX.sub("", text)
    found = _joined_boxes(text)
    if found is not None:
        return found or None
    found = _announced(text)
    if found is None:
        found = _bare(text)
    if found is None:
        found = _last_said(text)
    return found


def _boxes(text: str) -> list[tuple[int, int, int]]:
    """(start of the command, start and end of its content) of each box that no other box contains."""
    stack: list[tuple[int, int] | None] = []
    found: list[tuple[int, int, int]] = []
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


def _joined_boxes(text: str) -> str | None:
    """What the last boxes say together; empty when there are only boxes that are no answer."""
    spans = _boxes(text)
    if not spans:
        return None
    spans = [span for span in spans if not _DENIED.search(text, max(span[0] - 20, 0), span[0])]
    if not spans:
        return ""
    contents = [_content(text, spans[-1])]
    named = None
    for before, after in zip(spans[-2::-1], spans[::-1], strict=False):
        between = _BETWEEN_BOXES.fullmatch(text, before[2] + 1, after[0])
        if between is None:
            break
        if between["name"]:
            contents[0], named = f"{between['name']}={contents[0]}", before
        contents.insert(0, _content(text, before))
    if named is not None and (name := _NAME.search(text, max(named[0] - 20, 0), named[0])) is not None:
        contents[0] = f"{name[1]}={contents[0]}"
    joined = ", ".join(dict.fromkeys(contents))
    return _announced(_SAID_IN_BOX.sub(r"\1", joined)) or joined if "answer" in joined else joined


def _content(text: str, span: tuple[int, int, int]) -> str:
    """What a box says with what stands around it: its sign, its percent sign; empty where it is part of a formula."""
    start, first, last = span
    content = text[first:last].strip()
    before, after = text[max(start - 20, 0) : start], text[last + 1 : last + 40]
    opener = before.rstrip()
    if _CHANGED.match(after) or (opener.endswith("{") and _INSIDE.search(opener[:-1])):
        return ""
    if _MINUS.search(before):
        content = f"-({content})"
    scale = _SCALED.match(after)
    return content if scale is None else f"{content} {scale[1]}"


def _announced(text: str) -> str | None:
    cue = None
    for match in _CUE.finditer(text):
        if not _NEGATION.search(_last_sentence(text[max(match.start() - 100, 0) : match.start()])):
            cue = match
    if cue is None:
        return None
    rest = text[cue.end() :].lstrip(" \t\n*_:")
    sentence = _first_sentence(rest)
    after = rest[len(sentence) :]
    if (withdrawn := _WITHDRAWN.match(after)) is not None:
        if (instead := _last_said(after[withdrawn.end() :])) is not None:
            return instead
        if _MISTAKE.search(after):
            return None
    sentence = sentence.rstrip("*_ \t")
    if not sentence or sentence.startswith("not "):
        return None
    return _bare(sentence) or _last_said(sentence) or sentence


def _first_sentence(text: str) -> str:
    """Up to the first end of a sentence that does not lie inside a formula."""
    text = text[:LONGEST_ANSWER]
    first = next(_ends_of_sentences(text), None)
    return text if first is None else text[: first.start()]


def _ends_of_sentences(text: str) -> Iterator[re.Match[str]]:
    """The ends of sentences that do not lie inside a formula."""
    formulas = [match.span() for match in _MATH.finditer(text)]
    for match in _SENTENCE_END.finditer(text):
        if not any(start < match.start() < end for start, end in formulas):
            yield match


def _bare(text: str) -> str | None:
    """The text itself when it is an answer rather than prose."""
    text = text.strip()
    if text[:1].isalpha():
        text = _CONNECTIVE.sub("", text, count=1)
    if not text or len(text) > LONGEST_ANSWER:
        return None
    words = _COMMAND.sub(" ", _TEXT_COMMAND.sub(" ", _ENVIRONMENT.sub(" ", _MATH.sub(" ", text))))
    if "=" in words and len(_WORD.findall(words.partition("=")[0])) > 1:  # a sentence that ends in a calculation
        return None
    if _ACTION.search(words) and any(map(str.isdigit, text)):
        return None
    if len(_WORD.findall(words)) > MOST_WORDS or _VERB.search(words) or re.search(r"\n\s*\n", text):
        return None
    return text


def _last_said(text: str) -> str | None:
    """What is said last in the last line that is not blank: in its last sentence, or before."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    line = lines[-1].strip()[-LONGEST_ANSWER:]
    sentence = _last_sentence(line)
    found = _last_marked(sentence) or _only_number(sentence)
    return found if found is not None or sentence == line else _last_marked(line)


def _last_marked(line: str) -> str | None:
    """The formula, bold text or "is …" that ends last."""
    formulas = list(_MATH.finditer(line))
    found: list[tuple[int, int, str]] = [(match.end(), match.start(), match[1]) for match in _BOLD.finditer(line)]
    if formulas:
        found.append(_last_formulas(line, formulas))
    said = _LAST_SAID.search(line)
    if said and not any(match.start() < said.start() < match.end() for match in formulas):
        value = _ASIDE.sub(r"\1", _without_loose_closers(said["value"].strip(" .*_")))
        if len(value) <= LONGEST_SENTENCE_ANSWER and _bare(value):
            found.append((len(line), said.start(), value))
    if not found:
        return None
    _, start, value = max(found)
    clause = max((match.end() for match in _CLAUSE.finditer(line, 0, start)), default=0)
    return None if _NEGATION.search(line, clause, start) else value.strip() or None


def _last_formulas(line: str, formulas: list[re.Match[str]]) -> tuple[int, int, str]:
    """(end, start, content) of the last formula, with those that are said beside it: ``$x=8$ or $x=7$``."""
    end, start, content = formulas[-1].end(), formulas[-1].start(), _inside(formulas[-1])
    for before in reversed(formulas[:-1]):
        between = line[before.end() : start]
        if not _ALTERNATIVES.fullmatch(between):
            break
        start, content = before.start(), f"{_inside(before)}{between}{content}"
    return end, start, content


def _inside(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None)


def _only_number(sentence: str) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    return found[0][0] if len(found) == 1 and not _NEGATION.search(sentence) else None


def _last_sentence(line: str) -> str:
    """What follows the last end of a sentence, outside of formulas, that has something after it."""
    ends = [match.end() for match in _ends_of_sentences(line)]
    ends += [match.end() for match in _MATH.finditer(line) if (match[1] or match[4] or "").rstrip().endswith(".")]
    last = max((end for end in ends if line[end:].strip(" .*_")), default=0)
    return line[last:].strip()


def _without_loose_closers(text: str) -> str:
    while text.endswith(")") and text.count(")") > text.count("("):
        text = text[:-1].rstrip()
    return text
