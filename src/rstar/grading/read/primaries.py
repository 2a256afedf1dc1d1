r"""Parser of primaries: numerals, names, functions, brackets, matrices.

The other half of the parser, `rstar.grading.read.parser`, combines the values.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from rstar.grading.read import units
from rstar.grading.read.lexer import END, Stream, Token, TooLargeError, UnreadableError
from rstar.grading.read.nodes import (
    Apply,
    Group,
    Interval,
    Kind,
    Matrix,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    Text,
    names_of,
    plain,
)
from rstar.grading.read.series import indexed_operation
from rstar.grading.read.vocabulary import CARDINALS, FUNCTIONS

MAX_DEPTH = 60
MAX_DETERMINANT_SIZE = 4
_CLOSERS = {"(": ")", "[": "]", "\\{": "\\}", "{": "}"}
_ROUNDING = {"⌊": ("floor", "⌋"), "⌈": ("ceil", "⌉")}


class Primaries(Stream):
    """A token stream that parses one primary at a time."""

    # defined by the other half of the parser
    _items: Callable[[], tuple[list[Node], Kind]]
    _item: Callable[[], Node]
    _sum: Callable[[], Node]
    _product: Callable[[], Node]
    _factor: Callable[[], Node]

    def __init__(self, found: list[Token], *, decadic: bool = False) -> None:
        super().__init__(found)
        self._depth = 0
        self._bars = 0  # open absolute values: a "|" after a value then closes one
        self._decadic = decadic

    def _primary(self) -> Node:
        token = self.next()
        match token.kind:
            case "num":
                return self._numeral(token)
            case "sym":
                return self._symbol(token)
            case "fn":
                return self._function(token.text)
            case "indexed":
                return self._indexed_operation(token.text)
            case "begin":
                return self._cases() if token.text == "cases" else self._matrix(token.text)
            case "named":
                return self._named(token.text)
            case "op" if token.text in _CLOSERS or token.text == "]":
                return self._bracket(token.text)
            case "op" if token.text == "∅":
                return Group("set", ())
            case "op" if token.text == "|":
                self._bars += 1
                inner = self._sum()
                self.expect("|")
                self._bars -= 1
                return Apply("abs", (plain(inner),))
            case "op" if token.text in _ROUNDING:
                name, closer = _ROUNDING[token.text]
                inner = self._sum()
                self.expect(closer)
                return Apply(name, (plain(inner),))
            case "word" if self.peek.kind == "num" and token.text in units.CURRENCIES:
                return Quantity(self._factor(), units.UNITS[token.text])
        raise UnreadableError(f"unexpected {token.text!r}")

    def _numeral(self, token: Token) -> Node:
        base = self._base()
        if base in (None, "10"):
            return Number(token.value, token.places)
        return Symbol(f"{token.text.lstrip('0')} in base {base}")

    def _base(self) -> str | None:
        """The base of the preceding numeral: ``_8``, ``_{eight}``, ``_{\\text{base } 8}``; in digits if possible."""
        if not self.take("_"):
            return None
        text = self._braced_text().lower().removeprefix("base")
        return str(CARDINALS.get(text, text))

    def _symbol(self, token: Token) -> Node:
        name = token.text
        if self.take("_"):
            name += "_" + self._braced_text()
        while self.take("'"):
            name += "'"
        letter = name.partition("_")[0].rstrip("'")
        plain_name = name.rstrip("'") in ("f", "F")
        if plain_name or (letter in ("f", "F", "g", "h", "G", "H") and self._is_argument()):
            return self._call(name)
        return Symbol(name)

    def _is_argument(self) -> bool:
        """Whether a bracket follows that holds only one variable letter, or starts with another function."""
        letter = self.ahead(1)
        return letter.kind == "sym" and (
            letter.text in "fgh" or (letter.text in "xyztun" and self.ahead(2).text == ")")
        )

    def _call(self, name: str) -> Node:
        """An unknown function of the bracket behind it, or only its name."""
        if not self.op("("):
            return Symbol(name)
        inside = self._within_depth(self.next().text)
        args = inside.items if isinstance(inside, Group) and inside.kind == "tuple" else (inside,)
        return Apply("call", (Symbol(name), *map(plain, args)))

    def _braced_text(self) -> str:
        """The text of the next token, or of all tokens in braces."""
        if not self.take("{"):
            return self.next().text
        inside = ""
        while not self.take("}"):
            inside += self.next().text
        return inside

    def _named(self, mark: str) -> Node:
        """A named object such as a line ``\\overline{CD}``: a symbol, whatever the letters mean elsewhere."""
        braced = self.op("{")
        inside = self._braced_text()
        while not braced and self.peek.kind == "sym":
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
        if name == "lg" or (name == "log" and base is None and self._decadic):
            name, base = "log", Number(Fraction(10))
        called: Node
        if name in ("exp", "cis"):
            turned = argument if name == "exp" else Apply("*", (Symbol("i"), argument))
            called = Apply("^", (Symbol("e"), turned))
        else:
            called = Apply("ln" if name == "log" and base is None else name, (argument, *([base] if base else ())))
        return called if power is None else Apply("^", (called, power))

    def _argument(self) -> Node:
        """The argument of a function: a bracket, or the product up to the next function."""
        if self.op("(", "[", "{"):
            return plain(self._within_depth(self.next().text))
        factors: list[Node] = []
        if self.peek.kind == "fn" or self.op("-", "|", "⌊", "⌈"):
            return plain(self._factor())
        while self.peek.kind in ("num", "sym"):
            factors.append(plain(self._factor()))
            if self.op("/") and self.ahead(1).kind in ("num", "sym"):
                self.at += 1
                factors.append(Apply("inv", (plain(self._factor()),)))
        if not factors:
            raise UnreadableError("a function without an argument")
        return factors[0] if len(factors) == 1 else Apply("*", tuple(factors))

    def _root(self) -> Node:
        index: Node = Number(Fraction(2))
        if self.take("["):
            index = plain(self._sum())
            self.expect("]")
        return Apply("root", (self._one_token_or_braces(), index))

    def _one_token_or_braces(self) -> Node:
        if self.op("(", "{"):
            return plain(self._within_depth(self.next().text))
        if self.op("-"):
            return plain(self._factor())
        return plain(self._primary())

    def _fraction_part(self) -> Node:
        token = self.peek
        if token.kind == "num" and len(token.text) > 1 and token.text.isdigit():  # \frac12 takes one digit each
            digits = (token.text[0], token.text[1:])
            self.tokens[self.at : self.at + 1] = [Token("num", part, value=Fraction(part)) for part in digits]
        return self._one_token_or_braces()

    def _indexed_operation(self, name: str) -> Node:
        """Parse ``\\sum_{k=1}^{n}`` with the product that follows."""
        below: Node | None = None
        above: Node | None = None
        while self.op("_", "^"):
            if self.take("^"):
                above = self._one_token_or_braces()
            elif self.next() and self.take("{"):
                below = self._item()
                self.expect("}")
            else:
                below = Symbol(self.next().text)
        return indexed_operation(name, below, above, plain(self._product()))

    # --- brackets ----------------------------------------------------------------------------------------------

    def _within_depth(self, opener: str) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooLargeError("nested too deeply")
        node = self._bracket(opener)
        self._depth -= 1
        return node

    def _bracket(self, opener: str) -> Node:
        bars, self._bars = self._bars, 0
        usual = _CLOSERS.get(opener, "[")
        closers = {"(": (")", "]"), "[": ("]", ")", "["), "]": ("[", "]")}.get(opener, (usual,))
        if self.take(usual):
            return Group("list" if opener == "[" else "set", ())
        if opener == "\\{" and self.peek.kind == "sym" and self.ahead(1).text in ("|", ":", "∈"):
            return self._described_set()
        items, _ = self._items()
        closer = self.expect(*closers)
        self._bars = bars
        if closer != usual or opener == "]":
            if len(items) != 2:
                raise UnreadableError("brackets do not match")
            return Interval(plain(items[0]), plain(items[1]), opener == "[", closer == "]")
        if len(items) == 1 and opener in ("(", "{"):
            only = items[0]
            if isinstance(only, Number) and only.places == 0 and opener == "(" and self.op("_"):
                return Symbol(f"{only.value} in base {self._base()}")
            return only
        kinds: dict[str, Kind] = {"(": "tuple", "[": "list", "{": "set", "\\{": "set"}
        return Group(kinds[opener], tuple(items))

    def _described_set(self) -> Node:
        """Parse the rest of ``{x ∈ ℝ : 1 < x}`` after its bracket.

        ``{x : x = 2k, k ∈ ℤ}`` and ``{n ∈ ℤ : n > 1}`` are families.
        """
        name = Symbol(self.next().text)
        domain: Node = Symbol("ℝ")
        if self.take("∈"):
            domain = self._sum()
            if self.take("\\}"):
                return Relation((name, domain), ("∈",))
            if domain not in (Symbol("ℝ"), Symbol("ℤ")):
                raise UnreadableError("a set of other than real numbers")
        self.expect("|", ":")
        items, kind = self._items()
        self.expect("\\}")
        match items:
            case [Relation((first, expression), ("=",)), Relation((Symbol(), Symbol("ℤ" | "ℕ")), ("∈",)), *_] if (
                first == name and domain == Symbol("ℝ")
            ):
                return Group("given", (expression, *items[1:]))
        if domain == Symbol("ℤ"):
            if (
                not all(isinstance(item, Relation) and names_of(item) == {name.name} for item in items)
                or kind == "union"
            ):
                raise UnreadableError("a set of integers by an unknown condition")
            return Group("given", (name, Relation((name, domain), ("∈",)), *items))
        condition = items[0] if len(items) == 1 else Group(kind, tuple(items))
        return Group("described", (name, condition))

    def _cases(self) -> Node:
        """Parse a piecewise function: rows of a value and its condition."""
        pieces: list[Node] = []
        while self.peek.kind != "end":
            value = self._item()
            self.expect("&")
            while self.peek.text in ("if", "when", "for"):
                self.next()
            if self.peek.text in ("otherwise", "else", "elsewhere"):
                self.next()
                condition: Node = Text("otherwise")
            else:
                condition = self._when()
            pieces.append(Group("tuple", (value, condition)))
            if not self.take("\\\\"):
                break
        if self.next().kind != "end":
            raise UnreadableError("not a function in pieces")
        return Group("cases", tuple(pieces))

    def _when(self) -> Node:
        """Parse a condition up to the end of its row: in symbols, or in words ("n even")."""
        start = self.at
        try:
            items, kind = self._items()
            if self.peek.kind == "end" or self.op("\\\\"):
                return items[0] if len(items) == 1 else Group(kind, tuple(items))
        except UnreadableError:
            pass
        self.at = start
        parts: list[str] = []
        while self.peek is not END and self.peek.kind != "end" and not self.op("\\\\"):
            parts.append(self.next().text)
        return Text(" ".join(word for word in parts if word != "is"))

    def _matrix(self, brackets: str) -> Node:
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
        if brackets not in ("vmatrix", "Vmatrix"):
            return Matrix(tuple(rows))
        if brackets == "Vmatrix" or len(rows) != len(rows[0]) or len(rows) > MAX_DETERMINANT_SIZE:
            raise UnreadableError("not a determinant")
        return _determinant(rows)


def _determinant(rows: list[tuple[Node, ...]]) -> Node:
    if len(rows) == 1:
        return plain(rows[0][0])
    terms = []
    for column, entry in enumerate(rows[0]):
        minor = _determinant([row[:column] + row[column + 1 :] for row in rows[1:]])
        terms.append(Apply("*", (Number(Fraction((-1) ** column)), plain(entry), minor)))
    return Apply("+", tuple(terms))
