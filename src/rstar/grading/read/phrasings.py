r"""Phrasings of whole answers that `rstar.grading.read.normal` rewrites, tried in order."""

from __future__ import annotations

import re
from collections.abc import Callable

from rstar.grading.read.number_words import number_in_words
from rstar.grading.read.spellings import expander
from rstar.grading.read.vocabulary import CARDINALS, FORMULA_WORDS, MIDNIGHT, NOON, word_list

MAX_ZEROS = 1_000
_DOUBTS = re.compile(r"\b(?:or|rejected|extraneous|discarded|million|thousand|hundred|billion|dozen|invalid|not)\b")


def _without_remark(match: re.Match[str]) -> str:
    """Drop the remark of ``42 (by symmetry)``, if it is one."""
    remark = match[2].strip()
    return match[0] if _DOUBTS.search(remark) or remark in FORMULA_WORDS else match[1]


def _followed_by_zeros(match: re.Match[str]) -> str:
    """The digits of "1 followed by 120 zeros", unless other digits are given for the number."""
    digit = "1" if match[1] == "one" else match[1]
    zeros = int(match[2]) if match[2].isdigit() else number_in_words(match[2].split("-"))
    if zeros is None or zeros not in range(MAX_ZEROS):
        return match[0]
    number = digit + "0" * int(zeros)
    if match[3] and match[3].replace(",", "") != number:
        return match[0]
    return number


def _in_base(match: re.Match[str]) -> str:
    """A numeral with its base after it: ``143_5`` in base five; unchanged if two bases differ."""
    digits, below, base, system = match.groups()
    base = str(_SYSTEMS[system] if system else _BASES.get(base.lower(), base))
    return f"{digits}_{{{base}}}" if below is None or str(_BASES.get(below.lower(), below)) == base else match[0]


_SYSTEMS = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16}
_BASES = CARDINALS | dict(zip(word_list("dos tres cuatro cinco seis siete ocho nueve diez"), range(2, 11), strict=True))
_BASES |= dict(zip(word_list("deux trois quatre cinq six sept huit neuf dix"), range(2, 11), strict=True))
_COUNT = r"\d+(?:\.\d+)?"
_NUMERAL = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
_FRACTION = r"\\frac ?\{\d+\} ?\{\d+\}|\d+ ?/ ?\d+"
_UNIT = "(?:hours?|h|minutes?|min|seconds?|days?|weeks?|years?|met(?:er|re)s?|km|cm|mm|kg|feet|miles?|dollars?|cents?)"
WHOLE: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern), by if callable(by) else expander(by))
    for pattern, by in (
        (r"([-+]?\d{1,3})((?: \d{3})+(?:\.\d+)?)", lambda m: m[1] + m[2].replace(" ", "")),
        (r"[-+]?\d+(?:\.\d+)?(?: to \d+(?:\.\d+)?)+", lambda m: m[0].replace(" to ", ":")),
        (rf"(?:{_COUNT} ?{_UNIT} ?[-+] ?)+{_COUNT} ?{_UNIT} ?= ?({_COUNT} ?{_UNIT})", r"\1"),
        (
            r"(?:[Tt]he |[Ii]ts )?(?:(?:positive |prime |real )?(?:divisors|factors|roots|solutions|values|numbers"
            r"|zeros|zeroes|integers|elements|primes)) (?:are )?(-?\d+(?:, ?-?\d+)*,? and -?\d+)",
            r"\1",
        ),
        (rf"[Tt]he (?:number|integer|prime|repunit|value|constant|remainder|sum|product|quotient) ({_NUMERAL})", r"\1"),
        (
            r"(?:\\text ?\{ ?)?(?:[Tt]he|[Aa]n?) (?:(?:zero|null|identity|unit|diagonal|column|row|symmetric|resulting"
            r"|required|desired|open|closed|half-open|ordered|solution|linear|quadratic|cubic) )*(?:matrix|vector|set"
            r"|intervals?|point|pair|triple|function|polynomial|expression|fraction|line|plane|equation)"
            r"(?: ?\}| ) ?(?=[\\([{\]]|-?\d|[a-z](?![a-z]))(?!\\(?:text|mathrm)|(?:.*[^\\{A-Za-z])?[a-z]{4,})(.+)",
            r"\1",
        ),
        (
            r"(?:(?:[Aa]|[Tt]he|[Uu]ne?|[Ee]ine?) )?(?:digit )?([1-9]|one) followed by (\d{1,3}|[a-z-]+) zeroe?s"
            r"(?:,? (?:i\.e\.|that is|or|namely),? ([\d,]+))?",
            _followed_by_zeros,
        ),
        (rf"(?:an? |the )?(?:fraction|proportion|probability|share) of (0?\.\d+|{_FRACTION})", r"\1"),
        (rf"({_FRACTION}) of (?:all|every|the (?:total|whole))(?: (?:of )?(?!answer|rest|remain)[a-z]+)?", r"\1"),
        (
            rf"({_FRACTION}) of (?:the|its) (?:old|original|initial|previous|former) (?:one|price|value|amount|number"
            r"|size|cost|area|volume|length|salary|population|total)",
            r"\1",
        ),
        (rf"({_FRACTION}) of an? ({_UNIT})", r"\1 \2"),
        (
            r"(?:[\d.]+ ?/ ?[\d.]+ ?= ?)?(\d+(?:\.\d+)? ?(?:%|percent)) of (?:the|its) (?:old|original|initial|previous"
            r"|former) (?:one|price|value|amount|number|size|cost|area|volume|length|salary|population|output)",
            r"\1",
        ),
        (
            r"(?:exactly )?at (?:exactly )?(\d{1,2}(?::\d\d)?(?: ?[apAP]\.?[mM]\.?| o'clock| noon| in the (?:morning"
            r"|afternoon|evening)| at night)?)",
            r"\1",
        ),
        (r"(?:minus|negative) (?=[\d\\(])(.+)", r"-\1"),
        (r"(?:an? |the )?percentage (?:of|is) (-?\d+(?:\.\d+)? ?%)", r"\1"),
        (r"(-?\d+(?:\.\d+)? ?(?:%|percent)) of (?:the (?:total|whole)|all|them)(?: [a-z]+)?", r"\1"),
        (r"(.+?) ?\((?:approximately|approx\.?|about|roughly|or about|\\approx)[^()]*\)", r"\1"),
        (r"[Ee]ither (.+ or .+)", r"\1"),
        (
            r"(.*[\w)}])(?: ?\\text ?\{ ?| )\(((?!mod\b|base\b)[a-z]{2,}(?:[ -][A-Za-z]{2,})+|(?!base)[a-z]{4,})\)"
            r"(?: ?\})?",
            _without_remark,
        ),
        (r"\\text ?\{ ?(?:[Oo]nly|[Ee]xactly|[Jj]ust) ?\}(.+)", r"\1"),
        (r"\\(?:min|max)(?:_\{[^{}]*\})? ?= ?(.+)", r"\1"),
        (r"(?:\\text ?\{ ?)?(negative |minus )?infinity ?\}?", lambda m: r"-\infty" if m[1] else r"\infty"),
        (r"(.+)\+ ?(?:c|(?:\\text ?\{ ?)?[Cc]onst(?:ant)?\.? ?\}?)", r"\1+C"),
        (r"(.*\d) ?(?:sq|square) ?m", r"\1\\text{m}^2"),
        (r"(\d+) ?h(?:(?:ou)?rs?|our)?,? ?(?:and )?(\d+) ?m(?:in(?:ute)?s?)?", r"\1 hours \2 minutes"),
        (r"\\text ?\{ ?([^{}\\]*\d[^{}\\]*)\}", r"\1"),
        (r"#+ (.+)", r"\1"),
        (r"(\d+) and (?:a|one) (half|quarter)", lambda m: rf"{m[1]}\frac{{1}}{{{2 if m[2] == 'half' else 4}}}"),
        (r"([A-H])[).]", r"\1"),
        (r"(?:\\text ?\{ ?)?(triangle|angle) ?\}? ?([A-Z ]+)", r"\\\1 \2"),
        (r"(?:\\text ?\{ ?)?(?:line )?segment ?\}? ?([A-Z ]+)", r"\\overline{\1}"),
        (r"(?:\\text ?\{ ?)?[Pp]oint ?\}? ?([A-Z])", r"\1"),
        (r"([a-zA-Z]) ?: ?([a-z]) ?\\mapsto ?(.+)", r"\1(\2)=\3"),
        (
            r"\\(?:text[a-z]*|mathrm|mathbf|boldsymbol|bm|mbox|ensuremath) ?\{ ?((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\\"
            r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}",
            r"\1",
        ),
        (r"(\d+(?:\.\d+)?) ?'", r"\1 feet"),
        (r"(?:[Tt]he )?[Yy]ear (\d{4})", r"\1"),
        (r"<([^<>]*,[^<>]*)>", r"(\1)"),
        (r"(\d+) (?:out of|in)(?: every)? (\d+)", r"\\frac{\1}{\2}"),
        (
            r"(?:written |expressed )?\(?([0-9A-Za-z]+)\)?(?:_\{?(?:\\text ?\{ ?)?(\w+?)(?:_\w+)? ?\}{0,2})?"
            r" ?\(?(?:(?:in|en|im|em) )?(?:(?:base|(?:zur )?Basis)[- ]?(\w+)|(binary|octal|decimal|hexadecimal))\)?",
            _in_base,
        ),
        (rf"(?:12 |12:00 ?)?(?:\\text ?\{{ ?)?(?i:{NOON}) ?\}}?", "12:00 pm"),
        (rf"(?:12 |12:00 |24:00 |0?0:00 ?)?(?:\\text ?\{{ ?)?(?i:{MIDNIGHT}) ?\}}?|24:00(?::00)?", "12:00 am"),
        (r"(?:=|\\approx|\\implies|\\Rightarrow) ?(.+)", r"\1"),
        (r"(?:[Oo]ption|[Cc]hoice) (\(?[A-H]\)?)", r"\1"),
        (r"\*{1,2}([^*]+)\*{1,2}|__([^_]+)__|`([^`]+)`", r"\1\2\3"),
    )
]
"""Rewrite rules for whole answers."""
