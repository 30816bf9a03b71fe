"""The grammar of conditions, and what is told of text that is none."""

from __future__ import annotations

import pytest

from sample_profiler.config import Condition, parse_conditions
from sample_profiler.config.conditions import CONDITIONS


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", ()),
        ("  ", ()),
        ("475", (Condition("reward", ">=", 475),)),
        ("-250", (Condition("reward", ">=", -250),)),
        ("reward>=475", (Condition("reward", ">=", 475),)),
        ("reward >= 475 , 475.0", (Condition("reward", ">=", 475),)),
        ("100,200,1e3", tuple(Condition("reward", ">=", value) for value in (100, 200, 1000))),
        ("len<=20,reward@1>=0.5", (Condition("len", "<=", 20), Condition("reward", ">=", 0.5, 1))),
        ("z_00_score/top 3>=2", (Condition("z_00_score/top 3", ">=", 2),)),
    ],
)
def test_conditions_are_read_each_once_in_their_order(text, conditions):
    assert parse_conditions(text) == conditions
    assert parse_conditions(",".join(map(str, conditions))) == conditions, "as they are written"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "reward",
            "has 'reward', which is no condition: a shell takes > and < for itself, so put conditions in quotes",
        ),
        ("reward>475", "has 'reward>475', which is no condition: it compares by >= or <="),
        ("reward==475", "has 'reward==475', which is no condition: it compares by >= or <="),
        ("reward>=", "has 'reward>=', which is no condition"),
        (">=475", "has '>=475', which is no condition"),
        ("@1>=475", "has '@1>=475', which is no condition"),
        ("reward@one>=475", "has 'reward@one>=475', which is no condition"),
        ("1<=reward<=2", "has '1<=reward<=2', which is no condition"),
        ("100,,200", "has '', which is no condition"),
        ("100 200", "has '100 200', which is no condition"),
        ("reward>=nan", "has 'reward>=nan', which is no condition"),
        ("reward>=1e999", "has 'reward>=1e999', which is no condition"),
        (",".join(map(str, range(101))), "has 101 conditions, and 100 are possible"),
    ],
)
def test_text_that_is_no_condition_is_told_with_what_is_wrong(text, reason):
    with pytest.raises(ValueError) as caught:
        parse_conditions(text)
    assert str(caught.value) == reason
    assert CONDITIONS.find_reason(text) == reason


def test_conditions_hold_from_their_value_on():
    at_least, at_most = parse_conditions("reward>=2,len<=2")
    assert [at_least.holds(mean) for mean in (1.9, 2.0, 2.1)] == [False, True, True]
    assert [at_most.holds(mean) for mean in (1.9, 2.0, 2.1)] == [True, True, False]


def test_a_condition_concerns_each_policy_unless_it_names_one():
    of_all, of_one = parse_conditions("reward>=2,reward@1>=2")
    assert [of_all.concerns(policy) for policy in (0, 1)] == [True, True]
    assert [of_one.concerns(policy) for policy in (0, 1)] == [False, True]
