"""The words that the grader's language knows: functions, constants, signs, units.

Tables only. How a run of letters is split among them is `rstar.grading.lexer`'s affair.
"""

from __future__ import annotations


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


FUNCTIONS = {
    name: name
    for name in _names(
        "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot",
        "ln log lg exp sqrt cbrt frac binom abs floor",
    )
} | {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "cosec": "csc"}
"""One spelling for each function."""
CONSTANTS = {"pi": "π", "infty": "∞", "infinity": "∞", "inf": "∞", "oo": "∞"}
GREEK = _names(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau",
    "phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell",
)
OPERATORS = {
    "cdot": "*",
    "times": "*",
    "ast": "*",
    "div": "/",
    "pm": "±",
    "mp": "∓",
    "le": "≤",
    "leq": "≤",
    "leqslant": "≤",
    "ge": "≥",
    "geq": "≥",
    "geqslant": "≥",
    "lt": "<",
    "gt": ">",
    "ne": "≠",
    "neq": "≠",
    "in": "∈",
    "approx": "≈",
    "cup": "∪",
    "lor": "or",
    "vee": "or",
    "land": "and",
    "circ": "°",
    "degree": "°",
    "colon": ":",
    "lvert": "|",
    "rvert": "|",
    "vert": "|",
    "mid": "|",
    "langle": "(",
    "rangle": ")",
    "lfloor": "⌊",
    "rfloor": "⌋",
    "lceil": "⌈",
    "rceil": "⌉",
    "emptyset": "∅",
    "varnothing": "∅",
}
NAMED = _names("overline bar vec hat widehat overrightarrow angle triangle widetilde tilde")
"""Accents and marks that make a name of the letters under them."""
UNITS = {
    alias: names[0]
    for names in (
        line.split()
        for line in (
            "mm millimeter millimetre",
            "cm centimeter centimetre",
            "meter metre",
            "km kilometer kilometre",
            "inch inches",
            "ft foot feet",
            "yd yard",
            "mi mile",
            "mg milligram",
            "gram",
            "kg kilogram kgs",
            "oz ounce",
            "lb lbs pound",
            "ml mL milliliter millilitre",
            "liter litre",
            "gal gallon",
            "ms millisecond",
            "sec second secs",
            "min minute mins",
            "hr hour hrs",
            "day",
            "week",
            "month",
            "yr year yrs",
            "mph",
            "kph kmh",
            "USD dollar usd",
            "cent",
            "EUR euro",
            "GBP",
            "° degree deg",
            "rad radian",
            "sq square",
            "cu cubic",
            "% percent pct",
        )
    )
    for alias in names
}
UNIT_LETTERS = frozenset("msghLlNJWVKAF")
"""Units only where they are set upright, after a number."""
SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
"""Words after a number that multiply it."""
NO_UNITS = _names(
    "mod modulo squared cubed choose minus plus times over under less more most least than not half halve quarter",
    "tenth hundredth thousandth third fourth fifth sixth seventh eighth ninth percentile factorial remainder",
)
"""Words that change the number beside them (in the singular)."""
TEXT_WORDS = _names("no on yes odd all not one two six ten up so if it to is as at by of per and or mod")
"""Short words that are no products of variables."""


def unit_name(word: str) -> str:
    """A unit's name in the singular; words that are no known unit only lose a final s."""
    for form in (word, word.lower(), word.removesuffix("s"), word.lower().removesuffix("s")):
        if form in UNITS:
            return UNITS[form]
    lower = word.lower()
    return lower[:-1] if lower.endswith("s") and len(lower) > 3 else lower
