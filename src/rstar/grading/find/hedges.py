"""Words that change the meaning of a sentence's number, in all languages of the grader.

`is_hedged` is for every number: negations, bounds, approximations, guesses and labels. `is_relative` is for sentences
of which nothing else is known: comparisons, parts and multiples, past values, alternatives.
"""

from __future__ import annotations

import re

_HEDGED = re.compile(
    r"\b(?:"
    # negations
    r"never|nicht|kein\w*|niemals|weder|jamais|aucune?|nunca|jamás|tampoco|ningun\w*|ningún|não|nenhuma?|non|nessun\w*"
    r"|niet|geen|inte|ikke|nie"
    # bounds
    r"|at (?:the )?(?:least|most)|no (?:more|fewer|less)|(?:more|less|fewer) than|not even|exceed\w*"
    r"|höchstens|mindestens|wenigstens|allenfalls|(?:mehr|weniger) als|bis zu|übersteigt"
    r"|au (?:moins|plus|maximum|minimum)|tout au plus|jusqu|(?:plus|moins) d|dépasse\w*"
    r"|(?:al|por lo) menos|(?:a lo|como) (?:más|mucho|máximo|mínimo)|(?:más|menos) de|hasta|supera"
    r"|(?:pelo|ao) menos|no (?:máximo|mínimo)|(?:mais|menos) d[eo]|até|almeno|al (?:massimo|minimo)|fino a"
    # approximations
    r"|approximately|approx|roughly|nearly|almost|circa|hardly|barely|etwa|ungefähr|beinahe|annähernd|knapp|zirka"
    r"|environ|presque|à peu près|près de|approximativement|une? (?:douzaine|vingtaine|trentaine)|aproximadamente|casi"
    r"|cerca de|alrededor de|apenas|quase|quasi|pressoch[eé]"
    # guesses
    r"|perhaps|maybe|probably|possibly|might|(?:could|may) (?:have|be)|too (?:little|much|few|many|short|long|far)"
    r"|hoped|wanted|wished|planned|supposedly|allegedly|vielleicht|wahrscheinlich|vermutlich|möglicherweise|könnten?"
    r"|würden?|dürften?|peut-être|probablement|pourrai(?:t|ent)|devrai(?:t|ent)|quizás?|tal vez|a lo mejor"
    r"|probablemente|posiblemente|podrían?|deberían?|talvez|forse|potrebbe|dovrebbe|(?-i:[a-zé]+ría[ns]?"
    r"|[a-zéè]{3,}rai(?:t|ent))"
    r")\b",
    re.IGNORECASE,
)
_HAN_HEDGED = re.compile(
    "不到|不足|不超过|不少于|不多于|不止|至少|至多|最多|最少|超过|大约|大概|左右|约|可能|也许|几乎|接近|近似|将近|以上|以下|以内"
    "|没有?|未|多于|少于|比"
    r"|(?:加上?|减去?|乘以?|除以|第)\s*$"
)
_BEFORE = re.compile(
    r"\b(?:about|around|over|under|above|below|up to|beyond|within|close to|nearly|almost|some|gegen|rund|fast|gut"
    r"|un[oa]s|uns|umas|über|unter|vers|among|each of|every|modulo|mod|(?:divided|divisible) by|multiples? of|root of"
    r"|divides|ends in|rounded to|refus(?:es|ed)|(?:add|subtract|square)(?:s|d|ed)?|(?:multipl|divi)\w+(?: \w+)? (?:by"
    r"|por|par|mit|durch|per)|addier\w+|subtrahier\w+|ajoute\w*|soustrai\w*|sum(?:a|ó|amos)|rest(?:a|ó|amos)|casa"
    r"|siglo|one of|un[ea]? (?:des|de|de los|de las)|eine[rs]? (?:der|von)|(?:third|quarter|half|fifth)s? of|(?:tiers"
    r"|quarts?|moitié|tercios?|cuartos?|mitad|drittel|viertel|hälfte) (?:des?|del?|of|der|von)(?: l[oa]s)?|(?:problem"
    r"|question|exercise|step|equation|figure|chapter|page|line|case|room|number|option|part|aufgabe|schritt|seite"
    r"|frage|nummer|exercice|problème|étape|numéro|ejercicio|problema|pregunta|paso|página|número|exercício|esercizio"
    r"|domanda))\s*(?:the )?$",
    re.IGNORECASE,
)
"""Words right before a number that is not the answer."""
_RELATIVE = re.compile(
    r"\b(?:no|not|nor|none|neither|cannot|without|except|but|false|wrong|incorrect|impossible|ohne|außer|falsch"
    r"|sondern|aber|nein|pas|ne|ni|n|sans|sauf|mais|nada|sin|excepto|salvo|fals[ao]|pero|sino|nem|sem|senza|ma"
    # comparisons
    r"|most|least|maximum|minimum|more|less|fewer|than|as|over|under|above|below|beyond|within|up|extra|another"
    r"|additional|further|too|short|missing|lack\w*|greater|smaller|larger|older|younger|same|about|around|some"
    r"|maximal\w*|minimal\w*|mehr|weniger|als|über|unter|größer|kleiner|älter|jünger|zusätzlich|weitere?n?|noch|bis"
    r"|zu|fehl\w*|gleich|wie|moins|plus|inférieur\w*|supérieur\w*|autant|supplémentaires?|manqu\w*|encore|même"
    r"|menos|m[aá]s|mayor(?:es)?|menor(?:es)?|m[aá]xim[oa]|m[ií]nim[oa]|superior\w*|inferior\w*|falta\w*|otr[oa]s?"
    r"|adicional\w*|tant[oa]s?|como|mismo|mais|outr[oa]s?|quanto|meno|pi[uù]|altr[ei]|manca\w*"
    # multiples and parts
    r"|times|twice|half|thrice|double[ds]?|triple[ds]?|quarters?|thirds?|dozens?|square[ds]?|cubed?|multiples?|divided"
    r"|of the|of them|of these|of those|mal|doppelt\w*|halb\w*|drittel|viertel|dutzend|hoch|vielfaches|geteilt"
    r"|\w+(?:fach|mal)|fois|moitié|tiers|quarts?|demie?|douzaines?|carré|divisé\w*|veces|vez|dobles?|mitad|tercios?"
    r"|cuartos?|medi[oa]s?|docenas?|cuadrado|dividid[oa]|dobro|metade|vezes|volte|doppio|met[aà]|mezz[oa]"
    # alternatives and guesses
    r"|fails?|failed|reject\w*|discard\w*|extraneous|contradict\w*|candidates?|if|would|could|might|may|should|guess\w*|think\w*|thought|suppos\w*|assum\w*|estimat\w*|expect\w*|hop(?:es?|ing)"
    r"|want\w*|wish\w*|plan\w*|believ\w*|seems?|either|or|between|unless|suggest\w*|claim\w*|wait|actually|instead"
    r"|wenn|falls|sollten?|hätten?|wären?|glaub\w*|denk\w*|schätz\w*|vermut\w*|oder|zwischen|entweder|wollten?|will"
    r"|möchten?|doch|eigentlich|si|peut|soit|crois|pens\w*|ou|entre|voul\w*|espèr\w*|creo|cree|piens\w*|supon\w*|o|u"
    r"|querí\w*|quier\w*|esper\w*|se|poder\w*|dever\w*|acho|cred\w*|tra"
    # past values and qualifiers
    r"|first|second|last|initial\w*|original\w*|previous\w*|already|start\w*|began|begins?|beginning|before|after"
    r"|until|formerly|since|yesterday|earlier|later|then|every|from|to|by|with|per|zuerst|zunächst|anfangs?"
    r"|ursprünglich|vorher|bereits|schon|vor|nach|gestern|dann|erst\w*|letzte\w*|aus|um|mit|hatten?|waren?|abord|début"
    r"|déjà|avant|après|hier|puis|ensuite|premi[eè]re?s?|derni[eè]re?s?|par|avec|était|avait|avaient|antes|principio"
    r"|inicio|inicial\w*|ya|anterior\w*|primer\w*|últim[oa]s?|después|ayer|luego|por|con|tenía\w*|había\w*|eran?|prima"
    r"|inizi\w*|dopo|ieri|poi|aveva\w*|início|depois|ontem|tinha\w*|havia)\b|\bof\s*$|n['’]t\b",
    re.IGNORECASE,
)


def is_hedged(before: str, after: str) -> bool:
    """Whether a sentence with a number between `before` and `after` does not state that number."""
    if _BEFORE.search(before[-40:]):
        return True
    return any(_HEDGED.search(part) or (not part.isascii() and _HAN_HEDGED.search(part)) for part in (before, after))


def is_relative(before: str, after: str) -> bool:
    """Whether a sentence may state the number between `before` and `after` of something other than the answer."""
    return _RELATIVE.search(before) is not None or _RELATIVE.search(after) is not None
