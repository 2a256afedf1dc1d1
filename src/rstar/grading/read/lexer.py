r"""Tokenizer of normal forms (see `rstar.grading.read.normal`), for LaTeX and ASCII alike.

Kinds: `num` (a literal with its exact value), `sym` (a variable), `fn` (a function), `indexed` (a sum or product sign),
`word` (a unit, or text), `op` (a sign, bracket or separator, in one spelling each), `named` (a mark that makes letters
a name), `begin`/`end` (of a matrix). Runs of letters are classified here: functions, constants, Greek letters and units
are words of the language, short runs are products of variables, everything else is a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from rstar.grading.read import units
from rstar.grading.read.vocabulary import (
    CONSTANTS,
    FORMULA_WORDS,
    FUNCTIONS,
    GREEK,
    HAN,
    INDEXED_OPERATIONS,
    NAMING_MARKS,
    OPERATORS,
    OTHER_COMMANDS,
    TEXT_WORDS,
)

MAX_LENGTH = 2_000
MAX_DIGITS = 2_000


class UnreadableError(ValueError):
    """The text is not in the grader's language; the message says why."""


class TooLargeError(UnreadableError):
    """The text, or a value in it, exceeds a limit on size or depth."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `spaced`: a space precedes it. `value`, `places`: of a `num`, as in `Number`."""

    kind: str
    text: str
    spaced: bool = False
    value: Fraction = Fraction(0)
    places: int = -1


_FUSED = re.compile(r"(sin|cos|tan|cot|sec|csc|ln|log|sqrt|pi)([xyzABC]?)")

_DIGITS = r"\d+(?:\.\d*)?|\.\d+"
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<repeating>\d*\.\d*\\(?:overline|bar|dot)\s*\{?\s*(?P<period>\d+)\}?)"
    r"|(?P<thousands>\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?)"
    r"|(?P<scientific>(?:" + _DIGITS + r")[eE][+-]?\d{1,3}(?![\d.A-Za-z]))"
    r"|(?P<num>" + _DIGITS + r")"
    r"|\\mathbb\s*\{(?P<double>[RZNQC])\}"
    r"|\\(?:text|textbf|textnormal|textrm|textit|mbox|mathrm|mathbf|mathit|mathsf|mathcal|mathbb|operatorname\*?|rm|bf)"
    r"\s*\{(?P<body>[^{}]*)\}"
    r"|\\begin\s*\{(?P<begin>[pbBvV]?matrix|cases)\}|\\end\s*\{(?P<end>[pbBvV]?matrix|cases)\}"
    r"|\\(?P<command>[A-Za-z]+)"
    r"|(?P<word>[^\W\d_]+'*)"
    r"|(?P<op>\\\\|\\\{|\\\}|\\_|\*\*|<=|>=|!=|==|\\&|[-+*/^_!%()\[\]{}|<>=:,;&'])"
)
_FIXED = {name: ("fn", text) for name, text in FUNCTIONS.items()}
_FIXED |= {name: ("sym", text) for name, text in CONSTANTS.items()}
_WORDS = _FIXED | {name: ("sym", name) for name in GREEK}
_COMMANDS = _FIXED | {name: ("op", sign) for name, sign in OPERATORS.items()}
_COMMANDS |= {name: ("sym", name.removeprefix("var")) for name in GREEK}
_COMMANDS |= {name: ("indexed", name) for name in INDEXED_OPERATIONS} | {name: ("named", name) for name in NAMING_MARKS}
"""Kind and text of the tokens that words and commands stand for."""
_HAN = re.compile(f"[{HAN}]")
_SHORT_WORDS = frozenset(word for word in TEXT_WORDS if len(word) == 2)
_SIGNS = ("+", "-", "=", "^")
_DOUBLE = dict(zip("RZNQC", "ℝℤℕℚℂ", strict=True))
_SPELLINGS = {"**": "^", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", ";": ",", "\\&": "and"}


def tokens(form: str, *, thousands: bool = True) -> list[Token]:
    """Split a normal form into tokens.

    Args:
        form: the normal form.
        thousands: read ``1,234`` outside brackets as one number rather than a list of two.

    Raises:
        UnreadableError: the form is too long, or has a character or command outside the language.
    """
    if len(form) > MAX_LENGTH:
        raise TooLargeError("too long")
    found: list[Token] = []
    position, depth, spaced = 0, 0, False
    while position < len(form):
        match = _TOKEN.match(form, position)
        if match is None:
            raise UnreadableError(f"unexpected {form[position]!r}")
        if match["thousands"] and (depth or not thousands):
            match = re.compile(r"(?P<num>\d+)").match(form, position)
            assert match is not None
        start, position = position, match.end()
        if match.lastgroup == "space":
            spaced = True
            continue
        if match.lastgroup == "word" and match[0] in _SHORT_WORDS and _between_signs(form, start, position):
            new = [Token("sym", letter) for letter in match[0]]
        else:
            new = _read(match, spaced)
        if found and new and new[0].kind == "sym" and _is_unit(found[-1], new[0], match["body"] is not None):
            new = [Token("word", t.text, spaced) if t.text in units.LETTERS else t for t in new]
        if found and found[-1].text == "in" and found[-1].kind == "word" and new and _is_set(new[0]):
            found[-1] = Token("op", "∈", found[-1].spaced)
        found += new
        depth += sum((t.text in "([" or t.text == "\\{") - (t.text in ")]" or t.text == "\\}") for t in new)
        spaced = False
    return found


def _between_signs(form: str, start: int, end: int) -> bool:
    """Whether letters stand beside an operator and so are not a word: ``ax + by``."""
    return form[:start].rstrip()[-1:] in _SIGNS or form[end:].lstrip()[:1] in _SIGNS


def _is_unit(before: Token, letter: Token, upright: bool) -> bool:
    """Whether a single letter is a unit: 25 °C, or 5 m with the letter marked as text."""
    if before.text == "°":
        return letter.text in ("C", "F")
    return upright and letter.text in units.LETTERS and (before.kind in ("num", "word") or before.text == "}")


def _is_set(token: Token) -> bool:
    """Whether the token after the word "in" starts a set, so that the word is not a unit."""
    return token.text in ("(", "[", "]", "{", "\\{", "∅") or token.text in _DOUBLE.values()


def _read(match: re.Match[str], spaced: bool) -> list[Token]:
    groups = match.groupdict()
    if (number := groups.get("num") or groups.get("thousands") or groups.get("scientific")) is not None:
        return [_number(number.replace(",", ""), spaced)]
    if groups["repeating"]:
        return [Token("num", match[0], spaced, _repeating(match[0], match["period"]))]
    if groups["double"]:
        return [Token("sym", _DOUBLE[groups["double"]], spaced)]
    if groups["body"] is not None:
        return _text(groups["body"], spaced)
    if groups["begin"] or groups["end"]:
        return [Token("begin" if groups["begin"] else "end", groups["begin"] or groups["end"], spaced)]
    if groups["command"]:
        return _command(groups["command"], spaced)
    if groups["word"]:
        return _letters(groups["word"], spaced)
    return [Token("op", _SPELLINGS.get(match[0], match[0]), spaced)]


def _number(text: str, spaced: bool) -> Token:
    if len(text) > MAX_DIGITS:
        raise TooLargeError("a number with too many digits")
    mantissa, _, exponent = text.lower().partition("e")
    places = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return Token("num", text, spaced, Fraction(text if text[-1] != "." else text[:-1]), max(places, 0))


def _repeating(text: str, period: str) -> Fraction:
    whole, _, rest = text.partition(".")
    lead = rest[: rest.index("\\")]
    if len(text) > MAX_DIGITS:
        raise TooLargeError("a number with too many digits")
    fixed = Fraction(int((whole or "0") + lead), 10 ** len(lead))
    return fixed + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(lead))


def _text(body: str, spaced: bool) -> list[Token]:
    found: list[Token] = []
    for piece in re.findall(r"[^\W\d_]+|\d+(?:\.\d+)?|[^\s.\\]", body):
        if piece in FUNCTIONS:
            found.append(Token("fn", FUNCTIONS[piece], spaced))
        elif piece.isalpha():
            text = piece.lower() if piece.lower() in ("and", "or") else piece
            kind = "op" if text in ("and", "or") else "sym" if len(text) == 1 else "word"
            found.append(Token(kind, text, True))
        elif piece[0].isdigit():
            found.append(_number(piece, spaced))
        else:
            found.append(Token("op", piece, spaced))
    return found


def _command(name: str, spaced: bool) -> list[Token]:
    if name in _COMMANDS:
        return [Token(*_COMMANDS[name], spaced)]
    if name not in OTHER_COMMANDS:
        for end in range(len(name) - 1, 1, -1):  # \pix, \cosx: a command that lost its space
            if name[:end] in FORMULA_WORDS or name[:end] in OPERATORS:
                return [*_command(name[:end], spaced), *_letters(name[end:], False)]
    raise UnreadableError(f"unknown command \\{name}")


def _letters(run: str, spaced: bool) -> list[Token]:
    bare = run.rstrip("'")
    lower = bare.lower()
    if bare in _WORDS:
        return [Token(*_WORDS[bare], spaced)]
    if len(bare) == 1:
        return [Token("word" if _HAN.match(bare) else "sym", run, spaced)]
    if lower in ("and", "or"):
        return [Token("op", lower, spaced)]
    if units.is_known(bare) or lower == "sq":
        return [Token("word", bare, spaced)]
    if (fused := _FUSED.fullmatch(bare)) is not None:
        return [*_letters(fused[1], spaced), *_letters(fused[2], False)]
    if len(bare) > 3 or lower in TEXT_WORDS or not bare.isascii():
        return [Token("word", bare, spaced)]
    return [Token("sym", letter, spaced and not i) for i, letter in enumerate(bare)]


END = Token("end of text", "")


class Stream:
    """Tokens read from left to right; the end can be peeked at, but not taken."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.at = 0

    @property
    def peek(self) -> Token:
        """The next token, or `END`."""
        return self.tokens[self.at] if self.at < len(self.tokens) else END

    def ahead(self, offset: int) -> Token:
        """The token `offset` places after the next one, or `END`."""
        at = self.at + offset
        return self.tokens[at] if at < len(self.tokens) else END

    def next(self) -> Token:
        """Take the next token; raises UnreadableError at the end."""
        token = self.peek
        if token is END:
            raise UnreadableError("unexpected end")
        self.at += 1
        return token

    def op(self, *texts: str) -> bool:
        """Whether the next token is one of these signs."""
        return self.peek.kind == "op" and self.peek.text in texts

    def take(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs."""
        if self.op(*texts):
            self.at += 1
            return True
        return False

    def expect(self, *texts: str) -> str:
        """Take one of these signs; raises UnreadableError if the next token is another."""
        token = self.next()
        if token.kind != "op" or token.text not in texts:
            raise UnreadableError(f"{texts[0]!r} expected, {token.text!r} found")
        return token.text
