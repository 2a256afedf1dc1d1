"""Sentences in Chinese, French, German and Spanish with the function words of English in place of theirs.

Only these words change: "Die Antwort ist nicht 12" becomes "the answer is not 12", which the rules for English
sentences read. Formulas stay as they are. A decimal comma becomes a point in the three languages that have it, but not
in brackets, and not before three digits, where some write it for thousands.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rstar.grading.vocabulary import HAN

_LOOKED_AT = 600
"""Characters at the end of a text that show its language."""
_SHORT = 60
"""Characters of a text that need not have several words of a language."""
_SEVERAL = 3
"""Different common words of a language that show it."""
_FORMULA = r"\$\$.+?\$\$|\$[^$\n]+\$|\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\]|\\[a-z]+\s*\{[^{}]*\}"
_CHINESE = re.compile(f"[{HAN}]")
_BESIDE_HAN = re.compile(rf"(?<=[{HAN}])(?=[\w$\\(\-])(?![{HAN}])|(?<=[\w$)}}%])(?<![{HAN}])(?=[{HAN}])")
_MEASURE = re.compile(rf"(?<=\d)\s*\(\s*[{HAN}]{{1,3}}\s*\)")
_SIGNS = str.maketrans({"，": ", ", "。": ". ", "：": ": ", "；": "; ", "、": ", ", "（": "(", "）": ")", "．": ". "})
_COMMA = re.compile(r"(?<![\d,.(\[{])(\d+),(\d{1,2}|\d{4,})(?![\d,]|\s*[)\]}])")

_ARTICLE = re.compile(r"\bis (not )?(?:(?:la|le|el|die|der|l['’]option|opción|the answer) )+(?=\(?[A-H]\b)")
_UHR = re.compile(r"(?<![\d.,:])(\d{1,2})(?:[.:](\d\d))? Uhr\b")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3})(?=\s?(?:€|EUR|[Ee]uros?)\b)")
_OF = re.compile(r"(?<=\d)( ?[^\W\d_]{1,12})? (?:de|du|des|von|del|d['’]) ?(?=[^\W\d_])")
_UNITS = {"千米": "km", "公里": "km", "厘米": "cm", "毫米": "mm", "分米": "dm", "米": "m"}
_DIGITS = {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}


def _number(said: str) -> int:
    """A number below 100 in Chinese digits: 二十五 is 25."""
    tens, ten, rest = said.rpartition("十")
    return (10 * _DIGITS.get(tens, 1) if ten else 0) + _DIGITS.get(rest, 0)


_CHINESE_WORDS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"【(?:答案|解答)】", " the answer : "),
    (r"不合题意|舍去|矛盾|不成立|错误", " is rejected "),
    (r"百分之(\d+(?:\.\d+)?)", r"\1%"),
    (r"百分之([一二三四五六七八九十]{1,3})", lambda match: f"{_number(match[1])}%"),
    (r"(?<=\d)\s*个?百分点", " pp "),
    (r"(?:上午|早上|凌晨)\s*(\d{1,2}:\d\d)(?!\d)", r" \1 a.m. "),
    (r"(?:下午|晚上)\s*(\d{1,2}:\d\d)(?!\d)", r" \1 p.m. "),
    (r"(?:上午|早上|凌晨)\s*(\d{1,2})\s*[点时](?!\d)", r" \1:00 a.m. "),
    (r"(?:下午|晚上)\s*(\d{1,2})\s*[点时](?!\d)", r" \1:00 p.m. "),
    (r"(?<=\d)\s*分钟", " minutes "),
    (r"(?<=\d)\s*(?:个)?小时", " hours "),
    (r"(?<=\d)\s*秒", " seconds "),
    (r"(?<=\d)\s*天", " days "),
    *((rf"(?<=[\d}}$])\s*平方{name}", rf" {unit}^2 ") for name, unit in _UNITS.items()),
    *((rf"(?<=[\d}}$])\s*立方{name}", rf" {unit}^3 ") for name, unit in _UNITS.items()),
    *((rf"(?<=[\d}}$])\s*{name}", rf" {unit} ") for name, unit in _UNITS.items()),
    (r"综上所述|综上|因此|所以|于是|从而|解得|(?:可以)?得(?:到|出)|故(?!选)", " so "),
    (r"如果|假设|假如|若", " if "),
    (r"因为|由于", " because "),
    (r"(?:故|应|所以)?选择?(?:项)?[:：\s]*(?=\(?[A-H])", " so choose option "),
    (r"正确选项|正确的?选项|选项", " the correct option "),
    (r"(?:正确|最终|最后)?的?答案|答(?=[:：])", " the answer "),
    (r"不可能是?|不[是为等能]于?|并非|没有", " is not "),
    (r"的一半", " divided by 2 "),
    (r"的(?:两|2|二)倍", " times 2 "),
    (r"等于|[是为]", " is "),
    (r"(?<=[\d$)}])\s*或者?\s*", " or "),
    (r"(?<=[\d$)}])\s*[和与]\s*", " and "),
]

_PARTS = {
    "twice the": "le double d(?:e|u)|el doble del?|das Doppelte (?:von|der|des)",
    "half of": "la moitié d(?:e|u)|la mitad del?|die Hälfte (?:von|der|des)",
    "the square of": "le carré d(?:e|u)|el cuadrado del?|das Quadrat (?:von|der|des)",
}
"""Words after which a part or a multiple of something is said, in all three languages."""
_WORDS = {
    "French": {
        "in total": "en tout|au total",
        "is not": r"n['’]\s?(?:est|obtient|égale|a) pas|ne (?:sont|vaut|peut|peuvent)(?: \w+)? pas(?: être)?",
        "there are": "il y a",
        "in": "dans",
        "but": "mais",
        "is rejected": r"(?:est|sont) (?:à rejeter|exclue?s?|rejetée?s?)|à rejeter",
        "is": r"est égale? à|est donc(?: de)?|est de|est|sont|vaut|égale",
        "the answer": r"(?:la |ma )?(?:bonne )?réponse(?: finale| correcte)?",
        "the result": r"(?:le )?résultat(?: final)?",
        "so": "donc|ainsi|par conséquent|alors",
        "if": r"si|s['’]ils?|supposons(?: que)?|soit",
        "because": "car|puisque|parce que?",
        "false": "faux|fausse|incorrecte?",
        "not": "pas|jamais|aucune?",
        "or": "ou",
        "and": "et",
        "has": "reste(?:nt)?|ont",
        "we get": "on (?:obtient|trouve|a)|nous (?:avons|obtenons|trouvons)",
    },
    "German": {
        "in total": "insgesamt",
        "is rejected": "entfällt|fällt weg|ist auszuschließen|wird verworfen|ist zu verwerfen",
        "but": "sondern",
        "the answer is": "(?:richtig|korrekt) (?:ist|sind)",
        "is": r"ist gleich|ist|lautet|beträgt|sind|ergibt|macht",
        "the answer": "(?:die )?(?:richtige |endgültige )?(?:antwort|lösung)",
        "the result": "(?:das )?(?:end)?ergebnis",
        "so": "also|somit|daher|folglich|deshalb|demnach",
        "if": "wenn|falls|angenommen|sei|sofern",
        "because": "weil|denn|da",
        "false": "falsch",
        "not": "nicht|keine?[nrms]?|weder|niemals|nie",
        "or": "oder",
        "and": "und",
        "has": "hat|haben|bleiben|bleibt",
        "costs": "kostet|kosten",
    },
    "Spanish": {
        "in total": "en total",
        "is not": "no (?:es|son|vale)",
        "is rejected": "se (?:descarta|rechaza)n?|(?:es|está) descartad[ao]",
        "but": "sino",
        "in": "en",
        "the answer is": "la correcta es",
        "is": r"es igual a|es de|es|son|vale|equivale a",
        "the answer": "(?:la )?respuesta(?: final| correcta)?",
        "the correct option": "(?:la )?opción correcta",
        "the result": "(?:el )?resultado(?: final)?",
        "so": "por lo tanto|por tanto|entonces|luego|así que",
        "if": "si|supongamos(?: que)?|sea",
        "because": "porque|ya que",
        "false": "fals[ao]",
        "not": "no|nunca|ningún|ninguna",
        "or": r"(?<=[\d$)}] )o(?= [-\d$(\\])",
        "and": r"(?<=[\d$)}] )y(?= [-\d$(\\])",
        "has": "tiene|quedan?|gasta|hay",
    },
}
_STRONG = {
    "French": r"réponse|résultat|donc|vaut|obtient|conséquent|n['’]est|reste|serait|est (?:à|de|une?|la|le)|est -?[\d$]"
    r"|moitié|égale|\w*[èêçàâœ]\w*",
    "German": r"antwort|ergebnis|ist|lautet|somit|nicht|keine?|kostet|dauert|ergibt|zusammen|insgesamt|uhr"
    r"|\w*[äöüß]\w*",
    "Spanish": r"respuesta|resultado|entonces|por lo tanto|por ciento|quedan?|tiene|no se|en total|\w*[áíóúñ]\w*",
}
_COMMON = {
    "French": r"l[ea]s?|l['’]\w+|du|des|une?|est|et|il|lui|on|pas|de|en|sont|dans|que|qui",
    "German": r"d(?:ie|er|as|en|em)|und|noch|von|eine?|mit|es|im|zu|ist|sind",
    "Spanish": r"el|la|los|las|es|una?|se|del?|en|lo|le|son|por|que",
}


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w\\])(?:{words})(?!\w)", re.IGNORECASE)


_IS_STRONG = {name: _pattern(words) for name, words in _STRONG.items()}
_IS_COMMON = {name: _pattern(words) for name, words in _COMMON.items()}
_ALL = {
    name: re.compile(
        rf"(?P<formula>{_FORMULA})|(?<![\w\\])(?:"
        + "|".join(f"(?P<w{at}>{words})" for at, words in enumerate((*_PARTS.values(), *table.values())))
        + r")(?!\w)",
        re.IGNORECASE,
    )
    for name, table in _WORDS.items()
}
_ENGLISH = {name: [*_PARTS, *table] for name, table in _WORDS.items()}
_FROM_CHINESE = [(re.compile(pattern), english) for pattern, english in _CHINESE_WORDS]


def in_english(text: str) -> str:
    """The text with English function words; as it is where it is in none of the languages."""
    if text.isascii() and " " not in text:  # no sentence
        return text
    if not text.isascii() and _CHINESE.search(text) is not None:
        return _from_chinese(text)
    language = _language_of(text[-_LOOKED_AT:])
    if language is None:
        return text
    text = _UHR.sub(lambda match: f"{match[1]}:{match[2] or '00'}", text)
    text = _ALL[language].sub(_translator(language), text)
    for pattern, by in ((_THOUSANDS, r"\1\2"), (_COMMA, r"\1.\2"), (_OF, r"\1 of "), (_ARTICLE, r"is \1")):
        text = pattern.sub(by, text)
    return text


def _language_of(end: str) -> str | None:
    """The language that the end of a text has most words of; None where they are too few."""
    best, most = None, 0
    for language in _WORDS:
        common = {match[0].lower() for match in _IS_COMMON[language].finditer(end)}
        strong = {match[0].lower() for match in _IS_STRONG[language].finditer(end)}
        shown = len(common) >= _SEVERAL or (strong and (common or len(end) < _SHORT))
        if shown and 2 * len(strong) + len(common) > most:
            best, most = language, 2 * len(strong) + len(common)
    return best


def _translator(language: str) -> Callable[[re.Match[str]], str]:
    words = _ENGLISH[language]

    def translated(match: re.Match[str]) -> str:
        if match["formula"] is not None:
            return match[0]
        return words[int((match.lastgroup or "w0")[1:])]

    return translated


def is_chinese_prose(text: str) -> bool:
    """Whether a text is words in Chinese, without a number."""
    return _CHINESE.search(text) is not None and not any(map(str.isdigit, text))


def _from_chinese(text: str) -> str:
    text = _MEASURE.sub("", text.translate(_SIGNS))
    for pattern, english in _FROM_CHINESE:
        text = pattern.sub(english, text)
    return _BESIDE_HAN.sub(" ", text)
