"""Courtesies that close a text: "I hope this helps!", "Let me know if you have any questions."

They say nothing about the answer, so the statement before them is the last one. A sentence with a digit or a formula is
never a courtesy. Neither do the remarks say anything that close a sentence: "as required", "as computed above".
"""

from __future__ import annotations

import re

_SEARCHED_LENGTH = 300
"""Characters at the end of a text in which a courtesy is looked for."""
_MAX_COURTESIES = 3
_HELPFUL = r"(?=[^.!?\n]*\b(?:help|clear|clarif|useful|mak\w+ sense|understand|good day|luck))"
_PHRASES = (
    rf"(?:I |We )?(?:really |do |sincerely )?hope (?:this|that|it|the|my|you)\b{_HELPFUL}",
    r"(?:please )?(?:let me know|feel free to|do(?:n['’]t| not) hesitate to) ?",
    r"if (?:you have|there are) any\b(?=[^.!?\n]*\bquestions?\b)",
    r"is there anything else\b|(?:would you like|do you (?:want|need))\b(?=[^.!?\n]*\b(?:me|more|help|explain\w*)\b)",
    r"(?:thank you|thanks)\b|happy (?:learning|studying|to help)\b|good luck\b|have a (?:great|nice|good)\b",
    r"¡?espero (?:que (?:esto|esta|te|le|les|os|sea|haya)|haber)\b|no dudes? en\b|av[ií]same si\b",
    r"j['’]espère que (?:cela|ça|ceci|cette)\b|n['’]hésite[zs]? pas\b|bon courage\b",
    r"ich hoffe,? (?:das|dass|dies|es|ich konnte)\b|lass(?:en sie)? (?:es )?mich (?:gerne )?wissen\b|viel erfolg\b",
    r"espero (?:que (?:isso|isto)|ter)\b|spero (?:che (?:questo|ti|vi|sia)|di (?:essere|aver))\b",
    "希望(?:这|以上|对你|能|我的)|如果?(?:你|您)?(?:还)?有(?:任何|其他|什么)?(?:疑问|问题)",
)
_COURTESY = re.compile(
    rf"(?:(?<=[.!?。！？)\]}}$*])|(?<=\n)|(?<=[.!?] ))\s*(?:{'|'.join(_PHRASES)})"
    r"(?P<rest>[^\d$\\=<>.!?。！？\n]{0,120})[^\w$\\=<>]*$",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:wait|actually|wrong|incorrect|mistake\w*|instead|rather|should|not|but|no|nein|falsch|aber|sino|pero|mais"
    r"|faux)\b|[不错误]",
    re.IGNORECASE,
)

_AS_REQUIRED = re.compile(
    r",? as (?:required|desired|claimed|wanted|expected|needed|stated|asked)\b.*$"
    r"|, as (?:we )?(?:computed|calculated|shown|found|saw|seen|derived|obtained|determined|verified|given)\b[^\d$]*$"
)


def without_courtesies(text: str) -> str:
    """Strip the courtesies at the end of a text, unless nothing else is left."""
    for _ in range(_MAX_COURTESIES):
        if text[-1:].isdigit() or text[-1:] in "$}":
            break
        start = max(len(text) - _SEARCHED_LENGTH, 0)
        match = _COURTESY.search(text, start)
        if match is None or _CORRECTION.search(match["rest"]) or not text[: match.start()].strip():
            break
        text = text[: match.start()].rstrip()
    return text


def without_remark(text: str) -> str:
    """Strip ", as required", ", as computed above" and the like."""
    return _AS_REQUIRED.sub("", text)
