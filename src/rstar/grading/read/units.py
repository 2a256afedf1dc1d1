"""Units: what a word after a number measures, and when two units measure the same thing.

A unit is a factor times powers of base units, so ``m/s`` is ``meters per second``, ``2 hours`` is ``120 minutes`` and
``cm^2`` is not ``cm``. Factors are exact; an unknown name ("apples") is its own base unit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from rstar.grading.read.vocabulary import DENOMINATORS, MODIFIERS, word_list, words_of


@dataclass(frozen=True, slots=True)
class Unit:
    """`factor` times a product of base units. `powers`: (name, nonzero power), sorted by name."""

    factor: Fraction
    powers: tuple[tuple[str, int], ...]

    def times(self, other: Unit, power: int = 1) -> Unit:
        """The product with a power of another unit."""
        powers = Counter(dict(self.powers))
        for name, count in other.powers:
            powers[name] += count * power
        if powers["°"] == 1 and (powers["C"] or powers["F"]):  # °C is C
            del powers["°"]
        return Unit(self.factor * other.factor**power, tuple(sorted((n, p) for n, p in powers.items() if p)))


def _base(name: str) -> Unit:
    return Unit(Fraction(1), ((name, 1),))


NONE = Unit(Fraction(1), ())
PERCENT, POINT, DEGREE = _base("%"), _base("pp"), _base("°")

_TABLE = """
    1 m         m meter metre metro mètre metri metern
    1/1000 m    mm millimeter millimetre milímetro millimètre millimetro millimetri millimetern
    1/100 m     cm centimeter centimetre centímetro centimètre zentimeter centimetro centimetri zentimetern
    1/10 m      dm decimeter decimetre decímetro décimètre dezimeter decimetro decimetri
    1000 m      km kilometer kilometre kilómetro kilomètre quilómetro quilômetro chilometro chilometri kilometern
    127/5000 m  in inch inches zoll pulgada polegada
    381/1250 m  ft foot feet
    1143/1250 m yd yard
    201168/125 m mi mile meile meilen milla milha
    1 s         s sec second secs sekunde sekunden seconde segundo secondo secondi
    1/1000 s    ms millisecond
    60 s        min minute mins minuten minuto minuti
    3600 s      h hr hour hrs stunde stunden heure hora ora ore
    86400 s     day tage tagen jour día dia giorno giorni
    604800 s    week wk woche wochen semaine semana settimana settimane
    1 yr        yr year yrs annum jahr jahre jahren ans année año ano anno anni
    1/12 yr     month mo monat monate monaten mois meses
    1 g         g gram gramm gramme gramo grama grammo grammi
    1/1000 g    mg milligram milligramm milligramme miligramo
    1000 g      kg kilogram kgs kilogramm kilogramme kilogramo quilograma chilogrammo chilogrammi
    500 g       jin
    1000000 g   tonne tonnen tonelada tonnellata tonnellate
    1 lb        lb lbs pound
    1/16 lb     oz ounce
    1 gal       gal gallon
    1/4 gal     quart qt
    1/8 gal     pint pt
    1 USD       USD dollar usd buck
    1/100 USD   cent
    1 EUR       EUR euro
    1 GBP       GBP quid
    1/100 GBP   penny pence
    1 person    person persons people
    1 box       box boxes
    1 child     child children
    1 °         ° degree deg degré grado
    1/60 °      arcminute arcmin bogenminute bogenminuten
    1/3600 °    arcsecond arcsec bogensekunde bogensekunden
    1 rad       rad radian
    1 %         % percent pct percentage
    1 pp        pp
"""
UNITS: dict[str, Unit] = {
    alias: Unit(Fraction(factor), ((base, 1),))
    for factor, base, *aliases in map(str.split, filter(str.strip, _TABLE.splitlines()))
    for alias in aliases
}
_LITER = Unit(Fraction(1, 1000), (("m", 3),))
UNITS |= dict.fromkeys(words_of("L l liter litre litro litri litern"), _LITER)
UNITS |= dict.fromkeys(
    words_of("mL ml milliliter millilitre mililitro millilitro millilitri cc"), Unit(Fraction(1, 10**6), (("m", 3),))
)
UNITS |= {"hectare": Unit(Fraction(10_000), (("m", 2),)), "hektar": Unit(Fraction(10_000), (("m", 2),))}
UNITS |= {"mph": UNITS["mi"].times(UNITS["h"], -1), "fps": UNITS["ft"].times(UNITS["s"], -1)}
UNITS |= dict.fromkeys(("kph", "kmh"), UNITS["km"].times(UNITS["h"], -1))
UNITS |= {name: _base(name) for name in words_of("N J W V A K C F Hz Pa")}
UNITS |= {"celsius": UNITS["C"], "centigrade": UNITS["C"], "fahrenheit": UNITS["F"], "kelvin": UNITS["K"]}

UNITS |= {
    f"{power}{name}": UNITS[name].times(UNITS[name], count)
    for name in words_of("meter metern zentimeter millimeter dezimeter kilometer")
    for power, count in (("quadrat", 1), ("kubik", 2))
}

LETTERS = frozenset(name for name in UNITS if len(name) == 1)
"""Units only if set upright, after a number."""
CURRENCIES = frozenset({"USD", "EUR", "GBP"})
POWERS = {"sq": 2, "square": 2, "cu": 3, "cubic": 3}
"""Words before a unit that raise it to a power."""
POWERS_AFTER = {
    **dict.fromkeys(words_of("squared carré carrés cuadrado cuadrados quadrado quadrados quadrato quadrati"), 2),
    **dict.fromkeys(words_of("cubed cúbico cúbicos cubo cubi"), 3),
}
"""Words after a unit that raise it to a power."""
PER = frozenset({"per", "par", "pro", "por"})
"""Words between two units of which the second divides the first."""
_MEASURES = frozenset({"m", "s", "yr", "g", "lb", "gal", "°"})
FILLERS = words_of("old tall long wide high deep away apart left total altogether each remaining exactly only now")
"""Words beside a unit that do not change it."""
SCALES = {"dozen": 12, "score": 20, "hundred": 100, "gross": 144, "lakh": 10**5, "crore": 10**7} | {
    name: 1000**power
    for power, name in enumerate(word_list("thousand million billion trillion quadrillion quintillion"), 1)
}
"""Words after a number that multiply it."""


def singular(word: str) -> str:
    """Strip a final s that may mark a plural; known units keep their known spelling."""
    for form in (word, word.lower(), word.removesuffix("s"), word.lower().removesuffix("s")):
        if form in UNITS:
            return form
    lower = word.lower()
    return lower[:-1] if lower.endswith("s") and len(lower) > 3 else lower


def scale_of(word: str) -> Fraction | None:
    """The multiplier that a word after a number means ("7 thirds", "5 million"); None for any other word."""
    name = singular(word)
    if word.lower() != "second" and name in DENOMINATORS and name != "s":
        return Fraction(1, DENOMINATORS[name])
    scale = SCALES.get(word.lower()) or SCALES.get(name)
    return None if scale is None else Fraction(scale)


def is_frequency(unit: Unit) -> bool:
    """Whether a unit is once per some time."""
    return unit.powers in ((("s", -1),), (("yr", -1),))


def is_measure(word: str) -> bool:
    """Whether a word is a unit of a physical quantity, rather than of money or of things that are counted."""
    unit = UNITS.get(singular(word))
    return unit is not None and any(name in _MEASURES for name, _ in unit.powers)


def is_known(word: str) -> bool:
    """Whether a run of letters is the name of a unit in any position."""
    return len(word) > 1 and singular(word) in UNITS


def unit_of(word: str) -> Unit | None:
    """The unit that a word after a number means; None for a word that changes the number instead."""
    name = singular(word)
    if name in MODIFIERS or word.lower() in MODIFIERS or name.endswith("ieth"):
        return None
    return UNITS.get(name) or _base(name)
