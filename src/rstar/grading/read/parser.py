r"""Recursive-descent parser of answers, from tokens to `rstar.grading.read.nodes`.

    answer    := item ((","|"and"|"or") item)*            without brackets: a `bare` list
    item      := side (relation-sign side)*
    side      := sum ("∪" sum)* [":" sum]… [unit]
    sum       := ["-"|"+"|"±"] product (("+"|"-"|"±") product)*
    product   := factor (("*"|"/"|nothing) factor)*       "/" binds like "*", from the left
    factor    := primary ("!"|"'")* ["^" factor]

Context resolves ambiguity as a human reader would: ``2\frac58`` and ``2 5/8`` are mixed numbers, ``\frac12``
takes one digit each, ``x^10`` means the tenth power, ``{1, 2}`` is a set and ``{1}`` only groups, ``25_8`` is a numeral
in base 8, words after a value are its unit. Nothing is evaluated. Depth and size limits keep any text to milliseconds.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rstar.grading.read import units
from rstar.grading.read.lexer import END, Token, TooLargeError, UnreadableError, tokens
from rstar.grading.read.nodes import (
    Apply,
    Group,
    Kind,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    minus,
    names_of,
    plain,
)
from rstar.grading.read.primaries import MAX_DEPTH, Primaries

MAX_DOUBLE_FACTORIAL = 300
_RELATIONS = frozenset("=<>≤≥≠∈≈")
_SEPARATORS = frozenset({",", "and", "or"})


def parse(form: str, *, thousands: bool = True, decadic: bool = False) -> Node:
    """Parse a normal form into a tree.

    Args:
        form: a normal form (`rstar.grading.read.normal.normal`).
        thousands: read ``1,234`` outside brackets as one number rather than a list of two.
        decadic: read ``log`` without a base as base 10 rather than natural.

    Raises:
        UnreadableError: the text is outside the language, too long or too deep.
    """
    parser = _Parser(_without_doubled(tokens(form, thousands=thousands)), decadic=decadic)
    node = parser.answer()
    if parser.peek is not END:
        raise UnreadableError(f"unexpected {parser.peek.text!r}")
    return node


def _without_doubled(found: list[Token]) -> list[Token]:
    """Collapse directly nested brackets of one kind: a hundred become one."""
    opened: list[int] = []
    closer: dict[int, int] = {}
    for place, token in enumerate(found):
        if token.text in ("(", "{"):
            opened.append(place)
        elif token.text in (")", "}") and opened:
            closer[opened.pop()] = place
    doubled = {
        place
        for start, end in closer.items()
        if closer.get(start + 1) == end - 1 and found[start].text == found[start + 1].text
        for place in (start, end)
    }
    return [token for place, token in enumerate(found) if place not in doubled] if doubled else found


class _Parser(Primaries):
    # --- values together ---------------------------------------------------------------------------------------

    def answer(self) -> Node:
        """Parse the whole answer."""
        items, kind = self._items()
        values = [item.sides[-1] if isinstance(item, Relation) else item for item in items if not _is_inequality(item)]
        letters = frozenset().union(*map(names_of, values))
        conditions = [item for item in items if _is_condition(item, letters)]
        members = [item for item in items if item not in conditions]
        if members and conditions:  # 2n+1, where n is in ℤ
            if (letter := _integer(conditions, members)) is not None:  # n ≥ 3, where n is in ℤ
                return Group("given", (letter, *conditions, *members))
            family = members[0] if len(members) == 1 else Group(kind, tuple(members))
            return Group("given", (family, *conditions))
        return items[0] if len(items) == 1 else Group(kind, tuple(items))

    def _items(self) -> tuple[list[Node], Kind]:
        """Parse items up to a closing bracket or the end, and classify them as a group."""
        items, between = [self._item()], set()
        while self.peek.kind == "op" and self.peek.text in _SEPARATORS:
            separator = ""
            while self.peek.kind == "op" and self.peek.text in _SEPARATORS:
                separator = self.next().text
                between.add(separator)
            item = self._item()
            if separator == "and" and (whole := _compound_quantity(items[-1], item)) is not None:
                items[-1] = whole
            else:
                items.append(item)
        return items, _group_kind(items, between)

    def _item(self) -> Node:
        sides, signs = [self._side()], []
        while self.peek.kind == "op" and self.peek.text in _RELATIONS:
            sign = self.next().text
            side = self._side()
            if sign == "≈" and len(sides) == 1 and isinstance(sides[0], Symbol):
                sign = "="
            signs.append(sign)
            sides.append(side)
        return Relation(tuple(sides), tuple(signs)) if signs else sides[0]

    def _side(self) -> Node:
        node = self._with_unit(self._sum())
        kinds: tuple[tuple[str, Kind], ...] = (("∪", "union"), ("∖", "without"), (":", "ratio"))
        for sign, kind in kinds:
            if self.op(sign):
                parts = [node]
                while self.take(sign):
                    parts.append(self._sum())
                node = Group(kind, tuple(parts))
        return node

    def _with_unit(self, node: Node) -> Node:
        if self.take("%"):
            node = Quantity(node, units.PERCENT)
        if self.peek.kind != "word":
            return node
        if isinstance(node, Symbol):
            raise UnreadableError("a letter before a word: prose")
        while (scale := units.scale_of(self.peek.text)) is not None:
            self.next()
            factor = Number(scale)
            if isinstance(node, Quantity):
                node = Quantity(Apply("*", (node.value, factor)), node.unit)
            else:
                node = Apply("*", (plain(node), factor))
        unit = self._unit()
        if isinstance(node, Quantity):
            counted = node.unit != units.PERCENT or units.is_frequency(unit)  # 6% per year, but 6% salt
            return Quantity(node.value, node.unit.times(unit)) if counted else node
        return self._with_smaller_unit(Quantity(node, unit)) if unit != units.NONE else node

    def _with_smaller_unit(self, first: Quantity) -> Node:
        """Parse ``5 feet 6 inches`` as one quantity."""
        if self.peek.kind != "num":
            return first
        whole = _compound_quantity(first, self._with_unit(self._sum()))
        if whole is None:
            raise UnreadableError("two quantities side by side")
        return whole

    def _unit(self) -> units.Unit:
        """The product of the units that follow: ``m/s^2``, ``square feet per hour``, ``meters per second squared``."""
        found, last, power, scale, joined = units.NONE, units.NONE, 1, 1, False
        while True:
            if self.take("/"):
                power = -1
            elif self.op("*") and self._is_unit(self.ahead(1)):
                self.next()
                joined = True
            elif self.peek.kind == "word" or ((joined or power < 0) and self._is_unit(self.peek)):
                joined = False
                name = self.next().text
                if name in units.PER:
                    power = -1
                elif name in units.POWERS:
                    scale = units.POWERS[name]
                elif name in units.POWERS_AFTER and last != units.NONE:
                    found = found.times(last, units.POWERS_AFTER[name] - 1)
                elif name.lower() not in units.FILLERS or self.peek.kind == "word":
                    unit = units.unit_of(name)
                    if unit is None:
                        raise UnreadableError(f"{name!r} is not a unit")
                    last = units.NONE.times(unit, power * scale * self._unit_power())
                    found = found.times(last)
                    power = scale = 1
            else:
                return found

    @staticmethod
    def _is_unit(token: Token) -> bool:
        return token.kind == "word" or (token.kind == "sym" and token.text in units.LETTERS)

    def _unit_power(self) -> int:
        if not self.take("^"):
            return 1
        braced = self.take("{")
        sign = -1 if self.take("-") else 1
        digit = self.next().text
        if braced:
            self.expect("}")
        if not digit.isdigit():
            raise UnreadableError("the power of a unit is not an integer")
        return sign * int(digit)

    # --- arithmetic --------------------------------------------------------------------------------------------

    def _sum(self) -> Node:
        node: Node | None = None
        terms: list[Node] = []
        while True:
            sign = self.next().text if self.op("+", "-", "±", "∓") else ""
            if terms and not sign:
                break
            term = self._product()
            if sign in ("±", "∓"):
                node = Apply("+", tuple(terms)) if len(terms) > 1 else terms[0] if terms else Number(Fraction(0))
                terms = [Apply(sign, (node, term))]
            else:
                terms.append(minus(term) if sign == "-" else term)
            if not self.op("+", "-", "±", "∓"):
                break
        match terms:
            case [only]:
                return only
            case [whole, Apply("*", (Number(Fraction(numerator=-1)), Group("set") as points))]:
                return Group("without", (whole, points))
        return Apply("+", tuple(map(plain, terms)))

    def _product(self) -> Node:
        factors = [self._first_factor()]
        literal = isinstance(factors[0], Number) and self.at and self.tokens[self.at - 1].kind == "num"
        while True:
            if self.take("*"):
                factors.append(self._factor())
            elif self.take("/"):
                if self.peek.kind == "word":
                    self.at -= 1
                    break
                factors.append(Apply("inv", (plain(self._factor()),)))
            elif self._starts_value():
                after_number = (literal and len(factors) == 1) or _is_fraction(factors[-1])
                if after_number and self.peek.kind == "num":
                    raise UnreadableError("two numbers side by side")
                factors.append(self._factor())
            else:
                break
        return factors[0] if len(factors) == 1 else Apply("*", tuple(map(plain, factors)))

    def _first_factor(self) -> Node:
        """Parse a factor or a mixed number: an integer directly before a proper fraction of integers."""
        start = self.at
        whole = self._factor()
        if not (isinstance(whole, Number) and self.at == start + 1 and whole.value.denominator == 1):
            return whole
        part: Node | None = None
        mark = self.at
        if self.peek.kind == "fn" and self.peek.text == "frac":
            part = self._factor()
        elif self.peek.kind == "num" and self.ahead(1).text == "/" and self.ahead(2).kind == "num":
            part = Apply("*", (Number(self.next().value), Apply("inv", (Number(self.ahead(1).value),))))
            self.at += 2
        fraction = _proper_fraction(part)
        if fraction is None:
            self.at = mark
            return whole
        return Number(whole.value + fraction)

    def _starts_value(self) -> bool:
        token = self.peek
        if token.kind in ("num", "sym", "fn", "indexed", "begin", "named"):
            return True
        if token.kind == "op" and token.text == "[":  # unless it closes an open interval: [0, 1[
            return self.ahead(1) is not END and self.ahead(1).text not in (*_SEPARATORS, "∪", "\\}")
        return token.kind == "op" and (token.text in ("(", "{", "⌊", "⌈") or (token.text == "|" and not self._bars))

    def _factor(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooLargeError("nested too deeply")
        try:
            if self.op("-", "+"):
                sign = self.next().text
                inner = self._factor()
                return minus(inner) if sign == "-" else inner
            return self._powers(self._primary())
        finally:
            self._depth -= 1

    def _powers(self, node: Node) -> Node:
        if self.take("!"):
            node = self._double_factorial(node) if self.take("!") else Apply("factorial", (plain(node),))
            if self.op("!"):
                raise UnreadableError("a triple factorial")
        if self.take("°"):
            return Quantity(node, units.DEGREE)
        if not self.take("^"):
            return node
        if self.take("°") or self._degree_in_braces():
            return Quantity(node, units.DEGREE)
        return Apply("^", (plain(node), plain(self._factor())))

    @staticmethod
    def _double_factorial(node: Node) -> Node:
        if isinstance(node, Number) and node.value.denominator == 1 and 0 <= node.value <= MAX_DOUBLE_FACTORIAL:
            return Number(Fraction(math.prod(range(int(node.value), 0, -2))))
        raise UnreadableError("a double factorial")

    def _degree_in_braces(self) -> bool:
        if self.op("{") and self.ahead(1).text == "°" and self.ahead(2).text == "}":
            self.at += 3
            return True
        return False


def _is_fraction(node: Node) -> bool:
    match node:
        case Apply("*", (Number(), Apply("inv", (Number(),)))):
            return True
    return False


def _group_kind(items: list[Node], between: set[str]) -> Kind:
    """The kind of a group: alternatives, conditions that all hold, or a list."""
    relations = [item for item in items if isinstance(item, Relation)]
    if len(relations) < len(items):
        return "set" if "or" in between and not relations else "bare"
    inequalities = any(map(_is_inequality, items))
    if "or" in between and (inequalities or len({item.sides[0] for item in relations}) > 1):
        return "union"
    return "both" if "and" in between and all(map(_is_inequality, items)) else "bare"


def _proper_fraction(part: Node | None) -> Fraction | None:
    match part:
        case Apply("*", (Number(top), Apply("inv", (Number(bottom),)))):
            if top.denominator == bottom.denominator == 1 and 0 < top < bottom:
                return top / bottom
    return None


def _is_condition(node: Node, letters: frozenset[str]) -> bool:
    """Whether a node only restricts a parameter or one of an expression's letters."""
    match node:
        case Relation((Symbol(), Symbol("ℤ" | "ℕ" | "ℝ" | "ℚ")), ("∈",)):
            return True
        case Relation((Symbol(name), bound), ("≠" | ">" | "≥" | "<" | "≤",)):
            return name in letters and not names_of(bound)
    return False


def _integer(conditions: list[Node], members: list[Node]) -> Symbol | None:
    """The letter that is an integer by its only condition, if the members only restrict it."""
    match conditions:
        case [Relation((Symbol() as letter, Symbol("ℤ")), ("∈",))] if all(map(_is_inequality, members)):
            return letter if all(names_of(member) == {letter.name} for member in members) else None
    return None


def _compound_quantity(first: Node, second: Node) -> Quantity | None:
    """``5 feet 6 inches`` as one quantity; None unless the second unit is a smaller one of the same kind."""
    if not (isinstance(first, Quantity) and isinstance(second, Quantity) and first.unit.powers == second.unit.powers):
        return None
    if second.unit.factor >= first.unit.factor:
        return None
    rest = Apply("*", (second.value, Number(second.unit.factor / first.unit.factor)))
    return Quantity(Apply("+", (first.value, rest)), first.unit)


def _is_inequality(node: Node) -> bool:
    return isinstance(node, Relation) and not set(node.signs) & {"=", "≈"}
