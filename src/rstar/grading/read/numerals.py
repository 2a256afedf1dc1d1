"""Numbers in words of French, German, Spanish, Chinese and English: "dix-huit" is 18, "zwei Drittel" is 2/3, 三分之二.

Only dictionary spellings are read, from 2 (the words for 1 are also articles) to below a million, and only in a last
sentence without digits. Incidental counts stay in words: a number after "les", "diese" or 这, and any number up to
`MAX_INCIDENTAL` ("on compare deux cas") that does not follow a verb of having or being.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rstar.grading.read.number_words import number_in_words
from rstar.grading.read.vocabulary import CARDINALS, word_list

SEARCHED_LENGTH = 600
"""Characters at the end of a text that are searched for numbers in words."""
MAX_INCIDENTAL = 10
"""Numbers up to this one are written in words anywhere in prose."""

Names = dict[str, int]
"""Numbers by name, in lower case, with hyphens for spaces."""


def _french() -> Names:
    units = word_list("un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize")
    units += ["dix-sept", "dix-huit", "dix-neuf"]
    tens = word_list("vingt trente quarante cinquante soixante")
    names = {name: value for value, name in enumerate(units, 1)}
    for ten, word in enumerate(tens, 2):
        highest = 19 if word == "soixante" else 9
        names |= {word: 10 * ten, f"{word}-et-un": 10 * ten + 1}
        names |= {f"{word}-{unit}": 10 * ten + value for value, unit in enumerate(units[:highest], 1)}
    names |= {"soixante-et-onze": 71, "quatre-vingts": 80, "quatre-vingt": 80}
    names |= {f"quatre-vingt-{unit}": 80 + value for value, unit in enumerate(units, 1)}
    below = dict(names)
    for hundreds, word in enumerate(["cent", *(f"{unit}-cent" for unit in units[1:9])], 1):
        names |= {word: 100 * hundreds, f"{word}s": 100 * hundreds}
        names |= {f"{word}-{rest}": 100 * hundreds + value for rest, value in below.items()}
    return names


def _german() -> Names:
    units = word_list("ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf")
    names = {name: value for value, name in enumerate(units, 1)}
    teens = word_list("dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn")
    names |= {name: value for value, name in enumerate(teens, 13)}
    tens = word_list("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
    for ten, word in enumerate(tens, 2):
        names |= {word: 10 * ten}
        names |= {f"{unit}und{word}": 10 * ten + value for value, unit in enumerate(units[:9], 1)}
    below = {**names, "eins": 1}
    for hundreds, word in enumerate(["hundert", *(f"{unit}hundert" for unit in units[1:9])], 1):
        names |= {word: 100 * hundreds} | {f"{word}{rest}": 100 * hundreds + value for rest, value in below.items()}
    return names | {f"ein{name}": value for name, value in names.items() if name.startswith("hundert")}


def _spanish() -> Names:
    units = word_list("uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince")
    units += word_list("dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro")
    units += word_list("veinticinco veintiséis veintisiete veintiocho veintinueve")
    names = {name: value for value, name in enumerate(units, 1)} | {"veintiún": 21, "veintiuna": 21}
    for ten, word in enumerate(word_list("treinta cuarenta cincuenta sesenta setenta ochenta noventa"), 3):
        names |= {word: 10 * ten, f"{word}-y-un": 10 * ten + 1, f"{word}-y-una": 10 * ten + 1}
        names |= {f"{word}-y-{unit}": 10 * ten + value for value, unit in enumerate(units[:9], 1)}
    below = dict(names)
    words = word_list(
        "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
    )
    for hundreds, word in enumerate(words, 1):
        for spelling in (word, word.removesuffix("os") + "as") if hundreds > 1 else (word,):
            names |= {spelling: 100 * hundreds} if hundreds > 1 else {"cien": 100}
            names |= {f"{spelling}-{rest}": 100 * hundreds + value for rest, value in below.items()}
    return names


@dataclass(frozen=True, slots=True)
class _Language:
    """The number grammar of one language.

    `joint` matches between the parts of a number, `known` before a number that counts nothing, `verbs` before a stated
    one.
    """

    names: Names
    thousand: str
    joint: str
    parts: dict[str, int]
    known: str
    verbs: str

    def value(self, run: str) -> int | None:
        """The value of a run of number words; None for articles and runs that are not a number."""
        name = re.sub(r"\s+", "-", run.lower())
        if name in self.names:
            return self.names[name] if self.names[name] > 1 else None
        before, thousand, after = name.partition(self.thousand)
        before, after = before.rstrip("-"), after.lstrip("-")
        known = (not before or before in self.names) and (not after or after in self.names)
        if not thousand or not known:
            return None
        return 1000 * self.names.get(before, 1) + self.names.get(after, 0)


LANGUAGES = {
    "French": _Language(
        _french(),
        "mille",
        r"[- ](?:et[- ])?",
        {"tiers": 3, "quarts?": 4, "cinquièmes?": 5, "sixièmes?": 6, "septièmes?": 7, "huitièmes?": 8}
        | {"neuvièmes?": 9, "dixièmes?": 10, "douzièmes?": 12, "centièmes?": 100},
        "[lcsm]es|leurs|[nv]os|aux|tou(?:te)?s",
        "est(?: donc)?(?: de| égale? à)?|sont|vaut|valent|y a(?: donc)?|a|ont|reste(?:nt)?|obtient|trouve",
    ),
    "German": _Language(
        _german(),
        "tausend",
        "",
        {"drittel": 3, "viertel": 4, "fünftel": 5, "sechstel": 6, "siebtel": 7, "achtel": 8, "neuntel": 9}
        | {"zehntel": 10, "zwölftel": 12, "hundertstel": 100},
        "d(?:ie|en|er)|diesen?|ihren?|seinen?|alle[nr]?|beiden?",
        "ist|sind|lautet|beträgt|gibt(?: es)?|hat|haben|bleiben|ergibt|also|insgesamt",
    ),
    "Spanish": _Language(
        _spanish(),
        "mil",
        " (?:y )?",
        {"tercios?": 3, "cuartos?": 4, "quintos?": 5, "sextos?": 6, "séptimos?": 7, "octavos?": 8}
        | {"novenos?": 9, "décimos?": 10, "centésimos?": 100},
        "l[oa]s|[ée]st[oa]s|es[oa]s|sus|tod[oa]s|amb[oa]s",
        "es(?: de| igual a)?|son|vale|hay|tienen?|quedan?|obtiene",
    ),
}
_MINUS = "moins|minus|menos"
_CONTINUED = re.compile(
    r"\s+(?:virgule|komma|v[ií]rgula|coma|milli\w+|mill[oó]n\w*|fois|veces|mal|hoch|puissance|elevado|au carré"
    r"|al cuadrado|plus|más|moins|menos|minus|ou|oder|o|bis|y medi[oa]|et demie?|einhalb)\b",
    re.IGNORECASE,
)
"""Words after a number that change its value."""
_ENGLISH_CONTINUED = re.compile(r" (?:of|percent|and|point|times|or|to)\b")
_COMPARED = re.compile(
    r"\b(?:fewer|more|less|than|older|younger|longer|shorter|taller|too|extra|short|older)\b", re.IGNORECASE
)
_ADVERBS = "donc|encore|exactement|also|somit|noch|genau|todavía|aún|exactamente"
_ONE = frozenset({"un", "ein", "uno"})
_COMPOUND = "[a-zäöüß]*(?:zig|ßig|hundert|tausend)[a-zäöüß]*"
"""German numbers written as one word, to be looked up."""
_NEUF = re.compile(r"neuf(?! \w+[sx]\b)", re.IGNORECASE)
"""The French word for 9 where it may mean "new"."""


def run_of(language: _Language) -> str:
    """The pattern of a run of number words."""
    words = {part for name in language.names for part in name.split("-") if part not in ("et", "y")}
    if not language.joint:
        words = {word for word in words if "und" not in word}
    word = "|".join(sorted(words | {language.thousand}, key=len, reverse=True))
    return f"(?:{word})(?:{language.joint}(?:{word}))*" if language.joint else f"{_COMPOUND}|{word}"


def _run_pattern(language: _Language) -> re.Pattern[str]:
    """The pattern of a run of number words, with an optional fraction name after it and its context before."""
    run = run_of(language)
    parts = "|".join(f"(?P<p{value}>{name})" for name, value in language.parts.items())
    verbs = f"(?:{language.verbs})(?: (?:{_ADVERBS}))?"
    before = rf"(?:(?P<known>{language.known})\s+|(?P<verb>{verbs})\s+(?P<minus>(?:{_MINUS})\s+)?)?"
    return re.compile(rf"(?<![\w-]){before}(?P<run>{run})(?:\s+(?:{parts}))?(?![\w-])", re.IGNORECASE)


_RUNS = {name: _run_pattern(language) for name, language in LANGUAGES.items()}
_WORD = "|".join(sorted(CARDINALS, key=len, reverse=True))
_ENGLISH = re.compile(
    rf"(?<![\w-])(?:(?P<known>the|these|those|least|most|about|almost|nearly|over|under|than|another|next"
    r"|last|all|both|my|our|his|her|their|minus|negative|every)\s+)?"
    rf"(?P<run>(?:{_WORD})(?:(?:[- ]| and )(?:{_WORD}|hundred|thousand))*)(?![\w-])",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?s:.*)(?:[.!?]\s+|[。！？\n]\s*)(?=\S)")


def in_digits(text: str, language: str | None = None, incidental: int = MAX_INCIDENTAL) -> str:
    """Write the numbers in words of the last sentence in digits; without a language, those in Chinese.

    Numbers up to `incidental` are written in digits only after a verb of having or being.
    """
    text = text.rstrip()
    start, sentence = last_sentence_at(text)
    if any(map(str.isdigit, sentence)) or (language is not None and language not in LANGUAGES):
        return text
    rest = _chinese_in_digits(sentence) if language is None else _words_in_digits(sentence, language, incidental)
    return text[:start] + rest


def english_in_digits(text: str, incidental: int = MAX_INCIDENTAL) -> str:
    """Write the English number above `incidental` in digits, if it is the only number of the last sentence."""
    start, sentence = last_sentence_at(text)
    found = list(_ENGLISH.finditer(sentence))
    if len(found) != 1 or found[0]["known"] or _ENGLISH_CONTINUED.match(sentence, found[0].end()):
        return text
    if _COMPARED.search(sentence) or any(sign.isdigit() or sign in "$\\" for sign in sentence):
        return text
    value = number_in_words(found[0]["run"].lower().replace("-", " ").split())
    if value is None or value <= incidental:
        return text
    return f"{text[:start]}{sentence[: found[0].start('run')]}{value}{sentence[found[0].end('run') :]}"


def last_sentence_at(text: str) -> tuple[int, str]:
    """The offset and text of the last sentence."""
    first = max(len(text) - SEARCHED_LENGTH, 0)
    head = _SENTENCES.match(text, first)
    start = first if head is None else head.end()
    return start, text[start:]


def _words_in_digits(sentence: str, name: str, incidental: int) -> str:
    language = LANGUAGES[name]

    def digits(match: re.Match[str]) -> str:
        value = language.value(match["run"])
        part = next((int(key[1:]) for key, found in match.groupdict().items() if found and key[1:].isdigit()), None)
        if part is not None:
            value = 1 if match["run"].lower() in _ONE else value
        elif value is not None and value <= incidental and match["verb"] is None:
            return match[0]
        is_new = part is None and match["verb"] is None and _NEUF.fullmatch(match["run"])
        if value is None or match["known"] or is_new:
            return match[0]
        verb = f"{match['verb']} " if match["verb"] else ""
        return f"{verb}{'-' if match['minus'] else ''}{value}" + (f"/{part}" if part else "")

    runs = _RUNS[name]
    if any(_CONTINUED.match(sentence, run.end()) and language.value(run["run"]) for run in runs.finditer(sentence)):
        return sentence
    return runs.sub(digits, sentence)


HAN_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000}
HAN_RUN = "[零〇一二两三四五六七八九十百千万]+"
_COUNTER = (
    "个|支|枝|本|只|条|块|元|厘?米|千米|公里|千克|公斤|克|天|小时|分钟|秒|岁|人|名|棵|辆|件|颗|套|张|双|把|箱|瓶|页|度"
)
_HAN_FRACTION = re.compile(f"({HAN_RUN})分之({HAN_RUN})")
_HAN_COUNT = re.compile(
    rf"(?<![第这那其每零〇一二两三四五六七八九十百千万])({HAN_RUN})(?=(?:{_COUNTER}))|(?:(?<=[是为得于：])|^){HAN_RUN}(?=\s*(?:[.,，;。]|$))"
)
_HAN_BOUND = re.compile("至少|至多|超过|不足|不到|不少于|不多于|约|或|又")
_HAN_VERBS = "有是为剩得共要了到于："


def han_number(text: str) -> int | None:
    """The value of a number in Chinese digits, 一千二百零五; None if their order is invalid."""
    head, ten_thousand, rest = text.rpartition("万")
    if ten_thousand:
        high, low = han_number(head), han_number(rest) if rest else 0
        return None if high is None or low is None else 10_000 * high + low
    total, digit, limit = 0, None, 10_000
    for sign in text:
        if sign in HAN_DIGITS:
            if digit:
                return None
            digit = HAN_DIGITS[sign]
        elif (scale := _HAN_SCALES[sign]) < limit and digit != 0:
            total, digit, limit = total + scale * (digit or 1), None, scale
        else:
            return None
    return total + (digit or 0) if text else None


def _chinese_in_digits(sentence: str) -> str:
    """Write the numbers of a Chinese sentence in digits before a counter, after "is", and in fractions."""

    def part(match: re.Match[str]) -> str:
        bottom, top = han_number(match[1]), han_number(match[2])
        return match[0] if not bottom or top is None or match[1] == "百" else f"{top}/{bottom}"

    def count(match: re.Match[str]) -> str:
        value = han_number(match[0])
        before = sentence[match.start() - 1 : match.start()]
        counts = value is not None and (value > MAX_INCIDENTAL or (value > 1 and before in _HAN_VERBS))
        return str(value) if counts else match[0]

    if _HAN_BOUND.search(sentence):
        return sentence
    return _HAN_FRACTION.sub(part, sentence) if "分之" in sentence else _HAN_COUNT.sub(count, sentence)


_NUMBER_WORDS = {*CARDINALS, "hundred", "thousand"}.union(*(language.names for language in LANGUAGES.values()))


def is_number_word(word: str) -> bool:
    """Whether a word is a number in one of the languages."""
    return word.lower() in _NUMBER_WORDS
