"""A few seconds of `tests.grading.fuzz`, with another seed each day."""

import datetime

from tests.grading.fuzz import run


def test_random_latex():
    outcomes, wrong = run(4.0, datetime.date.today().toordinal())
    assert not wrong
    assert outcomes["wrong"]
    assert outcomes["correct"]
    assert outcomes["unparseable"]
