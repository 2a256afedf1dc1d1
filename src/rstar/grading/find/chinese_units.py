"""Chinese units in symbols: 250 毫升 is 250 mL, 5 米/秒 is 5 m/s, 每小时行驶60千米 is 60 km/h."""

from __future__ import annotations

import re

_LENGTHS = {"千米": "km", "公里": "km", "厘米": "cm", "毫米": "mm", "分米": "dm", "米": "m", "英寸": "inches"}
_LENGTHS |= {"英尺": "feet", "英里": "miles", "码": "yards"}
_OTHERS = {
    "千克": "kg",
    "公斤": "kg",
    "毫克": "mg",
    "克(?![拉隆服制鲁里莱斯朗])": "g",
    "斤": "jin",
    "吨": "tonnes",
    "毫升": "mL",
    "升(?![高到至降起幂])": "L",
    "公顷": "hectares",
    "磅": "pounds",
    "盎司": "ounces",
    "加仑": "gallons",
    "美元": "dollars",
    "美分": "cents",
    "欧元": "euros",
    "英镑": "GBP",
    "摄氏度": "°C",
    "华氏度": "°F",
    "角分": "arcminutes",
    "角秒": "arcseconds",
}
_DIVISORS = {"小时": "h", "时": "h", "分钟": "min", "分": "min", "秒": "s", "天": "day", "升": "L"}
_DIVISORS |= {"立方厘米": "cm^3", "立方米": "m^3"}
_UNITS = {f"平方{name}": f"{unit}^2" for name, unit in _LENGTHS.items()}
_UNITS |= {f"立方{name}": f"{unit}^3" for name, unit in _LENGTHS.items()} | _LENGTHS | _OTHERS
_UNIT = re.compile(
    r"(?<=[\d}$])\s*(?:" + "|".join(f"(?P<u{at}>{name})" for at, name in enumerate(_UNITS)) + ")"
    rf"(?:\s*[/每]\s*(?P<divisor>{'|'.join(_DIVISORS)}))?"
)
_SYMBOLS = list(_UNITS.values())
_ANGLE = re.compile(r"角|∠|\\angle")
_DEGREES = re.compile(r"(?<=[\d}$])\s*度(?!电)")
_RATE = re.compile(
    rf"每(?P<time>小时|分钟|分|秒)(?P<verb>[^\d,，。.;；:：每]{{0,6}})(?P<number>\d+(?:\.\d+)?)\s*"
    rf"(?P<unit>{'|'.join((*_LENGTHS, '毫升', '升', '克', '千克'))})"
)


def units_in_symbols(text: str) -> str:
    """Write the Chinese units after numbers in symbols; 度 is a degree in a text on angles."""
    if "度" in text and _ANGLE.search(text) is not None:
        text = _DEGREES.sub(" degrees ", text)
    return _UNIT.sub(_in_symbols, _RATE.sub(_rate_last, text))


def _rate_last(match: re.Match[str]) -> str:
    """每小时行驶60千米 as 行驶60千米每小时."""
    return f"{match['verb']}{match['number']}{match['unit']}每{match['time']}"


def _in_symbols(match: re.Match[str]) -> str:
    unit = next(_SYMBOLS[int(name[1:])] for name, found in match.groupdict().items() if name[0] == "u" and found)
    return f" {unit}/{_DIVISORS[match['divisor']]} " if match["divisor"] else f" {unit} "
