r"""Spellings that `rstar.grading.read.normal` unifies anywhere in a text: characters, LaTeX, notations.

Tables, in the order in which their rules apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rstar.grading.read.vocabulary import alias_table

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

UNICODE = {
    **alias_table("- − – — ‐ ‑ ‒ ―; / ÷ ∕ ⁄; ' ′ ’; : ∶; . 。"),
    **{
        sign: rf"\{command} "
        for sign, command in alias_table(
            "times ×; cdot ⋅ · ∙; sqrt √; pi π; lfloor ⌊; rfloor ⌋; lceil ⌈; rceil ⌉; le ≤ ≦ ⩽; ge ≥ ≧ ⩾; ne ≠",
            "equiv ≡; approx ≈; pm ±; mp ∓; cup ∪; cap ∩; in ∈; emptyset ∅; infty ∞; to →; ldots …; angle ∠",
            "triangle △; parallel ∥; alpha α; beta β; gamma γ; theta θ; lambda λ; mu μ; phi φ ϕ; omega ω",
        ).items()
    },
    **dict.fromkeys("°º", r"^\circ "),
    **{"∛": r"\sqrt[3]", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "€": "EUR ", "£": "GBP ", "¢": " cents "},
}
"""Unicode signs in LaTeX."""


def _pieces(match: re.Match[str]) -> str:
    """Normalize the punctuation of a piecewise function."""
    rows = [re.sub(r"[,;.]? ?(&|$)", r"\1", row.strip()) for row in match[1].split(r"\\") if row.strip()]
    rows = [row if "&" in row else re.sub(r"[,;]? ?\\text ?\{ ?(?:if|when|for) ?\}", "&", row, count=1) for row in rows]
    return r"\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}"


def expander(template: str) -> Callable[[re.Match[str]], str]:
    """A function that fills a template: `re` re-parses a template even when nothing matches."""
    return lambda match: match.expand(template)


_SIGN = re.compile(r"[=<>≤≥]|\\(?:[lg]eq?|[lg]t|ne|in)(?![a-z])")
"""Signs that make the rows of an array equations; otherwise they are vector entries."""

RULES: list[Rule] = [
    (re.compile(pattern), expander(by) if isinstance(by, str) and "\\" in by else by)
    for pattern, by in (
        (r"\\\\\[\d+(?:\.\d+)?(?:pt|em|ex|mm|cm)\]", r"\\\\"),
        (r"\\\$", "USD "),
        (r"(?<!\\)\\[()\[\]]|\$", " "),
        (r"\\(?:left|right|[bB]igg?[lrm]?)(?![A-Za-z])\.?", ""),
        (r"\\(?:(?:display|text)style|(?:no)?limits|tiny|small|large|Large|LARGE|huge|Huge)(?![A-Za-z])", ""),
        (r"\\(?:bf|rm|it|sf)(?![A-Za-z])(?! ?\{)|\^\{ ?\}", ""),
        (
            r"(?<=\d) ?(?:\\text ?\{ ?percentage points? ?\}|percentage points?\b|points? de pourcentage\b|puntos?"
            r" porcentual(?:es)?\b|[Pp]rozentpunkte?\b)",
            " pp",
        ),
        (r"(?<=\d),(?=\d{1,2} ?(?:pour cent|por cien?to|per cento|Prozent)\b)|(?<=\d)\{,\}(?=\d{1,2} ?Prozent\b)", "."),
        (r"(?<=\d) ?(?:per cento?|pour cent|por cien?to|Prozent)\b", " percent"),
        (r"(?<=\d) ?(minute|second)s? of arc\b", r" arc\1s"),
        (r"\\phantom\{[^{}]*\}|\\(?:text)?color ?\{[^{}]*\}", ""),
        (r"\\(?:[dtcs]|nice)frac(?![A-Za-z])", r"\\frac"),
        (r"\\surd(?![A-Za-z])", r"\\sqrt"),
        (r"\\bigtriangleup(?![A-Za-z])", r"\\triangle"),
        (r"\\vec ?\{ ?([A-Z] ?[A-Z]) ?\}", r"\\overrightarrow{\1}"),
        (r"\(mod (\w+)\)|\\[bp]?mod ?\{? ?(\w+) ?\}?", r"\\pmod{\1\2}"),
        (r"\\equiv(?!.*mod)", "="),
        (r"\^ ?\{? ?\\prime ?\}?(?! ?\\prime)", "'"),
        (r"(?<![A-Za-z\\])m ?\\angle", r"\\angle"),
        (r"\\bar(?![A-Za-z])", r"\\overline"),
        (r"smallmatrix", "matrix"),
        (r"\\(begin|end) ?\{([pbvBV]?)matrix\*\}(?:\[[lcr]\])?", r"\\\1{\2matrix}"),
        (r"\\frac ?\{ ?d ?([a-z]) ?\} ?\{ ?d ?x ?\}", r"\1'"),
        (r"[,;]?(?:\\?\s)*\\forall ?[a-z](?: ?\\in ?\\mathbb ?\{? ?R ?\}?)?\s*$", ""),
        (r"(?<=\w) ?\\text ?\{ ?\(?(?:in )?base[- ]?(\w+)\)? ?\}", r"_{\1}"),
        (
            r"([a-zA-Z]) ?\\in ?(?:\\math(?:bb|bf|rm) ?)?(?:(?:\{ ?N ?\}|N) ?[_^] ?(?:\{ ?[*+] ?\}|[*+])"
            r"|(?:\{ ?Z ?\}|Z) ?[_^] ?(?:\{ ?\+ ?\}|\+))",
            r"\1\\in\\mathbb{Z},\1\\ge 1",
        ),
        (r"\\in ?(?:\\mathbf ?\{ ?([ZNQR]) ?\}|(Z)(?![A-Za-z_^]))", r"\\in\\mathbb{\1\2}"),
        (r"\( ?([a-zA-Z] ?\\in ?\\mathbb ?\{? ?[ZNQR] ?\}?(?:,[a-zA-Z]\\ge 1)?) ?\)", r",\1"),
        (
            r",? ?(?:\\text ?\{ ?,? ?)?\b(?:for|where|with)(?: any| all| some| each)? ?\}? ?"
            r"(?=[a-zA-Z] ?\\in(?![a-z]))",
            ",",
        ),
        (
            r",? ?(?:\\text ?\{ ?,? ?)?\bfor (?:all|any|every|each)(?: real| positive)?(?: numbers?| values of)? ?\}? ?"
            r"[a-z][ .}]*$",
            "",
        ),
        (r"\\(?:dbinom|tbinom)(?![A-Za-z])", r"\\binom"),
        (r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
        (r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}|^([^{}]*)\\over(?![A-Za-z])([^{}]*)$", r"\\frac{\1\3}{\2\4}"),
        (r"(?<![A-Za-z])C\((\d+), ?(\d+)\)", r"\\binom{\1}{\2}"),
        (r"(?:\{\})?[_^]\{?(\d{1,4}|[mnrk])\}? ?C ?_\{?(\d{1,4}|[mnrk])\}?", r"\\binom{\1}{\2}"),
        (r"(?<![A-Za-z])C_\{?([mnr])\}?\^\{?(\d+|[mrk])\}?", r"\\binom{\1}{\2}"),
        (r"(?<![\w^])(\d{1,4})C_?(\d{1,4})(?!\w)|(?<![A-Za-z])C_\{?(\d+)\}?\^\{?(\d+)\}?", r"\\binom{\1\3}{\2\4}"),
        (
            r"(?:\{\})?[_^]\{?(\d{1,4})\}? ?P ?_\{?(\d{1,4})\}?|(?<![\w^])(\d{1,4})P_?(\d{1,4})(?!\w)",
            r"\\frac{\1\3!}{(\1\3-\2\4)!}",
        ),
        (
            r"\\frac ?\{ ?(\\(?:text|mathrm) ?\{[^{}]*\}) ?\} ?\{ ?(\\(?:text|mathrm) ?\{[^{}]*\}(?:\^\{?\d\}?)?) ?\}",
            r"\1/\2",
        ),
        (r"(?<=\d) ?x ?(?=10 ?\^)|(?<=\d) [xX] (?=\d)", r"\\times "),
        (r"\\dot ?\{?(\d)\}?(\d*)\\dot ?\{?(\d)\}?", r"\\overline{\1\2\3}"),
        (r"(?<![A-Za-z])(sq|cu|in|ft|yd|mi|hr|hrs|min|sec|lb|lbs|oz|mm|cm|km|kg)\.(?!\d)", r"\1"),
        (r"_\{?\((\d+)\)\}?", r"_{\1}"),
        (
            r"(?:\\\{ ?)?\\begin\{(cases|aligned|align\*?|array)\}(?:\{[lcr]*\})?((?:[^&]|& ?=)*?)"
            r"(?:\\\\)? ?\\end\{\1\}",
            lambda m: m[0] if m[1] == "array" and not _SIGN.search(m[2]) else m[2].replace(r"\\", ",").replace("&", ""),
        ),
        (r"\\begin\{cases\}(.*?)\\end\{cases\}", _pieces),
        (r"\\det ?\\begin\{[pb]matrix\}(.*?)\\end\{[pb]matrix\}", r"\\begin{vmatrix}\1\\end{vmatrix}"),
        (r"\^\{?(\d+)\}?/_\{?(\d+)\}?", r"\\frac{\1}{\2}"),
        (r"(?<=\d) ?\\text ?\{ ?([,:]|to) ?\} ?(?=\d)", lambda m: m[1].replace("to", ":")),
        (r"(?<=\d) ?\{ ?: ?\} ?(?=\d)", ":"),
        (r"(?<=[\])]) ?U ?(?=[(\[])", r"\\cup "),
        (
            r"(\d+) ?\^ ?\{? ?\\circ ?\}? ?(\d+) ?(?:'|\^\{? ?\\prime ?\}?)"
            r"(?: ?(\d+) ?(?:''|\"|\^\{? ?\\prime ?\\prime ?\}?))?",
            lambda m: rf"({m[1]}+\frac{{{m[2]}}}{{60}}+\frac{{{m[3] or 0}}}{{3600}})^\circ",
        ),
        (r"(?<![\d.])(\d*)\.(\d+) (?:repeating|recurring)(?![a-z])", r"\1.\\overline{\2}"),
        (
            r"\\\{ ?((?:[^{}]|\{[^{}]*\})+?) ?(?:\\mid|\||:) ?([a-z] ?\\in ?\\mathbb ?\{? ?[ZNQ] ?\}?) ?\\\}",
            lambda m: m[0] if "\\in" in m[1] else f"{m[1]},{m[2]}",
        ),
        (r"\\begin\{array\} ?\{[^{}]*\}", r"\\begin{matrix}"),
        (r"\\end\{array\}", r"\\end{matrix}"),
        (r"\| ?\\begin\{matrix\}(.*?)\\end\{matrix\} ?\|", r"\\begin{vmatrix}\1\\end{vmatrix}"),
        (r"\\mathbb ?\{? ?([RZNQC]) ?\}?", r"\\mathbb{\1}"),
        (r"\\mathbb\{R\}(?:\^|_)(?:\{ ?(?:\+|> ?0) ?\}|\+)", r"(0,\\infty)"),
        (r"\\mathbb\{R\}(?:\^|_)(?:\{ ?(?:-|< ?0) ?\}|-)", r"(-\\infty,0)"),
        (r"\\(?:long)?rightarrow(?![A-Za-z])", r"\\to"),
        (r"(?<=\d) ?(?:''|\"|\^\{\\prime ?\\prime\})(?!\w)", " inches"),
        (r"(?<=\d) ?'(?= ?\d)", " feet "),
        (r"(?<=\.)(\d{0,12}?)(\d{1,12}?)\2+(?:\.\.\.|\\[lc]?dots(?![A-Za-z]))", r"\1\\overline{\2}"),
        (r"\.\.\.|\\c?dots[bc]?(?![A-Za-z])", r"\\ldots "),
        (r"\\(?:boxed|fbox)(?![A-Za-z])", ""),
        (r"(?<=\d)\s*\{\s*,\s*\}\s*(?=\d)", ","),
        (r"\\!\s*", ""),
        (r"(?<=\d)(and|or)(?=[a-zA-Z\\(])|(?<=[\w})])(?<!f)(or|and)(?=[a-zA-Z] ?=)", r" \1\2 "),
        (r"(?<=\d)\\,(?=\d{3}(?!\d))", ""),
        (r"(?<!\\)\\(?:[,;:> ]|q?quad|hspace\{[^{}]*\})|~", " "),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\%", "%"),
        (r" ?\\text ?\{ ?(?:或者?|ou|oder) ?\} ?|(?<=[\dA-Za-z}]) ?或者? ?(?=[A-Za-z\\-])", " or "),
        (r" ?\\text ?\{ ?(?:且|并且|et|und) ?\} ?|(?<=[\dA-Za-z}]) ?(?:且|并且) ?(?=[A-Za-z\\-])", " and "),
        (r"\\(max|min|gcd|lcm) ?\\\{([^{}|:]*)\\\}", r"\\\1(\2)"),
        (r"\s+", " "),
    )
]
"""Rewrite rules that preserve meaning anywhere in a text."""
