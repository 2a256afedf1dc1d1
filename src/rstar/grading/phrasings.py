r"""The ways to say a whole answer that `rstar.grading.normal` brings to one, in the order in which they are tried."""

from __future__ import annotations

import re
from collections.abc import Callable

from rstar.grading.vocabulary import LANGUAGE

_DOUBTS = re.compile(r"\b(?:or|rejected|extraneous|discarded|million|thousand|hundred|billion|dozen|invalid|not)\b")


def _without_remark(match: re.Match[str]) -> str:
    """``42 (by symmetry)`` without its remark, where it is one."""
    remark = match[2].strip()
    return match[0] if _DOUBTS.search(remark) or remark in LANGUAGE else match[1]


WHOLE: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern), by)
    for pattern, by in (
        (r"([-+]?\d{1,3})((?: \d{3})+(?:\.\d+)?)", lambda m: m[1] + m[2].replace(" ", "")),
        (r"[-+]?\d+(?:\.\d+)?(?: to \d+(?:\.\d+)?)+", lambda m: m[0].replace(" to ", ":")),
        (r"(?:minus|negative) (?=[\d\\(])(.+)", lambda m: f"-{m[1]}"),
        (r"(?:an? |the )?percentage (?:of|is) (-?\d+(?:\.\d+)? ?%)", lambda m: m[1]),
        (r"(-?\d+(?:\.\d+)? ?(?:%|percent)) of (?:the (?:total|whole)|all|them)(?: [a-z]+)?", lambda m: m[1]),
        (r"(.+?) ?\((?:approximately|approx\.?|about|roughly|or about|\\approx)[^()]*\)", lambda m: m[1]),
        (r"either (.+ or .+)", lambda m: m[1]),
        (
            r"(.*[\w)}])(?: ?\\text ?\{ ?| )\(((?!mod\b|base\b)[a-z]{2,}(?:[ -][A-Za-z]{2,})+|(?!base)[a-z]{4,})\)"
            r"(?: ?\})?",
            _without_remark,
        ),
        (r"\\text ?\{ ?(?:[Oo]nly|[Ee]xactly|[Jj]ust) ?\}(.+)", lambda m: m[1]),
        (r"\\(?:min|max)(?:_\{[^{}]*\})? ?= ?(.+)", lambda m: m[1]),
        (r"(?:\\text ?\{ ?)?(negative |minus )?infinity ?\}?", lambda m: r"-\infty" if m[1] else r"\infty"),
        (r"(.+)\+ ?(?:c|(?:\\text ?\{ ?)?[Cc]onst(?:ant)?\.? ?\}?)", lambda m: f"{m[1]}+C"),
        (r"(.*\d) ?(?:sq|square) ?m", lambda m: rf"{m[1]}\text{{m}}^2"),
        (
            r"(\d+) ?h(?:(?:ou)?rs?|our)?,? ?(?:and )?(\d+) ?m(?:in(?:ute)?s?)?",
            lambda m: f"{m[1]} hours {m[2]} minutes",
        ),
        (r"\\text ?\{ ?([^{}\\]*\d[^{}\\]*)\}", lambda m: m[1]),
        (r"#+ (.+)", lambda m: m[1]),
        (r"(\d+) and (?:a|one) (half|quarter)", lambda m: rf"{m[1]}\frac{{1}}{{{2 if m[2] == 'half' else 4}}}"),
        (r"([A-H])[).]", lambda m: m[1]),
        (r"(?:\\text ?\{ ?)?(triangle|angle) ?\}? ?([A-Z ]+)", lambda m: rf"\{m[1]} {m[2]}"),
        (r"(?:\\text ?\{ ?)?(?:line )?segment ?\}? ?([A-Z ]+)", lambda m: rf"\overline{{{m[1]}}}"),
        (r"(?:\\text ?\{ ?)?[Pp]oint ?\}? ?([A-Z])", lambda m: m[1]),
        (r"([a-zA-Z]) ?: ?([a-z]) ?\\mapsto ?(.+)", lambda m: f"{m[1]}({m[2]})={m[3]}"),
        (
            r"\\(?:text[a-z]*|mathrm|mathbf|boldsymbol|bm|mbox|ensuremath) ?\{ ?((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\\"
            r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}",
            lambda m: m[1],
        ),
        (r"(\d+(?:\.\d+)?) ?'", lambda m: f"{m[1]} feet"),
        (r"(?:[Tt]he )?[Yy]ear (\d{4})", lambda m: m[1]),
        (r"<([^<>]*,[^<>]*)>", lambda m: f"({m[1]})"),
        (r"(\d+) (?:out of|in)(?: every)? (\d+)", lambda m: rf"\frac{{{m[1]}}}{{{m[2]}}}"),
        (r"([0-9A-Za-z]+) ?\(?(?:in )?base[- ]?(\w+)\)?", lambda m: f"{m[1]}_{{{m[2]}}}"),
        (r"(\d{1,2}) o'clock", lambda m: f"{m[1]}:00"),
        (r"(?:12 |12:00 )?noon", lambda _: "12:00 pm"),
        (r"(?:12 |12:00 )?midnight", lambda _: "12:00 am"),
        (
            r"(?i:(?:\\text ?\{ ?)?all (?:real numbers|reals)(?: [a-z])?,? (?:except|excluding|but|other than)"
            r"(?: for)?) ?\}?(.+)",
            lambda m: rf"\mathbb{{R}}\setminus\{{{m[1]}\}}",
        ),
        (r"(?:=|\\approx|\\implies|\\Rightarrow) ?(.+)", lambda m: m[1]),
        (r"(?:[Oo]ption|[Cc]hoice) (\(?[A-H]\)?)", lambda m: m[1]),
        (r"\*{1,2}([^*]+)\*{1,2}|__([^_]+)__|`([^`]+)`", lambda m: m[1] or m[2] or m[3]),
    )
]
"""Spellings of whole answers."""
