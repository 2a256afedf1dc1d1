"""The grader's vocabulary: functions, constants, signs, units.

Tables only; `rstar.grading.read.lexer` splits runs of letters among them.
"""

from __future__ import annotations


def words_of(*lines: str) -> frozenset[str]:
    """The words of the lines of a table."""
    return frozenset(name for line in lines for name in line.split())


def word_list(text: str) -> list[str]:
    """The words of a text, in order."""
    return text.split()


def alias_table(*lines: str) -> dict[str, str]:
    """The names by alias of a table of ``name alias alias; name alias``."""
    rows = (row.split() for line in lines for row in line.split(";"))
    return {alias: name for name, *aliases in rows for alias in aliases}


FUNCTIONS = {
    name: name
    for name in words_of(
        "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot",
        "ln log lg exp sqrt cbrt frac binom abs floor cis",
    )
} | {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "cosec": "csc"}
"""One spelling for each function."""
CONSTANTS = {"ldots": "…", "pi": "π", "infty": "∞", "infinity": "∞", "inf": "∞", "oo": "∞"}
HAN = "\u4e00-\u9fff"
"""Chinese characters, for a character class."""
HANGUL = "\uac00-\ud7a3"
"""Korean syllables, for a character class."""
INDEXED_OPERATIONS = words_of("sum prod")
"""Commands for operations over an index."""
NOON = r"noon|midday|midi|mittags?|mediod[ií]a|meio[- ]dia|mezzogiorno|中午|正午"
MIDNIGHT = r"midnight|minuit|mitternachts?|medianoche|meia[- ]noite|mezzanotte|午夜|半夜|零点"
"""Noon and midnight in the grader's languages."""
GREEK = words_of(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau",
    "phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell",
)
OPERATORS = alias_table(
    "* cdot times ast; / div; ± pm; ∓ mp; ≤ le leq leqslant; ≥ ge geq geqslant; < lt; > gt; ≠ ne neq; ∈ in; ≈ approx",
    "∪ cup; ∖ setminus backslash; or lor vee; and land; ° circ degree; : colon; | lvert rvert vert mid; ( langle",
    ") rangle; ⌊ lfloor; ⌋ rfloor; ⌈ lceil; ⌉ rceil; ∅ emptyset varnothing",
)
OTHER_COMMANDS = words_of(
    "int iint iiint oint intop inf sum prod lim limsup liminf sup max min gcd lcm det deg dim ker arg mod bmod pmod",
    "pod cdots dots ldots vdots ddots dotsb dotsc leftarrow leftrightarrow longleftarrow Leftarrow Leftrightarrow",
    "lesssim lessgtr gets geqq leqq gg ll neg ngeq nleq lnot lneq gneq ni notin nmid nparallel nless ngtr nexists",
    "simeq models equiv cong sim approxeq propto perp parallel subset subseteq supset supseteq cap wedge oplus",
    "otimes ominus odot prime nabla partial forall exists therefore because implies iff to mapsto leadsto mathbb",
    "mathbf mathrm text begin end left right middle big Big sqrt frac star bullet dagger hbar imath jmath Re Im",
    "aleph wp ddot dot breve check acute",
)
"""Commands outside the language that must not be split into a known command and letters."""
NAMING_MARKS = words_of("overline bar vec hat widehat overrightarrow angle triangle widetilde tilde")
"""Accents and marks that turn the letters under them into a name."""
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
)
_ORDINALS = (
    "first third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth",
    "sixteenth seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth hundredth thousandth millionth",
)
CARDINALS = {
    word: place if place < 20 else 10 * (place - 18) for place, word in enumerate(word_list(" ".join(_NUMBERS)))
}
"""Numbers with a word of their own, up to ninety."""
DENOMINATORS = {"half": 2, "halve": 2, "quarter": 4} | dict(
    zip(word_list(" ".join(_ORDINALS))[1:], (*range(3, 21), 30, 40, 50, 100, 1_000, 1_000_000), strict=True)
)
"""Denominators by fraction word, for a numerator of one."""
FORMULA_WORDS = frozenset({*FUNCTIONS, *CONSTANTS, *GREEK})
"""Names that have a meaning in formulas."""
MODIFIERS = words_of(
    "billionth trillionth fold twice thrice double triple matrix matrices repeating recurring approximately roughly",
    "quadrillionth except",
    "mod modulo squared cubed choose minus plus times over under less more most least than not percentile factorial",
    "remainder below above negative positive and or to from of by is are was were base both but",
    *_NUMBERS,
    *_ORDINALS,
    "half halve quarter",
)
"""Words that change the number beside them (in the singular)."""
TEXT_WORDS = words_of(
    "if for the an no on yes odd all not one two six ten up so if it to is as at by of per and or mod"
)
"""Short words that are not products of variables."""
