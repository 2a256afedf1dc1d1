"""Statements in words, in any language of the grader: "the system has no solution", "la série converge", 方程无解.

Only whole sentences of a fixed form count, with a subject that the problem itself may have: "the first equation has no
solution", "it has no solution if a = 2" and "it has no integer solution" state something else.
"""

from __future__ import annotations

import re
from functools import cache

MAX_LENGTH = 160
"""Maximum length of a sentence."""
NO_SOLUTION = "no solution"
_UPRIGHT = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")
_FORMULA = re.compile(r"\$[^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]")
_END = re.compile(r"[.!?] +|[。！？；;：:] *")
_MARK = "§"
"""Stands for a formula."""
_NO_WORDS = frozenset("\\^=+/{}()[]|<>")
"""Characters of formulas, which no statement has."""
_LINK = (
    r"(?:(?:so|thus|hence|therefore|consequently|it follows that|we conclude that|by the (?:[a-z]+ ){1,3}test|that"
    r"|donc|ainsi|par conséquent|por (?:lo )?tanto|luego|entonces|así que|en consecuencia"
    r"|also|somit|daher|folglich|deshalb|damit|portanto|logo|então|quindi|dunque|pertanto|perciò)\b,? "
    r"|(?:所以|因此|故|从而|综上所述|综上|于是)[,，]? ?)?"
)
_EQUATION = (
    r"(?:it|(?:the|this|our|that) (?:(?:given|original|linear|quadratic|cubic|trigonometric|exponential|logarithmic)"
    r" ){0,2}(?:equation|system|inequality|problem)(?: of (?:linear )?(?:equations|inequalities))?"
    r"|(?:(?:le|la|cette?|ce) |l['’])(?:équation|système|inéquation|problème)(?: d['’]équations)?(?: donnée?)?"
    r"|(?:la|el|esta|este) (?:ecuación|sistema|inecuación|desigualdad|problema)(?: de ecuaciones)?(?: dad[ao])?"
    r"|(?:die|das|diese|dieses) (?:gegebene |lineare )?(?:gleichung|gleichungssystem|ungleichung|system|problem)"
    r"|(?:a|o|esta|este) (?:equação|sistema|inequação|problema)(?: de equações)?"
    r"|(?:(?:il|la|quest[ao]) |l['’])(?:equazione|sistema|disequazione|problema)(?: di equazioni)?"
    rf"|(?:该|此|原|这个)?(?:方程组?|不等式组?))(?: ?{_MARK})?"
)
_SERIES = (
    r"(?:it|(?:the|this|our|that) (?:(?:given|original|infinite|improper|alternating|geometric|power|harmonic) ){0,2}"
    r"(?:series|sequence|integral|sum|product)"
    r"|(?:(?:la|cette) |l['’])(?:série|suite|intégrale)(?: impropre)?"
    r"|(?:la|esta) (?:serie|sucesión|integral)(?: impropia)?"
    r"|(?:die|das|diese|dieses) (?:uneigentliche )?(?:reihe|folge|integral)|(?:a|esta) (?:série|sequência|integral)"
    r"|(?:(?:la|questa) |l['’])(?:serie|successione|integrale)(?: impropri[ao])?"
    rf"|(?:该|此|原|这个)?(?:级数|数列|(?:反常|广义)?积分))(?: ?{_MARK})?"
)
_LIMIT = (
    r"(?:(?:the|this) limit|(?:la|cette) limite|(?:el|este) límite|(?:der|dieser) grenzwert|(?:o|este|il|questo) limite"
    rf"|(?:该|此)?极限)(?: ?{_MARK})?"
)
_LINES = (
    r"(?:les (?:deux )?droites|las (?:dos )?rectas|die (?:beiden )?geraden|as (?:duas )?retas|le (?:due )?rette"
    r"|(?:这?两条)?直线)"
)
_FUNCTION = r"(?:(?:la|cette) fonction|la función|die funktion|a função|la funzione|该?函数)(?: ?§)?"
_SOLUTION = "(?:real )?solutions?(?: (?:in|over) the (?:reals|real numbers))?"
_GERMAN_SOLUTION = "(?:reellen? )?lösung(?:en)?"
_OF = r"(?:(?!.*\b(?:not|if|or)\b)[^不非否若如当错]*的)?"
"""What a condition is for; a part of the sentence may be in English by then (`languages`)."""
_STATES = {
    NO_SOLUTION: (
        rf"{_EQUATION} (?:has|have) no {_SOLUTION}|{_EQUATION} (?:does not|doesn't) have (?:any |a )?{_SOLUTION}"
        rf"|there (?:is|are) no {_SOLUTION}(?: (?:to|of|for) {_EQUATION})?|no {_SOLUTION}(?: exists?)?"
        rf"|{_EQUATION} is inconsistent|(?:the|its) solution set is (?:empty|the empty set)",
        rf"(?:{_EQUATION} (?:n['’]a|n['’]admet|ne possède)|il n['’](?:y a|existe)) (?:pas de|pas|aucune) "
        r"solutions?(?: réelles?)?|(?:pas de|aucune) solution",
        rf"(?:{_EQUATION} )?no (?:tiene|admite|hay|existen?) (?:ninguna )?soluci(?:ón|ones)(?: real(?:es)?)?",
        rf"(?:{_EQUATION} (?:hat|besitzt)|(?:hat|besitzt) {_EQUATION}|es gibt|gibt es) keine {_GERMAN_SOLUTION}"
        rf"|keine lösung|{_EQUATION} ist (?:unlösbar|nicht lösbar)",
        rf"(?:{_EQUATION} )?não (?:tem|possui|admite|há|existem?) soluç(?:ão|ões)(?: rea(?:l|is))?",
        rf"(?:{_EQUATION} )?non (?:ha|ammette|ci sono|esistono) soluzion[ei](?: real[ei])?",
        rf"(?:{_EQUATION})?(?:无|没有)(?:实数?)?解",
    ),
    "no real roots": (rf"(?:{_EQUATION} has )?no real roots?|(?:{_EQUATION})?(?:无|没有)实数?根",),
    "infinitely many": (
        rf"(?:{_EQUATION} has |there are )?infinitely many(?: solutions)?"
        rf"|(?:{_EQUATION} has )?an infinite number of solutions",
        rf"(?:(?:{_EQUATION} (?:a|admet|possède)|il y a) )?une infinité de solutions",
        rf"(?:(?:{_EQUATION} )?(?:tiene|hay) )?infinitas soluciones",
        rf"(?:(?:{_EQUATION} (?:hat|besitzt)|(?:hat|besitzt) {_EQUATION}|es gibt|gibt es) )?unendlich viele lösungen",
        rf"(?:(?:{_EQUATION} )?(?:tem|há) )?infinitas soluções|(?:{_EQUATION} ha )?infinite soluzioni",
        rf"(?:{_EQUATION})?有?无(?:穷多|数)[个组]?解",
    ),
    "converges": (
        rf"(?:{_SERIES} )?(?:converges|is convergent|converge|es convergente|est convergente|é convergente"
        rf"|è convergente|konvergiert|ist konvergent)|convergente?|konvergiert {_SERIES}|(?:{_SERIES})?(?:是)?收敛的?",
    ),
    "diverges": (
        rf"(?:{_SERIES} )?(?:diverges|is divergent|diverge|es divergente|est divergente|é divergente|è divergente"
        rf"|divergiert|ist divergent)|divergente?|divergiert {_SERIES}|(?:{_SERIES})?(?:是)?(?:发散|不收敛)的?",
        rf"{_SERIES} (?:does not converge|ne converge pas|no converge|não converge|non converge|konvergiert nicht)",
    ),
    "converges absolutely": (
        rf"(?:{_SERIES} )?(?:converges absolutely|is absolutely convergent|converge absolument"
        rf"|converge absolutamente|converge assolutamente|konvergiert absolut)|(?:{_SERIES})?绝对收敛",
    ),
    "converges conditionally": (
        rf"(?:{_SERIES} )?(?:converges conditionally|is conditionally convergent|converge condicionalmente"
        rf"|konvergiert bedingt)|(?:{_SERIES})?条件收敛",
    ),
    "does not exist": (
        rf"(?:{_LIMIT} )?(?:does not exist|doesn't exist|n['’]existe pas|no existe|não existe|non esiste"
        rf"|existiert nicht)|existiert {_LIMIT} nicht|(?:{_LIMIT})?不存在",
    ),
    "perpendicular": (
        rf"{_LINES} (?:sont perpendiculaires|son perpendiculares|são perpendiculares|sono perpendicolari"
        rf"|sind (?:senkrecht|orthogonal)(?: zueinander)?|stehen senkrecht aufeinander)|{_LINES}(?:互相|相互)?垂直"
        "|perpendicular",
    ),
    "parallel": (
        rf"{_LINES} (?:sont parallèles|son paralelas|são paralelas|sono parallele|sind parallel(?: zueinander)?)"
        rf"|{_LINES}(?:互相|相互)?平行|parallel",
    ),
    "even": (
        rf"{_FUNCTION} (?:est paire|es par|ist gerade|é par|è pari)|{_FUNCTION}[是为]偶函数|(?:an )?even(?: function)?",
    ),
    "odd": (
        rf"{_FUNCTION} (?:est impaire|es impar|ist ungerade|é ímpar|è dispari)|{_FUNCTION}[是为]奇函数"
        "|(?:an )?odd(?: function)?",
    ),
    "yes": (r"(?:yes|oui|sí|ja|sim|sì|是的?)(?:[,，][^\d,，]*)?",),
    "no": (r"(?:no|non|nein|não|不是|否)(?:[,，][^\d,，]*)?",),
    "sufficient, not necessary": (
        rf"{_OF}充分不必要条件",
        "sufficient but not necessary(?: condition)?",
    ),
    "necessary, not sufficient": (
        rf"{_OF}必要不充分条件",
        "necessary but not sufficient(?: condition)?",
    ),
    "necessary and sufficient": (
        rf"{_OF}充(?:分必)?要条件",
        "necessary and sufficient(?: condition)?",
    ),
    "neither": (
        rf"{_OF}既(?:不充分[也又]不必要|非充分[也又]非必要)条件",
        "neither (?:sufficient nor necessary|necessary nor sufficient)(?: condition)?",
    ),
}


@cache
def _sentences() -> list[tuple[str, re.Pattern[str]]]:
    """What the sentences that assert a state look like; compiled on first use, because that takes long."""
    return [(name, re.compile(f"{_LINK}(?:{'|'.join(patterns)})")) for name, patterns in _STATES.items()]


def state_of(text: str) -> str | None:
    """The state that the last sentence of a text asserts; None for any other sentence."""
    lines = text.strip()[-10 * MAX_LENGTH :].splitlines()
    line = _UPRIGHT.sub(r"\1", lines[-1].strip()) if lines else ""
    sentence = _END.split(line.strip(" .。$*!"))[-1].strip(" $*")
    if not 0 < len(sentence) <= MAX_LENGTH:
        return None
    sentence = re.sub(r"\s+", " ", _FORMULA.sub(_MARK, sentence)).lower()
    if not _NO_WORDS.isdisjoint(sentence):
        return None
    return next((name for name, pattern in _sentences() if pattern.fullmatch(sentence)), None)
