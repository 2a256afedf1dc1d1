"""Vocabulary of the synthetic problems, and values that render themselves in grammatical English.

The values fill the fields of a template (`rstar.tiny.templates`): format specs choose the form. This module contains no
mathematics.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def _split(text: str) -> list[str]:
    return [word.replace("_", " ") for word in text.split()]


_SHE = _split("""
Alice Amara Anna Bella Carla Chloe Clara Diana Ella Emma Eva Fatima Fiona Grace Hana Helen Ines Iris Jane Julia Karen
Kira Laura Leila Lena Lily Lucy Maria Maya Mia Nadia Nina Nora Olga Petra Priya Rita Rosa Ruth Sara Sofia Tara Tina
Vera Yuki Zoe
""")
_HE = _split("""
Aaron Adam Ahmed Alan Arjun Ben Boris Carl Daniel David Diego Eric Felix Finn George Hugo Ivan Jack James Jin Kofi Leo
Liam Luis Marco Mark Max Miguel Noah Omar Oscar Paul Pedro Peter Ravi Robert Sam Simon Tariq Tom Victor Walter Will
Yusuf
""")


@dataclass(frozen=True, slots=True)
class Person:
    """A first name. Specs: none (the name), ``he``, ``his``, ``him`` and, to open a sentence, ``He``, ``His``."""

    name: str
    female: bool

    def __format__(self, spec: str) -> str:
        if not spec:
            return self.name
        return {"he": "she", "his": "her", "him": "her", "He": "She", "His": "Her"}[spec] if self.female else spec


PEOPLE = tuple(Person(name, True) for name in _SHE) + tuple(Person(name, False) for name in _HE)

_IRREGULAR = {"knife": "knives", "scarf": "scarves", "fish": "fish", "goose": "geese"}
_IRREGULAR |= {"sheep": "sheep", "person": "people", "child": "children", "tomato": "tomatoes"}
_IRREGULAR |= {"potato": "potatoes", "mango": "mangoes", "bookshelf": "bookshelves"}


def plural(noun: str) -> str:
    """Plural of an English noun; of several words only the last changes."""
    *first, last = noun.split(" ")
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    elif last.endswith("y") and last[-2] not in "aeiou":
        last = last[:-1] + "ies"
    elif last.endswith(("s", "x", "ch", "sh")):
        last += "es"
    else:
        last += "s"
    return " ".join([*first, last])


def article(word: str) -> str:
    """``a`` or ``an`` for a word or a number in digits (the words of this module follow their first letter)."""
    return "an" if word[0] in "aeiouAEIOU8" or word in ("11", "18") else "a"


@dataclass(frozen=True, slots=True)
class Noun:
    """A countable noun. Specs: none (singular), ``s`` (plural), ``S`` (capital plural), ``a``, ``A`` (with article)."""

    one: str

    def __format__(self, spec: str) -> str:
        many = plural(self.one)
        single = f"{article(self.one)} {self.one}"
        return {"": self.one, "s": many, "S": many.capitalize(), "a": single, "A": single.capitalize()}[spec]


def _nouns(text: str) -> tuple[Noun, ...]:
    return tuple(Noun(word) for word in _split(text))


FOOD = _nouns("""
apple orange banana pear peach plum lemon mango melon kiwi tomato potato onion carrot egg cookie muffin bagel sandwich
cupcake pancake biscuit pie cake pretzel olive cherry strawberry walnut candy doughnut
""")
GOODS = _nouns("""
pencil pen eraser notebook ruler marker crayon book magazine poster stamp postcard envelope folder sticker marble
balloon ball kite doll puzzle toy_car yo-yo card coin bead shell button ribbon badge mug cup plate bowl spoon fork
knife glass candle lamp vase hat cap scarf glove sock shirt belt key_ring brush comb towel pillow blanket umbrella
plant tulip rose seed_packet battery light_bulb flag bracelet
""")
BAKED = _nouns("""
cookie muffin bagel sandwich cupcake pancake biscuit pie cake pretzel doughnut
""")
SMALL = FOOD + _nouns("""
pencil pen eraser notebook marker crayon book stamp marble ball doll card coin bead shell button
""")
THINGS = FOOD + GOODS
ANIMALS = _nouns("""
chicken duck goose sheep goat cow pig horse rabbit turkey
""")
BOXES = _nouns("""
box bag basket crate jar tray packet carton tin drawer
""")
DEAR = _nouns("""
bike lamp table chair sofa phone tent coat jacket camera guitar drum piano radio mirror clock rug desk bed violin
printer watch ring helmet boat suitcase backpack dress suit oven fridge heater
""")
PLACES = ("bakery", "market", "shop", "farm", "school", "library", "museum", "factory", "hotel", "kitchen", "warehouse")
TOWNS = ("Ashford", "Brookside", "Cedarville", "Dunmore", "Eastwick", "Fairview", "Greenfield", "Hilltown", "Kingsport")
CREW = _nouns("""
painter worker gardener cleaner builder farmer baker carpenter mason roofer
""")
PUPILS = _nouns("""
student child player dancer singer scout swimmer runner guest visitor
""")


def people(rng: random.Random, count: int) -> list[Person]:
    """Draw `count` different people."""
    return rng.sample(PEOPLE, count)


def things(rng: random.Random, count: int, among: Sequence[Noun] = THINGS) -> list[Noun]:
    """Draw `count` different nouns."""
    return rng.sample(among, count)


def joined(parts: Iterable[object], last: str = "and") -> str:
    """Join as ``a, b and c``."""
    *first, end = map(str, parts)
    return f"{', '.join(first)} {last} {end}" if first else end


def signed(number: int) -> str:
    """Format as ``+ 5`` or ``- 5``, to follow another number."""
    return f"{'-' if number < 0 else '+'} {abs(number)}"


@dataclass(frozen=True, slots=True)
class Purchase:
    """Several kinds of goods, each with a count and a price in text form.

    Specs: ``at`` (3 pens at $4 each and …), ``for`` (3 pens for $4 each), ``count`` (3 pens and …), ``price`` (pens
    cost $4 each and …), ``Price`` (the same, capitalised), ``one`` ($4 for a pen and …).
    """

    lines: Sequence[tuple[int, Noun, str]]

    def __format__(self, spec: str) -> str:
        match spec:
            case "at" | "for":
                return joined([f"{n} {noun:s} {spec} ${price} each" for n, noun, price in self.lines])
            case "count":
                return joined([f"{n} {noun:s}" for n, noun, _ in self.lines])
            case "one":
                return joined([f"${price} for {noun:a}" for _, noun, price in self.lines])
            case "price" | "Price":
                text = joined([f"{noun:s} cost ${price} each" for _, noun, price in self.lines])
                return text[0].upper() + text[1:] if spec == "Price" else text
        raise ValueError(f"no form {spec!r} of a purchase")
