import json
from collections import Counter
from itertools import islice

import pytest

from rstar.errors import ConfigError
from rstar.tiny.family import LEVELS
from rstar.tiny.generate import draw, draw_one, families, pick, spread


def test_there_are_enough_families() -> None:
    known = families()
    assert len(known) >= 25
    assert sum(family.kind == "search" for family in known.values()) >= 6
    assert "game24" in known
    for family in known.values():
        assert family.about
        assert family.templates
        assert family.held_templates
        assert not set(family.templates) & set(family.held_templates)


def test_a_longer_set_begins_with_the_shorter_and_parts_fit() -> None:
    whole = [d.row() for d in draw(90, 3)]
    assert [d.row() for d in draw(40, 3)] == whole[:40]
    assert [d.row() for d in draw(50, 3, first=40)] == whole[40:]
    assert [d.row() for d in draw(90, 4)] != whole


def test_families_and_levels_come_in_even_shares() -> None:
    rows = list(draw(2 * 5 * len(families()), 1))
    for name in families():
        assert sorted(d.level for d in rows if d.family.name == name) == sorted([*LEVELS, *LEVELS])


def test_a_small_set_has_all_levels_and_many_families() -> None:
    numbers = list(islice(spread(20, 5 * len(families())), 20))
    drawn = [draw_one(i, 3) for i in numbers]
    levels = Counter(d.level for d in drawn)
    assert all(levels[level] >= 3 for level in LEVELS)
    assert len({d.family.name for d in drawn}) >= 15
    assert sorted(islice(spread(20, 295), 295)) == list(range(295))


def test_rows() -> None:
    (drawn,) = draw(1, 1, "train", levels=[2], chosen=pick(["game24"]))
    row = drawn.row(solution=True)
    assert row["family"] == "game24"
    assert row["level"] == 2
    assert row["check"]["target"] == 24
    prompt, code, output, answer = row["pieces"]
    assert str(row["check"]["numbers"][0]) in prompt  # the words may be blurred
    assert code.endswith("<end_of_code>")
    assert f"<output>{row['answer']}<end_of_output>" in output
    assert answer == f"\\boxed{{{row['answer']}}}<end_of_answer>"
    assert json.loads(json.dumps(row)) == row
    assert "pieces" not in drawn.row()


def test_pick() -> None:
    assert [family.name for family in pick(["queens", "latin"])] == ["queens", "latin"]
    assert {family.kind for family in pick(["search"])} == {"search"}
    assert len(pick([])) == len(families())
    with pytest.raises(ConfigError, match="unknown family 'chess'"):
        pick(["chess"])
    weighted = [family.name for family in pick(["all", "search:2", "queens:3"])]
    assert [weighted.count(name) for name in ("ages", "latin", "queens")] == [1, 3, 6]
    for bad in ("search:0", "search:x", "search:-1"):
        with pytest.raises(ConfigError, match=f"family '{bad}'"):
            pick([bad])


def test_weighted_families_come_more_often() -> None:
    rows = list(draw(200, 1, chosen=pick(["queens:3", "ages"])))
    assert sum(d.family.name == "queens" for d in rows) == 150
    assert len({d.instance.question for d in rows if d.family.name == "queens"}) > 100
