"""Option letters: with a reason ("B, because 7 is prime", "only A works", "which leaves C"), and several at once."""

from __future__ import annotations

import re

MAX_LENGTH = 600
_LETTER = r"\(?(?P<letter>[A-H])\)?(?![A-Za-z])"
_RIGHT = r"(?:the )?(?:correct|right|best)(?: (?:answer|option|choice|one))?"
_REASON = r"(?:because|since|as|given that|due to)\b"
_FIRST = re.compile(
    rf"[\s*]*{_LETTER}[\s*]*(?:[.,:;-]|—|–)?\s*(?i:{_REASON})"  # B, because …
    rf"|[\s*]*\(?(?P<listed>[A-H])\)\s[^.\n]{{1,60}}?,? {_REASON}"  # B) 15, because …
    r"|[\s*]*\(?(?P<valued>[A-H])[).:]\s[^.\n—–]{1,40}\s(?:—|–)\s"  # D) 45 — the angles must add up
    r"|[\s*]*\(?(?P<before>[A-H])\)?[\s*]*(?:—|–|--|:|\s-\s)\s+(?P<remark>[^\d=\\$]{8,})$"  # D: there is no limit
)
_IN_FORMULA = re.compile(
    rf"[\s*]*(\$\\(?:text|textbf|mathbf|mathrm)\{{ ?\([A-H]\) ?\}}[^$\n]{{0,60}}\$)[,.]?\s*{_REASON}"
)
"""An option with its text: ``$\\textbf{(E)}\\ 42$, as …``."""
_CONCLUDED = re.compile(
    rf"\bonly (?:option |choice |answer )?{_LETTER} (?:satisf\w+|works|holds|fits|meets|remains|matches)\b"
    rf"|\b(?:option|choice|answer) \(?(?P<right>[A-H])\)?,? (?:[^,.\n]{{1,60}},)? ?is {_RIGHT}\s*"
    rf"(?:[.!*]|$|\n|{_REASON})"
    r"|\b(?:hence|therefore|thus|so),? (?:\((?P<so>[A-H])\)|(?:option|choice) \(?(?P<then>[A-H])\)?)\s*\.?\s*$"
    r"|\b(?:leaves|leaving)(?: us)?(?: with)?(?: only| just)?(?: option| choice| answer)? \(?(?P<left>[A-H])\)?"
    r"(?: as the (?:only|right|correct) (?:answer|option|choice|one))?\s*\.?\s*$"
    r"|\b(?:option|choice|answer) \(?(?P<end>[A-H])\)?[\s.*]*$"
    rf"|(?<![\w.,(-])\(?(?P<told>[A-H])\)? is {_RIGHT},? {_REASON}",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:no[,.]|wait|actually|correction|sorry|oops|neither|either|unless|if|suppose|reject(?:ed)?|wrong|incorrect"
    r"|impossible|false|not (?:option |choice )?\(?[A-H]\b|(?:option|choice|answer)s?\b.*\b(?:option|choice|answer)s?)",
    re.IGNORECASE,
)
_UNCERTAIN_REMARK = re.compile(
    r"^(?:it |this |that )?(?:fails|does not|doesn't|cannot)\b|\b(?:maybe|perhaps|probably|might|may)\b"
)
_OTHERS_FAIL = re.compile(
    r"[\s*]*\(?(?P<letter>[A-H])\)?[\s*]*[.,:;—–][\s*]*(?:None|Neither) of the (?:others?|other \w+|remaining"
    r" \w+)\b[^.\n]*\.?\s*"
    r"|[\s*]*\(?(?P<alone>[A-H])\)?[\s*]*[.,:;—–][\s*]*(?:All |Each of )?(?:[Tt]he )?(?:others|other (?:options|choices"
    r"|ones)|remaining (?:options|choices|ones)) (?:all |each |both )?(?:fail|violate|contradict)s?\b(?! to| nothing)"
    r"[^.\n]*\.?\s*"
)
_TRUE_ONES = re.compile(
    r"[^.\n]*\b(?P<not>not |un|in|never )?(?:true|correct|right|valid) (?:statements|options|choices|answers"
    r"|propositions|ones) are:? "
    r"(?P<letters>\(?[A-H]\)?(?:,? and |, )(?:\(?[A-H]\)?(?:,? and |, ))*\(?[A-H]\)?)(?P<rest>\s*\.?\s*$|[;,.]? .*)"
)
_LIST = r"\(?[A-H]\)?(?:(?:,? and |, )\(?[A-H]\)?)*(?![A-Za-z])"
_NOUN = r"(?:(?:[Tt]he )?(?:[Ss]tatement|[Oo]ption|[Cc]hoice|[Aa]nswer|[Pp]roposition)s? )?"
_TRUE = r"(?:is|are)(?: both| all)? (?:true|correct|right|valid)"
_FALSE = r"(?:is|are)(?: both| all)? (?:false|wrong|incorrect|invalid|untrue|not (?:true|correct|right|valid))"
_TRUE_AND_FALSE = re.compile(
    rf"[\s*]*(?:(?:[Ss]o|[Tt]hus|[Hh]ence|[Tt]herefore|[Oo]nly),? )?(?:{_NOUN}(?P<true>{_LIST}) {_TRUE}"
    rf"(?:, (?:while|whereas|but|and) | (?:while|whereas|but|and) |; ){_NOUN}(?P<false>{_LIST}) {_FALSE}"
    rf"|{_NOUN}(?P<wrong>{_LIST}) {_FALSE}"
    rf"(?:, (?:while|whereas|but|and) | (?:while|whereas|but|and) |; ){_NOUN}(?P<right>{_LIST}) {_TRUE})[\s.*]*"
)
"""Some letters are true and the others false."""
_LEFT_OVER = re.compile(
    r"(?P<others>.*[;.,])\s+(?i:hence|so|therefore|thus),? (?:(?i:the answer (?:is|must be)|it is|it must be) )?"
    r"\(?(?P<letter>[A-H])\)?[\s.*]*",
    re.DOTALL,
)
_REFUTED = re.compile(
    rf"(?:^|(?<=[;.,:] )|(?<=\band )|(?<=\bwhile )|(?<=\n)){_NOUN}{_LIST}"
    r" (?:(?:is|are|can be|must be)(?: both| all| clearly| also)?"
    r" (?:ruled out|eliminated|excluded|discarded|rejected|false|wrong|incorrect|impossible|invalid)"
    r"|fails?|(?:does not|do not|doesn't|don't|cannot|can't) (?:hold|work|fit|be (?:right|true|correct)))\b(?! to\b)"
)
_UNCERTAIN = re.compile(
    r"\b(?:not|never|no|nor|neither|wait|actually|maybe|perhaps|probably|or|either|unless|if|suppose\w*|assum\w*|would"
    r"|could|might|may|claim\w*|sa(?:y|ys|id)|thinks?|thought|mistake\w*|but|however|except|although|though|only"
    r"|sometimes|seems?|sorry|oops|correction|right|true|correct|works|holds|wrong|false|incorrect)\b|n't\b|\?",
    re.IGNORECASE,
)
"""Words beside refuted letters that change the meaning."""
_UPRIGHT = re.compile(r"\\(?:text|textbf|mathrm) ?\{ ?([^{}]*?) ?\}")
_LEADING_LETTERS = re.compile(
    rf"(?P<letters>\(?[A-H]\)?(?:(?:,? and |, ?)\(?[A-H]\)?(?![A-Za-z]))+)(?:;|,? {_REASON}|,? (?:while|whereas)\b)"
)
_MORE_LETTERS = re.compile(r"\b(?:also|too|as well|perhaps|maybe|or|wait|actually)\b")
"""Words after the letters that announce more letters."""
_LETTER_LIST = re.compile(r"(?:\(?[A-H]\)?(?:(?: ?[,;&] ?| )(?:and )?|(?=[A-H(])))+\(?[A-H]\)?")
_WITH_REASON = re.compile(rf"[\s*]*{_LETTER}\**(?:\s*[,.:;]\s*|\s+)(?:{_REASON}|which\b|so\b)", re.IGNORECASE)


def justified_option(text: str) -> str | None:
    """The letter that a short text gives with its reason; None if it gives none, several, or retracts one."""
    if len(text) > MAX_LENGTH:
        return None
    if (others := _OTHERS_FAIL.fullmatch(text)) is not None:
        return others["letter"] or others["alone"]
    if (true := _TRUE_ONES.fullmatch(text)) is not None:
        return None if true["not"] or _MORE_LETTERS.search(true["rest"]) else true["letters"]
    if (sides := _TRUE_AND_FALSE.fullmatch(text)) is not None:
        chosen, rejected = sides["true"] or sides["right"], sides["false"] or sides["wrong"]
        return None if set(re.findall("[A-H]", chosen)) & set(re.findall("[A-H]", rejected)) else chosen
    if (left := _LEFT_OVER.fullmatch(text)) is not None and _are_refuted(left["others"], left["letter"]):
        return left["letter"]
    if _DOUBT.search(text) is not None:
        return None
    if (formula := _IN_FORMULA.match(text)) is not None:
        return formula[1]
    match = _FIRST.match(text)
    if match is None:
        found = list(_CONCLUDED.finditer(text))
        match = found[-1] if found else None
    if match is None:
        return None
    if match.re is _FIRST and match["remark"] and _UNCERTAIN_REMARK.search(match["remark"]):
        return None
    letter = next((value for name, value in match.groupdict().items() if value and name != "remark"), None)
    return letter if letter is not None and letter.isupper() else None


def _are_refuted(others: str, letter: str) -> bool:
    """Whether a text names letters other than `letter`, and each only to reject it."""
    refuted = _REFUTED.findall(others)
    rest = _REFUTED.sub(" ", others)
    named = re.findall(r"(?<![A-Za-z])[A-H](?![A-Za-z])", " ".join(refuted))
    rest_is_neutral = re.search(r"(?<![A-Za-z])[A-H](?![A-Za-z])", rest) is None and _UNCERTAIN.search(rest) is None
    return bool(refuted) and rest_is_neutral and letter not in named


def leading_options(sentence: str) -> str | None:
    """The letters at the start of a sentence that goes on to give the reason: "A and B; C fails"."""
    match = _LEADING_LETTERS.match(sentence)
    return None if match is None or _MORE_LETTERS.search(sentence, match.end()) else match["letters"]


def option_letters(form: str) -> frozenset[str] | None:
    """The letters of an answer with several options: ``ABD``, ``A, B and D``; None for any other form."""
    if (upright := _UPRIGHT.fullmatch(form)) is not None:
        form = upright[1]
    letters = re.findall("[A-H]", form)
    several = 1 < len(set(letters)) == len(letters) and _LETTER_LIST.fullmatch(form) is not None
    return frozenset(letters) if several else None


def without_option_reason(sentence: str) -> str:
    """The letter alone of "B because the others are odd"; any other sentence unchanged."""
    match = _WITH_REASON.match(sentence)
    return sentence if match is None or not match["letter"].isupper() else match["letter"]
