"""English words for those of other languages, and nothing for English texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.grading.find.languages import in_english

ENGLISH = [
    "The answer is 3,5.",
    "A hat costs 12 dollars, so the total is 1,250.",
    "Die A shows 6 and die B shows 5, so the sum is 11.",
    "Let $x_{de} = 5$ and $es = 2$. Then no solution is real.",
    "If a = 5 and y = 3 or o = 2, the area is 15 cm^2.",
    "José has 5 apples and Zoë has 7.",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_stays_as_it_is(text: str) -> None:
    assert in_english(text) == text


@given(st.text(alphabet="abcxyz0123456789 .,=+-$\\{}()"))
def test_formulas_without_words_are_unchanged(text: str) -> None:
    assert in_english(text) == text


@given(
    st.sampled_from(["Die Antwort ist {}.", "La réponse est {}.", "La respuesta es {}."]), st.integers(), st.booleans()
)
def test_formulas_stay_as_they_are(sentence: str, number: int, displayed: bool) -> None:
    formula = rf"\[ {number} + \text{{ist}} \]" if displayed else f"${number} = si + la$"
    assert formula in in_english(sentence.format(formula))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Die Antwort ist nicht 12.", "the answer is not 12."),
        ("La réponse est 3,5 ou 4.", "the answer is 3.5 or 4."),
        ("La opción correcta no es la A.", "the correct option is not A."),
        ("Das Auto kostet insgesamt 1.250 Euro.", "Das Auto costs in total 1250 Euro."),
        ("Die Punkte sind (1,5) und das Ergebnis ist 1,234.", "Die Punkte is (1,5) and the result is 1,234."),
        ("百分之二十五", "25%"),
    ],
)
def test_function_words_and_numbers(text: str, english: str) -> None:
    assert in_english(text).strip() == english
