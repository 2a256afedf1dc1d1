"""Gold answers as public data sets keep them: found, gradeable, and of what kind."""

import json

import pytest

from rstar.grading.golds import check_gold, gold_of

STYLES = {
    "GSM8K": (
        {
            "question": "How much does she make?",
            "answer": "She sells 16 - 3 = <<16-3=13>>13 eggs.\nShe makes 13 * 2 = $<<13*2=26>>26.\n#### 26",
        },
        "26",
        "number",
    ),
    "GSM8K with thousands": ({"answer": "So it is 1,250.\n#### 1,250"}, "1,250", "number"),
    "MATH, worked": (
        {"problem": "…", "solution": r"We have $x=2$, so \[y = \boxed{\left(3, \frac{\pi}{2}\right)}.\]"},
        r"\left(3, \frac{\pi}{2}\right)",
        "expression",
    ),
    "MATH": ({"problem": "…", "answer": r"\text{(B)}", "level": 3}, r"\text{(B)}", "expression"),
    "AIME": ({"problem": "…", "answer": 204}, "204", "number"),
    "AIME, padded": ({"problem": "…", "answer": "025"}, "025", "number"),
    "OlympiadBench": ({"final_answer": [r"$\frac{1}{2n+2}$"], "unit": None}, r"$\frac{1}{2n+2}$", "expression"),
    "OlympiadBench, several": ({"final_answer": ["2", "3"]}, "2, 3", "expression"),
    "OlympiadBench, sets": ({"answer": r"(-\infty,0)\cup\{1\}."}, r"(-\infty,0)\cup\{1\}.", "expression"),
    "Omni-MATH": ({"answer": r"\left\lfloor \frac{2n-1}{3} \right\rfloor"}, None, "expression"),
    "Omni-MATH, words": ({"answer": r"\text{The second player wins.}"}, None, "words"),
    "a decimal": ({"expected_answer": 0.25}, "0.25", "number"),
}


@pytest.mark.parametrize(("entry", "gold", "kind"), STYLES.values(), ids=STYLES.keys())
def test_golds_of_public_data_sets(entry, gold, kind):
    found = gold_of(json.loads(json.dumps(entry)))
    assert found is not None
    check = check_gold(found)
    assert (check.kind, check.reason) == (kind, "")
    assert gold is None or check.gold == gold


@pytest.mark.parametrize("entry", [{}, {"answer": None}, {"answer": {}}, {"final_answer": []}, {"solution": "no box"}])
def test_no_gold(entry):
    assert gold_of(entry) is None


def test_true_and_false_are_yes_and_no():
    assert [gold_of({"answer": value}) for value in (True, False)] == ["yes", "no"]


@pytest.mark.parametrize("gold", ["", "  ", r"\boxed{}"])
def test_golds_that_cannot_be_graded(gold):
    check = check_gold(gold)
    assert check.kind == "not gradeable"
    assert check.reason
