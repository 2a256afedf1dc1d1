"""Translation of function words into English from six languages.

The languages are Chinese, French, German, Spanish, Portuguese and Italian. Only function words change: "Die Antwort ist
nicht 12" becomes "the answer is not 12", which the rules for English sentences read. Numbers in words become digits
(`numerals`). Formulas stay. A decimal comma becomes a point, except in Chinese, in brackets, and before three digits,
where it may separate thousands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from rstar.grading.find.chinese_units import units_in_symbols
from rstar.grading.read.numerals import MAX_INCIDENTAL, in_digits
from rstar.grading.read.percents import chinese_percent_in_digits, percent_in_digits
from rstar.grading.read.units import is_measure
from rstar.grading.read.vocabulary import HAN

_SEARCHED_LENGTH = 600
"""Characters at the end of a text that determine its language."""
_MIN_COMMON_WORDS, _SHORT_TEXT = 3, 60
"""Detecting a language takes this many common words, or one strong word in a text of fewer characters."""
_FORMULA = r"\$\$.+?\$\$|\$[^$\n]+\$|\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\]|\\[a-z]+\s*\{[^{}]*\}"
_CHINESE = re.compile(f"[{HAN}]")
_BESIDE_HAN = re.compile(rf"(?<=[{HAN}])(?=[\w$\\(\-])(?![{HAN}])|(?<=[\w$)}}%])(?<![{HAN}])(?=[{HAN}])")
_MEASURE = re.compile(rf"(?<=\d)\s*\(\s*[{HAN}]{{1,3}}\s*\)")
_SIGNS = str.maketrans({"，": ", ", "。": ". ", "：": ": ", "；": "; ", "、": ", ", "（": "(", "）": ")", "．": ". "})
_COMMA = re.compile(r"(?<![\d,.(\[{])(\d+),(\d{1,2}|\d{4,})(?![\d,]|\s*[)\]}])")
_EUROS = re.compile(r"\d,\d{1,2}[ \u00a0\u202f]?€")
_MEASURED = re.compile(r"\d,\d{1,2}[ \u00a0\u202f]?(?:k?g|[ckm]?m|[cdm]?[lL])\b")
_IS_ENGLISH = re.compile(r"\b(?:the|is|are|and|of|has|have|with|was|by)\b", re.IGNORECASE)
"""A decimal comma by what follows it, in a text without English words."""

_ARTICLE = re.compile(r"\bis (not )?(?:(?:la|le|el|die|der|l['’]option|opción|the answer) )+(?=\(?[A-H]\b)")
_UHR = re.compile(r"(?<![\d.,:])(\d{1,2})(?:[.:](\d\d))? Uhr\b")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3})(?=\s?(?:€|(?:EUR|[Ee]uros?)\b))")
_SPACED = re.compile(
    r"(?<![\d.,] )(?<![\d.,])(\d{1,3}(?:[ \u00a0\u202f]\d{3})+)(?=(?:,\d+)?[ \u00a0\u202f]?(?:€|[^\W\d]))"
)
_COUNTED = re.compile(
    r"(?<![\d.,])([1-9]\d{0,2})\.(\d{3})(?= (?!(?:kilo|centi|mil|deci|m[eè]t|lit|gram|ton|hor|heur|stund|minut|seg|sek"
    r"|grad|degr|unid|unit|vec|fois|mal|pro|por|pour|euro|de|von|und|et|y)[^\W\d_]*)[^\W\d_]{4,}(?:s|en|er)\b)",
    re.IGNORECASE,
)
"""A point for thousands, in a number of things that are counted rather than measured."""
_TWELVE, _NIGHT_END = 12, 6
_QUALIFIED = re.compile(r"(?<=\d)(?: l[oae]s)?( [^\W\d_]{4,}s) (?:que|qui) (?:no|ne)\b[^,;.\d]*")
"""A relative clause on what is counted: "40 alumnos que no leen"."""
_RATE = re.compile(
    r"(?<![^\W\d_²³])(?P<unit>[^\W\d_²³]*(?: (?:carr|cuadrad|quadrad|quadrat|c[úu]b)\w{1,4})?[²³]?)"
    r" (?P<per>par|pro|por|al|à l['’]|all['’]|a la|im|am) ?(?P<time>mois|an|année|jour|semaine|heure|minute|seconde"
    r"|monat|jahr|tag|woche|stunde|sekunde|mes|año|día|semana|hora|minuto|segundo|giorno|ora|secondo)\b",
    re.IGNORECASE,
)
"""A phrase for how often an amount is paid or done, or by what a measure is divided."""
_PAID = re.compile(r"minute|minuto|seconde|sekunde|segundo|secondo", re.IGNORECASE)
"""Times that end the phrase for an amount only after a measure."""
_OF = re.compile(r"(?<=\d)( ?[^\W\d_]{1,12})? (?:(?:de|du|des|von|del|di|da|do) |d['’] ?)(?=[^\W\d_])")
_HALF = "上午|早上|凌晨|清晨|下午|傍晚|晚上|夜里|夜晚|深夜|半夜|午夜|中午|正午"
_FORENOON, _NIGHT, _MIDDAY = frozenset({"上午", "早上", "凌晨", "清晨"}), re.compile("[晚夜]"), re.compile("[中正]午")


def _clock_time(match: re.Match[str]) -> str:
    """Format a time of day: 下午3点20分 is 3:20 pm."""
    half, hour, minute, thirty, digits = match.groups()
    if not (half or minute or thirty or digits):
        return f" {hour} o'clock "
    return f" {hour}:{30 if thirty else int(minute or digits or 0):02}{_day_half(half, int(hour)) if half else ''} "


def _day_half(part: str, hour: int) -> str:
    """The half of the day for an hour in a part of the day."""
    if hour > _TWELVE:
        return ""
    if _MIDDAY.search(part):
        return " am" if hour in (10, 11) else " pm"
    if _NIGHT.search(part):
        return " am" if hour == _TWELVE or hour < _NIGHT_END else " pm"
    return " am" if part in _FORENOON else " pm"


_CHINESE_WORDS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"【(?:答案|解答)】", " the answer : "),
    (r"(?:选项\s*)?(?<![A-Z])([A-H])\s*项?\s*(?:是)?正确(?:的)?(?=\s*[,.;]|\s*$)", r" option \1 is correct"),
    (r"(?:不能|不该|不应|不可|不要|别)选择?", " is not "),
    (r"不合题意|舍去|矛盾|不成立|错误", " is rejected "),
    (r"百分之(\d+(?:\.\d+)?)", r"\1%"),
    (r"(?<=\d)\s*个?百分点", " pp "),
    (rf"({_HALF})\s*(\d{{1,2}})(?:\s*[点时]钟?(?:(\d{{1,2}})分?|(半)|整)?|:(\d\d))(?!\d)", _clock_time),
    (r"()(?<!\d)(\d{1,2})\s*点(?:钟|整|(\d{1,2})分?(?!\d)|(半))()", _clock_time),
    (r"(?<![\d=.:<>-])(\d{1,2})\s*时\s*([0-5]?\d)\s*分(?![\d钟之])", lambda match: f" {match[1]}:{int(match[2]):02} "),
    (r"(?<=\d)\s*(?:个)?小时\s*(\d+)\s*分(?![钟之])", r" hours \1 minutes "),
    (r"(?<=\d)\s*分(?=\s*\d+\s*秒)", " minutes "),
    (r"(?<=\d)\s*分钟", " minutes "),
    (r"(?<=\d)\s*(?:个)?小时", " hours "),
    (r"(?<=\d)\s*秒", " seconds "),
    (r"(?<=\d)\s*天", " days "),
    (r"综上所述|综上|因此|所以|于是|从而|解得|(?:可以)?得(?:到|出)|故(?!选)", " so "),
    (r"如果|假设|假如|若", " if "),
    (r"因为|由于", " because "),
    (r"(?:故|应|所以)?选择?(?:项)?[:：\s]*(?=\(?[A-H])", " so choose option "),
    (r"正确选项|正确的?选项|选项", " the correct option "),
    (r"(?:正确|最终|最后)?的?答案|答(?=[:：])", " the answer "),
    (r"不等式(组?)", r"inequality\1"),
    (r"不可能是?|不[是为等能]于?|并非|没有", " is not "),
    (r"的一半", " divided by 2 "),
    (r"的(?:两|2|二)倍", " times 2 "),
    (r"等于|[是为]", " is "),
    (r"(?<=[\d$)}])\s*或者?\s*", " or "),
    (r"(?<=[\d$)}])\s*[和与]\s*", " and "),
]

_PART_PHRASES = {
    "more than": "plus d(?:es?|['’])|más del?|mehr als|mais d[eo]|più d(?:i|el)",
    "less than": "moins d(?:es?|['’])|menos d(?:el?|o)|weniger als|meno d(?:i|el)",
    "twice the": "le double d(?:e|u)|el doble del?|das Doppelte (?:von|der|des)|o dobro d[eoa]|il doppio d(?:i|el)",
    "half of": "la moitié d(?:e|u)|la mitad del?|die Hälfte (?:von|der|des)|a metade d[eoa]|la metà d(?:i|el)",
    "the square of": "le carré d(?:e|u)|el cuadrado del?|das Quadrat (?:von|der|des)|o quadrado d[eo]|il quadrato"
    " d(?:i|el)",
}
"""Phrases before a part or a multiple of something, in all these languages."""
_WORDS = {
    "French": {
        "that is": "c['’]est[- ]à[- ]dire|autrement dit|à savoir",
        "in the morning": "du matin",
        "in the afternoon": "de l['’]après-midi",
        "in the evening": "du soir",
        "noon": "(?:à )?midi",
        "midnight": "(?:à )?minuit",
        "in total": "en tout|au total",
        "is not": r"n['’]\s?(?:est|obtient|égale|a)(?: donc| alors| ainsi)? pas"
        r"|ne (?:sont|vaut|peut|peuvent)(?: \w+)? pas(?: être)?",
        "there are": "il y a",
        "and is attained at": "et (?:(?:il|elle) )?est (?:atteinte?|obtenue?) (?:en|pour|quand|lorsque)",
        "in": "dans",
        "but": "mais",
        "is rejected": r"(?:est|sont) (?:à rejeter|exclue?s?|rejetée?s?)|à rejeter",
        "is": r"est(?: donc| alors| ainsi| bien)?(?: égale? à| de)?|s['’]élève(?:nt)?(?: donc| alors| ainsi)? à"
        r"|vaut(?: donc| alors| ainsi)?|sont|égale",
        "the answer": r"(?:la |ma )?(?:bonne )?réponse(?: finale| correcte)?",
        "the correct option": "(?:la )?(?:bonne|meilleure) (?:option|proposition)",
        "the result": r"(?:le )?résultat(?: final)?",
        "followed by": "suivie? d[e'’]",
        "zeros": "zéros",
        "cubed": "(?<=mètres )cubes|(?<=mètre )cube",
        "arcminutes": "minutes? d['’]arc",
        "so": "donc|ainsi|par conséquent|alors",
        "if": r"si|s['’]ils?|supposons(?: que)?|soit",
        "because": "car|puisque|parce que?",
        "false": "faux|fausse|incorrecte?",
        "not": "pas|jamais|aucune?",
        "or": "ou",
        "and": "et",
        "has": r"reste(?:nt)?|ont|(?:il|elle|on) a(?: donc)?(?= \d)",
        "we get": "on (?:obtient|trouve|a)|nous (?:avons|obtenons|trouvons)",
    },
    "German": {
        "that is": r"d\. ?h\.|das heißt|mit anderen Worten",
        "in the morning": "morgens|vormittags|am (?:morgen|vormittag)",
        "in the afternoon": "nachmittags|am nachmittag",
        "in the evening": "abends|am abend",
        "at night": "nachts|in der nacht",
        "noon": "mittags?|am mittag",
        "midnight": "mitternachts?|um mitternacht",
        "in total": "insgesamt",
        "and is attained at": "und wird (?:bei|für|in|an der Stelle)",
        "is rejected": "entfällt|fällt weg|ist auszuschließen|wird verworfen|ist zu verwerfen",
        "but": "sondern",
        "the answer is": "(?:richtig|korrekt) (?:ist|sind)",
        "is": r"(?:ist|beträgt)(?: also| somit| daher| damit| folglich)?(?: gleich)?|liegt bei|lautet|sind|ergibt"
        "|macht",
        "the answer": "(?:die )?(?:richtige |endgültige )?(?:antwort|lösung)",
        "the result": "(?:das )?(?:end)?ergebnis",
        "followed by": "gefolgt von",
        "zeros": "Nullen",
        "so": "also|somit|daher|folglich|deshalb|demnach",
        "if": "wenn|falls|angenommen|sei|sofern",
        "because": "weil|denn|da",
        "false": "falsch(?:e[nrs]?)?",
        "not": "nicht|keine?[nrms]?|weder|niemals|nie",
        "either": "entweder",
        "or": "oder",
        "and": "und",
        "has": "hat|haben|bleiben|bleibt",
        "costs": "kostet|kosten",
    },
    "Spanish": {
        "that is": "es decir|o sea|esto es",
        "in the morning": "de la (?:mañana|madrugada)",
        "in the afternoon": "de la tarde",
        "at night": "de la noche",
        "noon": "(?:del? |al? )?mediodía",
        "midnight": "(?:de (?:la )?|a (?:la )?)?medianoche",
        "in total": "en total",
        "is not": "no (?:es|son|vale)",
        "and is attained at": "y (?:este )?se (?:alcanza|obtiene) (?:en|cuando|para|si)",
        "is rejected": "se (?:descarta|rechaza)n?|(?:es|está) descartad[ao]",
        "but": "sino",
        "in": "en",
        "the answer is": "la correcta es",
        "is": r"es(?: entonces| así| por (?:lo )?tanto)?(?: igual a| del?)|es|son|vale|equivale a",
        "the answer": "(?:la )?respuesta(?: final| correcta)?",
        "the correct option": "(?:la )?opción correcta",
        "followed by": "seguid[oa] (?:de|por)",
        "zeros": "ceros",
        "arcminutes": "minutos? de arco",
        "the result": "(?:el )?resultado(?: final)?",
        "so": "por lo tanto|por tanto|entonces|luego|así que",
        "if": "si|supongamos(?: que)?|sea",
        "because": "porque|ya que",
        "false": "fals[ao]",
        "not": "no|nunca|ningún|ninguna",
        "or": r"(?<=[\d$)}] )o(?= [-\d$(\\])",
        "and": r"(?:(?<=[\d$)}] )|(?<=(?-i:[A-H]) ))y(?= (?:[-\d$(\\]|(?-i:[A-H])\b))",
        "has": "tiene|quedan?|gasta|hay",
    },
    "Portuguese": {
        "that is": "ou seja|isto é",
        "in the morning": "da (?:manhã|madrugada)",
        "in the afternoon": "da tarde",
        "at night": "da noite",
        "in total": "no total|ao todo",
        "is not": "não (?:é|são|vale)",
        "is": "é(?: então| portanto)? igual a|é d[eo]|é|são|vale|equivale a",
        "the answer": "(?:a )?resposta(?: final| correta)?",
        "the result": "(?:o )?resultado(?: final)?",
        "so": "portanto|por isso|logo|então|assim",
        "if": "se|suponha(?:mos)?(?: que)?|seja",
        "because": "porque|pois|já que",
        "false": "fals[ao]|errad[ao]",
        "not": "não|nunca|nenhuma?",
        "or": r"(?<=[\d$)}] )ou(?= [-\d$(\\])",
        "and": r"(?<=[\d$)}] )e(?= [-\d$(\\])",
        "has": "tem|têm|restam?|recebe|há",
    },
    "Italian": {
        "that is": "cioè|ossia|vale a dire",
        "in the morning": "d(?:i|el) mattin[ao]",
        "in the afternoon": "del pomeriggio",
        "in the evening": "d(?:i|ella) sera",
        "in total": "in totale",
        "is not": "non (?:è|sono|vale)",
        "is": "è(?: quindi| dunque| pertanto)? uguale a|è d(?:i|el)|è|vale|equivale a",
        "the answer": "(?:la )?risposta(?: finale| corretta)?",
        "the result": "(?:il )?risultato(?: finale)?",
        "so": "quindi|dunque|pertanto|perciò",
        "if": "se|supponiamo(?: che)?|sia",
        "because": "perché|poiché|siccome",
        "false": "fals[ao]|sbagliat[ao]",
        "not": "non|mai|nessuna?",
        "or": r"(?<=[\d$)}] )o(?= [-\d$(\\])",
        "and": r"(?<=[\d$)}] )e(?= [-\d$(\\])",
        "has": "ha|hanno|rest(?:a|ano)|riceve|ci sono",
    },
}
_STRONG = {
    "French": r"réponse|résultat|donc|vaut|obtient|conséquent|n['’]est|reste|serait|cherchée?s?|compte|pour cent"
    r"|élèves?|mesurent|mesure|par (?:heure|jour|semaine|mois|an)|au total|en tout|\w*[ôûùî]\w*|est (?:à|de|une?|la|le)"
    r"|est -?[\d$]|moitié|égale|\w*[èêçàâœ]\w*",
    "German": r"antwort|ergebnis|prozent|entweder|ist|lautet|somit|nicht|keine?|kostet|dauert|ergibt|zusammen|insgesamt"
    r"|uhr|sind|bleib(?:t|en)|pro (?:stunde|tag|woche|monat|jahr)|\w+hundert\w*|\w*tausend\w*|gibt es|\w*[äöüß]\w*",
    "Spanish": r"respuesta|por (?:hora|día|semana|mes)|es -?[\d$]|precio|resultado|entonces|por lo tanto|por ciento"
    r"|quedan?|tiene|no se|en total|probabilidad|buscad[ao]|hay (?:\d+|\w+nta|\w+cient[oa]s)|\w*[áíóúñ]\w*",
    "Portuguese": r"resposta|portanto|por cento|então|não|são|é|ao todo|\w*[ãõ]\w*",
    "Italian": r"risposta|all['’]ora|risultato|per cento|quindi|dunque|perché|poiché|è|ci sono",
}
_COMMON = {
    "French": r"l[ea]s?|l['’]\w+|du|des|une?|est|et|il|lui|on|pas|de|en|sont|dans|que|qui|elle|ses|aux?|avec|sur"
    r"|cette|nous",
    "German": r"d(?:ie|er|as|en|em)|und|noch|von|eine?|mit|es|im|zu|ist|sind",
    "Spanish": r"el|la|los|las|es|una?|se|del?|en|lo|le|son|por|que",
    "Portuguese": r"os|uma?|d[ao]s|da|que|em|na|ao|com|cada|são|é",
    "Italian": r"il|gli|la|le|di|dell[aeo]|del|dei|che|una?|con|è|ogni",
}


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w\\])(?:{words})(?!\w)", re.IGNORECASE)


_IS_STRONG = {name: _pattern(words) for name, words in _STRONG.items()}
_IS_COMMON = {name: _pattern(words) for name, words in _COMMON.items()}
_ENGLISH = {name: [*_PART_PHRASES, *table] for name, table in _WORDS.items()}
_FROM_CHINESE = [(re.compile(pattern), english) for pattern, english in _CHINESE_WORDS]


@cache
def _phrases(language: str) -> re.Pattern[str]:
    """The function words of a language; compiled on first use, because that takes long."""
    alternatives = enumerate((*_PART_PHRASES.values(), *_WORDS[language].values()))
    words = "|".join(f"(?P<w{at}>{words})" for at, words in alternatives)
    return re.compile(rf"(?P<formula>{_FORMULA})|(?<![\w\\])(?:{words})(?!\w)", re.IGNORECASE)


def in_english(text: str, incidental: int = MAX_INCIDENTAL, *, percentages: bool = False) -> str:
    """Replace function words by English ones; text in none of the languages is unchanged.

    Args:
        text: the text.
        incidental: numbers in words up to this one stay in words, except after a verb of having or being.
        percentages: write percentages in words in digits.
    """
    if text.isascii() and " " not in text:  # not a sentence
        return text
    if not text.isascii() and _CHINESE.search(text) is not None:
        return _from_chinese(text)
    language = _language_of(text[-_SEARCHED_LENGTH:])
    if language is None:
        decimal = _EUROS.search(text) or (_MEASURED.search(text) and not _IS_ENGLISH.search(text))
        return _COMMA.sub(r"\1.\2", text) if decimal else text
    text = in_digits(percent_in_digits(text, language) if percentages else text, language, incidental)
    text = _SPACED.sub(lambda match: re.sub(r"\s", "", match[1]), text)
    text = _UHR.sub(lambda match: f"{match[1]}:{match[2] or '00'}", text)
    text = _RATE.sub(_rate, _QUALIFIED.sub(r"\1", text))
    english = _ENGLISH[language]
    text = _phrases(language).sub(
        lambda match: match[0] if match["formula"] else english[int((match.lastgroup or "w0")[1:])], text
    )
    for pattern, by in (
        (_THOUSANDS, r"\1\2"),
        (_COUNTED, r"\1\2"),
        (_COMMA, r"\1.\2"),
        (_OF, r"\1 of "),
        (_ARTICLE, r"is \1"),
    ):
        text = pattern.sub(by, text)
    return text


def _rate(match: re.Match[str]) -> str:
    """Write a rate with "per" after a measure; drop it after money and counts."""
    if is_measure(match["unit"].partition(" ")[0].rstrip("²³")):
        return f"{match['unit']} per {match['time']}"
    return match[0] if _PAID.fullmatch(match["time"]) else match["unit"]


def _language_of(end: str) -> str | None:
    """The language with the most words in the end of a text; None if there are too few."""
    best, most = None, 0
    for language in _WORDS:
        common = {match[0].lower() for match in _IS_COMMON[language].finditer(end)}
        strong = {match[0].lower() for match in _IS_STRONG[language].finditer(end)}
        shown = len(common) >= _MIN_COMMON_WORDS or (strong and (common or len(end) < _SHORT_TEXT))
        if shown and 2 * len(strong) + len(common) > most:
            best, most = language, 2 * len(strong) + len(common)
    return best


def is_chinese_prose(text: str) -> bool:
    """Whether a text is Chinese prose without a number."""
    return _CHINESE.search(text) is not None and not any(map(str.isdigit, text))


def _from_chinese(text: str) -> str:
    text = units_in_symbols(_MEASURE.sub("", in_digits(chinese_percent_in_digits(text)).translate(_SIGNS)))
    for pattern, english in _FROM_CHINESE:
        text = pattern.sub(english, text)
    return _BESIDE_HAN.sub(" ", text)
