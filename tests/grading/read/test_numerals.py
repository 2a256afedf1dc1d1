"""Numbers in words: every one has a name, and what only looks like one stays as it is."""

import pytest

from rstar.grading.read.numerals import english_in_digits, han_number, in_digits

SENTENCES = {"French": "La somme est {}.", "German": "Die Summe ist {}.", "Spanish": "La suma es {}."}


@pytest.mark.parametrize(
    ("language", "number", "name"),
    [
        ("French", 21, "vingt et un"),
        ("French", 71, "soixante et onze"),
        ("French", 97, "quatre-vingt-dix-sept"),
        ("French", 300, "trois cents"),
        ("French", 2018, "deux mille dix-huit"),
        ("German", 17, "siebzehn"),
        ("German", 99, "neunundneunzig"),
        ("German", 305, "dreihundertfünf"),
        ("German", 2018, "zweitausendachtzehn"),
        ("Spanish", 16, "dieciséis"),
        ("Spanish", 99, "noventa y nueve"),
        ("Spanish", 500, "quinientos"),
        ("Spanish", 2018, "dos mil dieciocho"),
    ],
)
def test_names_of_numbers(language, number, name):
    assert in_digits(SENTENCES[language].format(name), language) == SENTENCES[language].format(number)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("French", "Les deux droites sont parallèles."),
        ("French", "Une pomme est une pomme."),
        ("French", "La somme est deux trois."),
        ("French", "La somme est douze virgule cinq."),
        ("French", "Il y a 5 pommes et douze poires."),
        ("German", "Die drei Geraden schneiden sich."),
        ("German", "Das ist ein Jahrhundert."),
        ("Spanish", "Las dos rectas se cortan."),
        ("Spanish", "Es tres veces mayor."),
    ],
)
def test_numbers_that_count_nothing_stay_in_words(language, text):
    assert in_digits(text, language) == text


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("十", 10),
        ("二十五", 25),
        ("一百零八", 108),
        ("三千五百", 3500),
        ("两万", 20000),
        ("二三", None),
        ("十百", None),
    ],
)
def test_chinese_numbers(said, number):
    assert han_number(said) == number


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("There are forty chairs.", "There are 40 chairs."),
        ("There are one hundred and five.", "There are 105."),
        ("The forty chairs are red.", "The forty chairs are red."),
        ("There are ten chairs.", "There are ten chairs."),
        ("There are twenty or thirty.", "There are twenty or thirty."),
        ("Five plus forty is more.", "Five plus forty is more."),
    ],
)
def test_english_numbers(text, digits):
    assert english_in_digits(text) == digits
