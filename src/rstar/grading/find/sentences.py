r"""The answer that a sentence states: "Thus $x = 5$.", "so it is **73**", "Tom has 9 apples left".

The last statement is taken: a formula, bold text, or the text after "is" or "=" (alternatives together: "$x=1$ or
$x=2$"). Failing that, it is the only number of the last sentence. Denied and conditional statements are not taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rstar.grading.find.amounts import AMOUNTS, only_amount
from rstar.grading.find.closings import without_remark
from rstar.grading.find.described import QUANTIFIER, described_answer
from rstar.grading.find.emphasis import with_plain_amount, without_bold
from rstar.grading.find.hedges import is_hedged
from rstar.grading.find.subjects import answer_in_words, clause_before_reason, described_formula, superlative_name
from rstar.grading.find.unit_phrases import unit_phrase
from rstar.grading.read.vocabulary import HAN, HANGUL

MAX_LENGTH = 2_000
MAX_VALUE_LENGTH = 60
MAX_JOINED_LENGTH = 4_000
"""Characters at the end of a text in which display formulas are join_displays to the previous line."""
_NUMERAL = frozenset("-0123456789,. ")
"""Characters of a number, which may have any length."""
_MIN_LABEL_LETTERS = 3
_SENTENCE_WORDS = 3
"""Minimum words before a number that begin a sentence."""
MAX_WORDS = 5

_MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$(?!\d)|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*|`([^`\n]+)`")
FENCE = re.compile(r"\s*```\w*\n([^`]*)\n\s*```\s*")
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textnormal|textrm|mathrm|mbox)\s*\{[^{}]*\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}(?:\s*\{[^{}]*\})?")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"(?![A-Z]+\b)[^\W\d_]{2,}")
_TWO_WORDS = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,} +[A-Za-z]{2,}(?![A-Za-z])")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|equals|we|get|gives?|thus|hence|therefore|then|since|because|holds?|falls?)\b"
    r"|\b(?:it|that|there|here)'s\b|\b(?:consequently|note that|so|simplif(?:y|ies))\b",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"\b(?:will|can|must|does|costs?|pays?|paid|earns?|needs?|takes?|took|makes?|made|spends?|spent|sells?|sold|buys?"
    r"|bought|saves?|saved|receives?|received|eats?|ate|weighs?|wins?|won|owes?|travels?|drives?|drove|walks?|runs?|ran"
    r"|reads?|finds?|arrives?|leaves?|starts?|ends?|increases|decreases)\b"
)
"""Verbs that mark a sentence if it has a number; without one, they may belong to an answer in words."""
_YES_OR_NO = re.compile(r"(?:yes|no|true|false)\s*[,.;:!]", re.IGNORECASE)
_NO_PARAMETER = r"(?! \$?[a-z]\$? is an? (?:[a-z]+ ){0,2}(?:integer|number|prime)\b)"
"""No condition on a parameter follows."""
_SENTENCE_END = re.compile(
    r"(?:[.?]|(?<![\d)}])(?<!\b[A-Za-z])!)(?=\s|$)|\n|,?\s+(?:because|since|which"
    rf"|where{_NO_PARAMETER})\b"
)
_COMPOUND = re.compile(rf"\s+(?:to|out of|by|in base|{AMOUNTS},?(?: and)?)\s+")
"""Text between two formulas that makes them one answer: "$3$ to $2$", "$2$ hours and $30$ minutes"."""
_PHRASE = re.compile(
    r"(?:(?:it|the answer|the limit|this|the value|the equation|there) )?(?:is )?"
    r"(cannot be determined|can't be determined|does not exist|not enough information|no (?:real )?solutions?)\.?",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"(?<=\d)([^\W\d_]{0,12}(?:\s+(?!out\b)[^\W\d_]+){0,2}?)\s+(?:of|in|for|from|on|at|to|that|which|who|when|such)\s+"
    r"(?!\d|every|base|an? |the (?:power|morning|afternoon|evening)|most|least|night).*"
)
_CONDITION = re.compile(r"\b(?:if|suppose|assume|unless|contradiction|impossible)\b", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:not|never|no longer|cannot|except|excluding|other than|anything but|unless|impossible|false|doubt|wrong"
    r"|incorrect|unlikely|no reason|no solution|discard(?:ed)?|reject(?:ed)?|extraneous)\b|n't\b"
    r"|(?<!no )\b(?:less|more|fewer|greater|smaller|larger) than\b",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:since|because|if|suppose|assume|let)\b", re.IGNORECASE)
_REFUSED = re.compile(
    r"\b(?:fails?|(?:does|do|is|are) not|doesn't|cannot|(?:is|are) (?:an? |the )?(?:impossible|rejected|extraneous"
    r"|wrong|incorrect|false)\b|gives? a (?:contradiction|negative))\b|contradiction"
)
"""Words after a value that reject it as the answer."""
_PART_OF_VALUE = re.compile(r"(?:twice|half|thrice|double|triple|the (?:square|cube|sum|product|double|half))\b")
_PART = re.compile(
    r"(?:\b(?:twice|half|thrice|double|triple"
    r"|(?:half|square|cube|root|negative|opposite|double|multiple|third|quarter|image|reflection|transpose|complement"
    r"|reciprocal|conjugate) of)(?: (?:the|our|an?))?(?: (?:point|matrix|vector|set|number|value|polynomial))?|%) *$"
    r"|\b(?:twice|half of|thrice|(?:double|triple) the|the (?:square|cube|double|half) of)(?: [^\W\d_]+){1,4}"
    r"(?: (?:is|are|equals|was|were):?)? *$",
    re.IGNORECASE,
)
"""Words before a value that mean the answer is a different one."""
_ARITHMETIC = " 0123456789+-*/×÷·^().,$=<>"
"""Characters between "half of" and the end of a calculation."""
_MATRIX = re.compile(
    r"(?<![-\w}^])(\\begin\{((?:[pbBvV]|small)?matrix|array)\}(?:(?!\\begin|\\end).){1,1000}\\end\{\2\})(?!\s*\^)",
    re.DOTALL,
)
_CHAIN = re.compile(r"[^\W\d_]{3}[^=,;]*=[^=,;]+=")
"""A calculation that begins with the name of its result: "Total = 7 + 8 = 15 books"."""
_DISPLAY = re.compile(r"\n[ \t\n]{0,8}(\$\$[^$]{1,1000}\$\$|\\\[(?:(?!\\\]).){1,1000}\\\])", re.DOTALL)
_HAN = re.compile(f"[{HAN}{HANGUL}]")
_CONCLUSION = re.compile(
    r"\b(?:so|thus|hence|therefore|consequently|accordingly|gives|yields|we (?:get|find|obtain|conclude|see|arrive))\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"(?<!\bthat is)[,;:](?! (?:that is|i\.e\.|namely)(?!\w))|\b(?:so|thus|hence|therefore|but|then)\b"
)
_ALTERNATIVES = re.compile(r"\s*,?\s*\b(?:or|and)\s*|\s*,\s*")
_CONNECTIVE = re.compile(r"(?:so|thus|hence|therefore|then|finally)\b[\s,:]*", re.IGNORECASE)
_VALUE_OF = re.compile(r"\b(?:is|are|equals|be|was|were)(?: exactly| given by| of the form| equal to)?:?\s*$")
_STATING_VERB = re.compile(r"\b(?:is|are|equals|be)\b|=|\b(?:it|that|there|here)'s\b", re.IGNORECASE)
_PLACE = re.compile(r"\b(?:at|when|where|below|above|for|if|except|near|as)\s+[a-zA-Z]\w{0,3}\s*$")
_SUPERSCRIPT = re.compile(r"\^\{(-?\d)\}|[²³]")
_BOLD_NUMBER = re.compile(r"\*\*\\?\$?-?\d[^*\n]*\*\*")
_MORE = re.compile(r"\b(?:less|more|fewer|extra|than|short)\b")
_BOLD_IN_SENTENCE = re.compile(rf"[^\W\d_]{{2,}} [^*$\\\d]*{_BOLD_NUMBER.pattern}")
_GLUED_UNIT = re.compile(r"([-\d./]*\d)([mgshLNJWVAK])")
_EMPTY_REMARK = re.compile(
    r"(?:(?:we are |now )?(?:done|complete[d]?|finished|possible|true|correct|proven|required|desired|needed|left"
    r"|remaining)|(?:the|our|my|what) .*\b(?:answer|proof|claim|wanted|needed|solutions?|values?|ones?)\b.*)$",
    re.IGNORECASE,
)
"""Remarks about an answer that do not state it."""
_LEAD = re.compile(
    r"(?:(?:thus|so|exactly|therefore|then|simply|just|only|equal to|hence|indeed|given by|clearly|precisely|in fact"
    r"|a total of|option|choice)\s+)+"
)
_REMARK = re.compile(
    r"(?<=[\w$}])\s*\((?!or\b)(?![^()]*\b(?:rejected|extraneous|discarded|million|thousand)\b)[a-z][^()]{2,}\)\s*\.?$"
)
_DOUBT = re.compile(r"(?<=[\w$}])\s*\((?:or\b|rejected|extraneous|discarded|million|thousand)")
_PLAIN_LIST = re.compile(
    r"(?:^|\s)((?:[a-z]_?\d?\s*=\s*[-−]?[\d./]+\s*(?:,\s*(?:and |or )?|and |or ))+"
    r"[a-z]_?\d?\s*=\s*[-−]?[\d./]*\d)\.?\s*$"
)
_LETTER_IS = re.compile(r"(?<![\w\\$])([a-z]) (?:is|equals) (?=-?\d)")
_AFTER_COLON = re.compile(r"([^:]{3,80}): ?([\d(][\d()+*/.^ -]*[-+*/][\d()+*/.^ -]*[\d)])")
_TRAILING = re.compile(
    r"(?<=[$\d)\]])(?:,?\s+"
    r"(?:(?:(?:which|and|and it) is )?(?:attained|achieved|reached|obtained|occurring) |which occurs )?"
    rf"(?:at|when|where{_NO_PARAMETER}|for|if|since|because|with)\s+(?:all |any |every |real |positive )*"
    r"\$[^$]*\$[^$\d]*)$"
)
"""A remark after the answer."""


def bare_answer(text: str) -> str | None:
    """Return the text itself if it is an answer rather than prose."""
    text = text.strip()
    if (fence := FENCE.fullmatch(text)) is not None:
        text = fence[1].strip()
    if text[:1].isalpha():
        text = _CONNECTIVE.sub("", text, count=1)
    if not text or len(text) > MAX_LENGTH or _follows_words(text):
        return None
    if (phrase := _PHRASE.fullmatch(text)) is not None:
        return phrase[1]
    if _BOLD_IN_SENTENCE.match(text):
        return None
    text = without_bold(text)
    words = _COMMAND.sub(" + ", _TEXT_COMMAND.sub(" ", _ENVIRONMENT.sub(" ", _MATH.sub(" ", text))))
    numbered = any(map(str.isdigit, text))
    if not numbered and "$" not in text and "\n" not in text and _YES_OR_NO.match(text):
        return text
    if "=" in words and (_TWO_WORDS.search(words.partition("=")[0]) or _CHAIN.match(words)):
        return None  # a sentence that ends in a calculation
    if numbered and (_ACTION.search(words) or _REFUSED.search(words)):
        return None
    if len(_WORD.findall(words)) > MAX_WORDS or _VERB.search(words) or re.search(r"\n\s*\n", text):
        return None
    return text


def _follows_words(text: str) -> bool:
    """Whether a text is a display formula, or a value, preceded by words that name it."""
    start = next((at for at, sign in enumerate(text) if sign in "$\\\n`"), 0)
    words = text[:start]
    if sum(map(str.isalpha, words)) >= _MIN_LABEL_LETTERS:
        if text.startswith(("$$", "\\[", "\\begin"), start):
            return not text.startswith("\\begin", start) or "=" not in words
        if words.rstrip(" *_").endswith((":", ",")) and text[start] != "\n":
            return True
    value = next((at for at, sign in enumerate(text) if sign in "$\\" or sign.isdigit()), 0)
    lead = text[:value]
    if lead[:1].isupper() and text.endswith(".") and "=" not in lead and len(_WORD.findall(lead)) >= _SENTENCE_WORDS:
        return True
    return _HAN.search(lead) is not None


def last_statement(text: str) -> str | None:
    """The last statement in the last non-blank line: in its last sentence, or before it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    line = _REMARK.sub("", lines[-1].strip()[-MAX_LENGTH:])
    line = _with_equals_signs(with_plain_amount(line))
    if _DOUBT.search(line):
        return None
    if QUANTIFIER.search(line) and (described := described_answer(last_sentence(line.rstrip(". ")))) is not None:
        return described
    line = _TRAILING.sub("", line.rstrip(". "))
    if (main := clause_before_reason(line)) is not None:
        found = _last_marked_value(last_sentence(main))
        if found is not None and any(map(str.isdigit, found)):
            return found
    sentence = last_sentence(line)
    whole = line.removesuffix(sentence).rstrip()[-1:] in ("", ".", "?", "!")  # not a clause after "where"
    if whole and (found := described_formula(sentence) or answer_in_words(sentence)) is not None:
        return found
    found = _last_marked_value(sentence) or _only_number(sentence)
    if found is None and sentence != line:
        found = _last_marked_value(line)
    return found or superlative_name(sentence) or _calculation(sentence)


def _calculation(sentence: str) -> str | None:
    """The arithmetic after a colon that ends a sentence: "We add them: 1+(2+3)"."""
    match = _AFTER_COLON.fullmatch(sentence)
    if match is None or is_denied(match[1]) or _CONDITION.search(match[1]) or any(map(str.isdigit, match[1])):
        return None
    return match[2]


def _with_equals_signs(line: str) -> str:
    """Write ``m is 6 and n is 9`` with equals signs if several letters have values."""
    several = len(_LETTER_IS.findall(line)) > 1
    return _LETTER_IS.sub(r"\1 = ", line) if several else line


def states_several_formulas(text: str) -> bool:
    """Whether a text has several formulas and does not state the last one as the value of the preceding text."""
    formulas = list(_MATH.finditer(text))
    if len(formulas) < 2:
        return False
    end, start, _ = _with_alternatives(text, formulas)
    return _VALUE_OF.search(text, 0, start) is None or len(text[end:].strip()) > 1


def has_conclusion(text: str) -> bool:
    """Whether a text of several steps ends in a conclusion: "…, so $n = 7$", "Therefore, $x = 2$ or $x = 3$."."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = last_sentence(lines[-1].strip()[-MAX_LENGTH:].rstrip(". ")) if lines else ""
    conclusion = _CONCLUSION.search(last)
    return conclusion is not None and (len(last) < len(text.strip()) - 2 or conclusion.start() > 0) and "?" not in last


def is_reason(clause: str) -> bool:
    """Whether a clause begins a reason or a condition rather than a statement."""
    return _REASON.search(clause) is not None


def without_lead(text: str) -> str:
    """Strip a leading "exactly", "given by" and the like."""
    return _LEAD.sub("", text, count=1) if _LEAD.match(text) else text


def is_denied(clause: str) -> bool:
    """Whether a clause denies what follows it."""
    return _NEGATION.search(clause) is not None


def last_clause(text: str) -> str:
    """The text after the last end of a sentence, comma or "so"."""
    sentence = last_sentence(text)
    return sentence[max((match.end() for match in _CLAUSE.finditer(sentence)), default=0) :]


def _last_marked_value(line: str) -> str | None:
    """The formula, bold text or "is …" that ends last."""
    if (listed := _PLAIN_LIST.search(line)) is not None:
        return None if is_denied(line[: listed.start()]) else listed[1]
    marks = sorted((*_MATH.finditer(line), *_BOLD.finditer(line)), key=re.Match.end) or list(_MATRIX.finditer(line))
    found = [_with_alternatives(line, marks)] if marks else []
    if (stated := _stated_value(line, marks)) is not None:
        found.append(stated)
    if not found:
        return None
    end, start, value = max(found)
    clause = max((match.end() for match in _CLAUSE.finditer(line) if match.end() <= start), default=0)
    before = line[clause:start]
    if not before.strip(" *_"):  # after a colon
        before = last_clause(line[:start].rstrip(" :*_"))
    if _BOLD_NUMBER.fullmatch(line, start, end) and (is_hedged(line[:start], line[end:]) or _MORE.search(line, end)):
        return None
    if is_denied(before) or _PART.search(before.rstrip(_ARITHMETIC)) or _REFUSED.search(line, end):
        return None
    if (doubt := _CONDITION.search(line)) is not None and doubt.start() < start:
        return None
    value = value.strip()
    if value and _BOLD.fullmatch(line, start, end) and bare_answer(value) is None:  # a whole sentence in bold
        return last_statement(value)
    return value or None


def _stated_value(line: str, marks: list[re.Match[str]]) -> tuple[int, int, str] | None:
    """(end, start, value) of the text after the last "is" or "=" that states something."""
    end = len(line)
    for verb in reversed(list(_STATING_VERB.finditer(line))):
        if any(mark.start() < verb.start() < mark.end() for mark in marks):
            return None
        if verb[0] == "=" and _PLACE.search(line, max(verb.start() - 30, 0), verb.start()):
            return None
        value = line[verb.end() : end].strip(" .,")
        value = (without_bold(value) if value.startswith("**") else value).strip(" .*_,")
        if _PART_OF_VALUE.match(value):
            return None
        if not _EMPTY_REMARK.match(value):
            value = _REMARK.sub("", _ASIDE.sub(r"\1", without_loose_closers(without_lead(without_remark(value)))))
            short = len(value) <= MAX_VALUE_LENGTH or set(value) <= _NUMERAL
            states_value = short and bare_answer(value) and (end == len(line) or any(map(str.isdigit, value)))
            if (glued := _GLUED_UNIT.fullmatch(value)) is not None and _is_calculation(line[: verb.start()]):
                value = rf"{glued[1]}\text{{ {glued[2]}}}"
            return (end, verb.start(), value) if states_value else None
        clause = [match.start() for match in re.finditer(r",|;|\band\b", line[: verb.start()])]
        end = clause[-1] if clause else verb.start()
    return None


def _is_calculation(before: str) -> bool:
    """Whether a calculation in numbers, ``= 20/8``, ends here: a letter after its result is a unit."""
    _, sign, last = before.rpartition("=")
    return bool(sign) and set(last) <= set(_ARITHMETIC) and any(map(str.isdigit, last))


def _with_alternatives(line: str, marks: list[re.Match[str]]) -> tuple[int, int, str]:
    """(end, start, content) of the last formula and its alternatives: ``$x=8$ or $x=7$``."""
    end, start, content = marks[-1].end(), marks[-1].start(), _content(marks[-1])
    last = len(line[end:].strip(" .$)")) == 1
    if content[-1:].isdigit() and (unit := unit_phrase(line, end, letters=last)) is not None:
        content += rf"\text{{ {_SUPERSCRIPT.sub(_power, unit[1])}}}"
    if len(marks) > 1 and _COMPOUND.fullmatch(line, marks[-2].end(), start):
        return end, marks[-2].start(), f"{_content(marks[-2])}{line[marks[-2].end() : start]}{content}"
    for before in reversed(marks[:-1]):
        between = line[before.end() : start]
        if not _ALTERNATIVES.fullmatch(between):
            break
        start, content = before.start(), f"{_content(before)}{between}{content}"
    return end, start, content


def _power(match: re.Match[str]) -> str:
    """``^2`` for ² and ``^{2}``."""
    return "^" + (match[1] or {"²": "2", "³": "3"}[match[0]])


def _content(mark: re.Match[str]) -> str:
    return next(group for group in mark.groups() if group is not None)


def _only_number(sentence: str) -> str | None:
    found = only_amount(sentence)
    if found is None or is_denied(sentence) or _CONDITION.search(sentence) or _MATH.search(sentence):
        return None
    start, amount = found
    before, after = sentence[:start].rstrip("*_ "), sentence[start + len(amount) :]
    return None if _PART.search(before) or _REFUSED.search(sentence) or is_hedged(before, after) else amount


def join_displays(text: str) -> str:
    """Join each display formula to the line before, where its sentence began."""
    head, tail = text[:-MAX_JOINED_LENGTH], text[-MAX_JOINED_LENGTH:]
    return head + _DISPLAY.sub(lambda match: " " + match[1].replace("\n", " "), tail)


def is_part(clause: str) -> bool:
    """Whether the value after a clause is only a part or multiple of the answer: "twice the answer is"."""
    return _PART.search(clause) is not None


def first_sentence(text: str) -> str:
    """The text up to the first end of a sentence outside formulas."""
    text = text[:MAX_LENGTH]
    first = next(_sentence_ends(text), None)
    return text if first is None else text[: first.start()]


def last_sentence(line: str) -> str:
    """The text after the last end of a sentence, outside formulas, that has something after it."""
    ends = [match.end() for match in _sentence_ends(line)]
    ends += [match.end() for match in _MATH.finditer(line) if (match[1] or match[4] or "").rstrip().endswith(".")]
    last = max((end for end in ends if line[end:].strip(" .*_")), default=0)
    return line[last:].strip()


def _sentence_ends(text: str) -> Iterator[re.Match[str]]:
    """The ends of sentences outside formulas."""
    formulas = [match.span() for match in _MATH.finditer(text)]
    for match in _SENTENCE_END.finditer(text):
        if not any(start < match.start() < end for start, end in formulas):
            yield match


def without_loose_closers(text: str) -> str:
    """Strip closing brackets at the end that nothing opened."""
    while text.endswith(")") and text.count(")") > text.count("("):
        text = text[:-1].rstrip()
    return text
