r"""Reading an answer: a recursive-descent parser from tokens to `rstar.grading.nodes`.

    answer    := item ((","|"and"|"or") item)*            without brackets: a `bare` list
    item      := side (relation-sign side)*
    side      := sum ("∪" sum)* [":" sum]… [unit]
    sum       := ["-"|"+"|"±"] product (("+"|"-"|"±") product)*
    product   := factor (("*"|"/"|nothing) factor)*       "/" binds like "*", from the left
    factor    := primary ("!"|"'")* ["^" factor]

Context decides as a reader would: ``2\frac58`` and ``2 5/8`` are mixed numbers, ``\frac12`` takes one digit each,
``x^10`` means the tenth power, ``{1, 2}`` is a set and ``{1}`` only groups, ``25_8`` is a numeral in base 8, words
after a value are its unit. Nothing is evaluated. Depth and size are limited, so any text costs milliseconds at most.
"""

from __future__ import annotations

from fractions import Fraction

from rstar.grading.lexer import END, Stream, Token, TooLargeError, UnreadableError, tokens
from rstar.grading.nodes import Apply, Group, Interval, Kind, Matrix, Node, Number, Quantity, Relation, Symbol, minus
from rstar.grading.vocabulary import FUNCTIONS, NO_UNITS, SCALES, unit_name

DEEPEST = 24
_RELATIONS = frozenset("=<>≤≥≠∈≈")
_SEPARATORS = frozenset({",", "and", "or"})
_CLOSERS = {"(": ")", "[": "]", "\\{": "\\}", "{": "}"}
_ROUNDING = {"⌊": ("floor", "⌋"), "⌈": ("ceil", "⌉")}


def parse(form: str, *, thousands: bool = True) -> Node:
    """The tree of a normal form.

    Args:
        form: a normal form (`rstar.grading.normal.normal`).
        thousands: read ``1,234`` outside of brackets as one number instead of a list of two.

    Raises:
        UnreadableError: the text is not in the language, or too long or too deep.
    """
    parser = _Parser(tokens(form, thousands=thousands))
    node = parser.answer()
    if parser.peek is not END:
        raise UnreadableError(f"unexpected {parser.peek.text!r}")
    return node


class _Parser(Stream):
    def __init__(self, found: list[Token]) -> None:
        super().__init__(found)
        self._depth = 0
        self._bars = 0  # absolute values that are open: a "|" after a value then closes

    # --- values together ---------------------------------------------------------------------------------------

    def answer(self) -> Node:
        items, either = self._items()
        if len(items) == 1:
            return items[0]
        return Group("union" if either and all(_is_inequality(item) for item in items) else "bare", tuple(items))

    def _items(self) -> tuple[list[Node], bool]:
        """Items up to a closing bracket or the end, and whether an "or" stood between them."""
        items, either = [self._item()], False
        while self.peek.kind == "op" and self.peek.text in _SEPARATORS:
            while self.peek.kind == "op" and self.peek.text in _SEPARATORS:
                either |= self.next().text == "or"
            items.append(self._item())
        return items, either

    def _item(self) -> Node:
        sides, signs = [self._side()], []
        while self.peek.kind == "op" and self.peek.text in _RELATIONS:
            sign = self.next().text
            side = self._side()
            if sign == "≈":  # what follows is a rounding of what has been said exactly
                break
            signs.append(sign)
            sides.append(side)
        return Relation(tuple(sides), tuple(signs)) if signs else sides[0]

    def _side(self) -> Node:
        node = self._with_unit(self._sum())
        for sign, kind in (("∪", "union"), (":", "ratio")):
            if self.op(sign):
                parts = [node]
                while self.take(sign):
                    parts.append(self._sum())
                node = Group("union" if kind == "union" else "ratio", tuple(parts))
        return node

    def _with_unit(self, node: Node) -> Node:
        if self.take("%"):
            node = Quantity(node, "%")
        if self.peek.kind != "word":
            return node
        if isinstance(node, Symbol):
            raise UnreadableError("a letter before a word: prose")
        while (scale := SCALES.get(unit_name(self.peek.text))) is not None:
            self.next()
            node = Apply("*", (_plain(node), Number(Fraction(scale))))
        unit: list[str] = []
        while self.peek.kind == "word" or self.op("^", "/"):
            token = self.next()
            if token.kind == "word":
                unit.append(unit_name(token.text))
                if unit[-1] in NO_UNITS:
                    raise UnreadableError(f"{token.text!r} is no unit")
            elif token.text == "^":
                braced = self.take("{")
                unit.append("^" + self.next().text)
                if braced:
                    self.expect("}")
            else:
                unit.append("per")
        if not unit:
            return node
        if isinstance(node, Quantity):
            return Quantity(node.value, f"° {_unit(unit)}") if node.unit == "°" else node
        return Quantity(node, _unit(unit))

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
                terms = [Apply("±", (node, term if sign == "±" else minus(term)))]
            else:
                terms.append(minus(term) if sign == "-" else term)
            if not self.op("+", "-", "±", "∓"):
                break
        return terms[0] if len(terms) == 1 else Apply("+", tuple(map(_plain, terms)))

    def _product(self) -> Node:
        factors = [self._first_factor()]
        literal = isinstance(factors[0], Number) and self.at and self.tokens[self.at - 1].kind == "num"
        while True:
            if self.take("*"):
                factors.append(self._factor())
            elif self.take("/"):
                if self.peek.kind == "word" and isinstance(factors[-1], Quantity):
                    self.at -= 1
                    break
                factors.append(Apply("inv", (_plain(self._factor()),)))
            elif self._starts_value():
                if literal and len(factors) == 1 and self.peek.kind == "num":
                    raise UnreadableError("two numbers side by side")
                factors.append(self._factor())
            else:
                break
        return factors[0] if len(factors) == 1 else Apply("*", tuple(map(_plain, factors)))

    def _first_factor(self) -> Node:
        """A factor, or a mixed number: a whole number right before a proper fraction of whole numbers."""
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
        fraction = _proper(part)
        if fraction is None:
            self.at = mark
            return whole
        return Number(whole.value + fraction)

    def _starts_value(self) -> bool:
        token = self.peek
        if token.kind in ("num", "sym", "fn", "begin", "named"):
            return True
        return token.kind == "op" and (
            token.text in ("(", "[", "{", "⌊", "⌈") or (token.text == "|" and not self._bars)
        )

    def _factor(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
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
        marks = 0
        while self.take("!"):
            marks += 1
            if marks > 2:
                raise TooLargeError("too many factorial signs")
            node = Apply("factorial", (_plain(node),))
        if self.take("°"):
            return Quantity(node, "°")
        if not self.take("^"):
            return node
        if self.take("°") or self._degree_in_braces():
            return Quantity(node, "°")
        return Apply("^", (_plain(node), _plain(self._factor())))

    def _degree_in_braces(self) -> bool:
        if self.op("{") and self.ahead(1).text == "°" and self.ahead(2).text == "}":
            self.at += 3
            return True
        return False

    def _primary(self) -> Node:
        token = self.next()
        match token.kind:
            case "num":
                return self._numeral(token)
            case "sym":
                return self._symbol(token)
            case "fn":
                return self._function(token.text)
            case "begin":
                return self._matrix(token.text)
            case "named":
                return self._named(token.text)
            case "op" if token.text in _CLOSERS:
                return self._bracket(token.text)
            case "op" if token.text == "∅":
                return Group("set", ())
            case "op" if token.text == "|":
                self._bars += 1
                inner = self._sum()
                self.expect("|")
                self._bars -= 1
                return Apply("abs", (_plain(inner),))
            case "op" if token.text in _ROUNDING:
                name, closer = _ROUNDING[token.text]
                inner = self._sum()
                self.expect(closer)
                return Apply(name, (_plain(inner),))
            case "word" if self.peek.kind == "num" and token.text in ("USD", "EUR", "GBP"):
                return Quantity(self._factor(), token.text)
        raise UnreadableError(f"unexpected {token.text!r}")

    def _numeral(self, token: Token) -> Node:
        if self.take("_"):
            return Symbol(f"{token.text} in base {self._subscript()}")
        return Number(token.value, token.places)

    def _symbol(self, token: Token) -> Node:
        name = token.text
        if self.take("_"):
            name += "_" + self._subscript()
        while self.take("'"):
            name += "'"
        return Symbol(name)

    def _subscript(self) -> str:
        if not self.take("{"):
            return self.next().text
        inside = ""
        while not self.take("}"):
            inside += self.next().text
        return inside

    def _named(self, mark: str) -> Node:
        """A thing with a name, such as a line ``\\overline{CD}``: a symbol, whatever the letters mean elsewhere."""
        if self.op("{"):
            self.at += 1
            inside = ""
            while not self.take("}"):
                inside += self.next().text
        else:
            inside = self.next().text
            while self.peek.kind == "sym":
                inside += self.next().text
        return Symbol(f"{mark} {inside}")

    # --- functions ---------------------------------------------------------------------------------------------

    def _function(self, name: str) -> Node:
        match name:
            case "frac":
                top = self._fraction_part()
                return Apply("*", (top, Apply("inv", (self._fraction_part(),))))
            case "binom":
                return Apply("binom", (self._fraction_part(), self._fraction_part()))
            case "sqrt":
                return self._root()
            case "cbrt":
                return Apply("root", (self._argument(), Number(Fraction(3))))
        base: Node | None = None
        power: Node | None = None
        if name == "log" and self.take("_"):
            base = self._one_token_or_braces()
        if self.take("^"):
            power = self._one_token_or_braces()
        if power == Number(Fraction(-1)) and f"arc{name}" in FUNCTIONS.values():
            name, power = f"arc{name}", None
        argument = self._argument()
        if name == "lg":
            name, base = "log", Number(Fraction(10))
        called: Node
        if name == "exp":
            called = Apply("^", (Symbol("e"), argument))
        else:
            called = Apply("ln" if name == "log" and base is None else name, (argument, *([base] if base else ())))
        return called if power is None else Apply("^", (called, power))

    def _argument(self) -> Node:
        """What a function is applied to: a bracket, or the product that follows up to the next function."""
        if self.op("(", "[", "{"):
            return _plain(self._within_depth(self.next().text))
        factors: list[Node] = []
        if self.peek.kind == "fn":
            return _plain(self._factor())
        if self.op("-", "|", "⌊", "⌈"):
            return _plain(self._factor())
        while self.peek.kind in ("num", "sym"):
            factors.append(_plain(self._factor()))
            if self.op("/") and self.ahead(1).kind in ("num", "sym"):
                self.at += 1
                factors.append(Apply("inv", (_plain(self._factor()),)))
        if not factors:
            raise UnreadableError("a function without an argument")
        return factors[0] if len(factors) == 1 else Apply("*", tuple(factors))

    def _root(self) -> Node:
        index: Node = Number(Fraction(2))
        if self.take("["):
            index = _plain(self._sum())
            self.expect("]")
        return Apply("root", (self._one_token_or_braces(), index))

    def _one_token_or_braces(self) -> Node:
        if self.op("(", "{"):
            return _plain(self._within_depth(self.next().text))
        if self.op("-"):
            return _plain(self._factor())
        return _plain(self._primary())

    def _fraction_part(self) -> Node:
        token = self.peek
        if token.kind == "num" and len(token.text) > 1 and token.text.isdigit():  # \frac12 takes one digit each
            rest = token.text[1:]
            self.tokens[self.at] = Token("num", rest, False, Fraction(rest))
            return Number(Fraction(token.text[0]))
        return self._one_token_or_braces()

    # --- brackets ----------------------------------------------------------------------------------------------

    def _within_depth(self, opener: str) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooLargeError("nested too deeply")
        node = self._bracket(opener)
        self._depth -= 1
        return node

    def _bracket(self, opener: str) -> Node:
        bars, self._bars = self._bars, 0
        closers = {"(": (")", "]"), "[": ("]", ")")}.get(opener, (_CLOSERS[opener],))
        if self.take(_CLOSERS[opener]):
            return Group("list" if opener == "[" else "set", ())
        items, _ = self._items()
        closer = self.expect(*closers)
        self._bars = bars
        if closer != _CLOSERS[opener]:
            if len(items) != 2:
                raise UnreadableError("brackets do not match")
            return Interval(_plain(items[0]), _plain(items[1]), opener == "[", closer == "]")
        if len(items) == 1 and opener in ("(", "{"):
            return items[0]
        kinds: dict[str, Kind] = {"(": "tuple", "[": "list", "{": "set", "\\{": "set"}
        return Group(kinds[opener], tuple(items))

    def _matrix(self, brackets: str) -> Node:
        if brackets in ("vmatrix", "Vmatrix"):
            raise UnreadableError("a determinant")
        rows: list[tuple[Node, ...]] = []
        row: list[Node] = []
        while self.peek.kind != "end":
            row.append(self._item())
            if self.take("&"):
                continue
            rows.append(tuple(row))
            row = []
            if not self.take("\\\\"):
                break
        if self.next().kind != "end" or row or not rows or len({len(row) for row in rows}) != 1:
            raise UnreadableError("not a matrix")
        return Matrix(tuple(rows))


def _plain(node: Node) -> Node:
    """A node as an operand of arithmetic: a bracket around one value only groups."""
    if isinstance(node, Group) and node.kind == "list" and len(node.items) == 1:
        return node.items[0]
    return node


def _proper(part: Node | None) -> Fraction | None:
    match part:
        case Apply("*", (Number(top), Apply("inv", (Number(bottom),)))):
            if top.denominator == bottom.denominator == 1 and 0 < top < bottom:
                return top / bottom
    return None


def _is_inequality(node: Node) -> bool:
    return isinstance(node, Relation) and not set(node.signs) & {"=", "≠"}


def _unit(parts: list[str]) -> str:
    """One name for a unit: ``square cm`` is ``cm ^2``."""
    powers = {"sq": "^2", "cu": "^3"}
    if len(parts) > 1 and parts[0] in powers:
        parts = [*parts[1:], powers[parts[0]]]
    return " ".join(parts)
