"""Tests of single values: reading words, checking typed values, describing what is allowed."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from sample_profiler.config.limits import NO_LIMITS, NOT_EMPTY, Limits
from sample_profiler.config.values import DisallowedValueError, make_value_type, show_value

PORTS = Limits(minimum=1, maximum=9)


@pytest.mark.parametrize(
    ("annotation", "words", "value"),
    [
        (bool, ["True"], True),
        (bool, ["false"], False),
        (bool, ["1"], True),
        (bool, ["0"], False),
        (bool, ["YES"], True),
        (bool, ["no"], False),
        (int, ["32"], 32),
        (int, ["-7"], -7),
        (int, ["1e7"], 10_000_000),
        (int, ["4_000"], 4000),
        (int, ["2.5e3"], 2500),
        (int, ["9007199254740993"], 2**53 + 1),  # a detour over float would lose the last digit
        (int, ["1e10"], 10_000_000_000),
        (float, ["2"], 2.0),
        (float, ["1e-4"], 0.0001),
        (str, ["a b"], "a b"),
        (str, ["None"], "None"),
        (Literal["gru", "lstm"], ["lstm"], "lstm"),
        (int | None, ["None"], None),
        (int | None, ["3"], 3),
        (tuple[int, ...], ["512", "256"], (512, 256)),
        (tuple[int, ...], ["512,256"], (512, 256)),
        (tuple[int, ...], ["512 256"], (512, 256)),
        (tuple[int, ...], [], ()),
        (tuple[int, ...], [""], ()),
        (tuple[str, ...] | None, ["none"], None),
        (tuple[str, ...] | None, ["obs", "goal"], ("obs", "goal")),
    ],
)
def test_words_are_read(annotation: Any, words: list[str], value: object):
    read = make_value_type(annotation, NO_LIMITS).from_words(words)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        (bool, "maybe"),
        (bool, "2"),
        (bool, ""),
        (int, "1.5"),
        (int, ""),
        (int, "abc"),
        (int, "inf"),
        (int, "nan"),
        (int, "1e-3"),
        (int, "1e400"),
        (int, "1e999999999999"),
        (int, "-1e99"),
        (int, "1e-999999999"),
        (int, "0x10"),
        (int, str(2**63)),
        (float, "x"),
        (float, "nan"),
        (float, "inf"),
        (float, "1e999"),
        (float, "1e39"),
        (float, "-1e-300"),
        (float, "True"),
        (Literal["gru", "lstm"], "GRU"),
        (tuple[int, ...], "1 x"),
        (int | None, "nothing"),
    ],
)
def test_words_that_are_no_value_are_refused(annotation: Any, word: str):
    with pytest.raises(DisallowedValueError):
        make_value_type(annotation, NO_LIMITS).from_words([word])


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, True),
        (int, 1.0),
        (int, "1"),
        (int, None),
        (int, 2**63),
        (float, True),
        (float, "1.0"),
        (float, float("nan")),
        (float, 10**400),
        (bool, 1),
        (bool, "True"),
        (str, 1),
        (tuple[int, ...], 5),
        (tuple[int, ...], "5"),
        (tuple[int, ...], [1, "2"]),
        (tuple[int, ...], {"a": 1}),
        (Literal["gru", "lstm"], "rnn"),
        (Literal["gru", "lstm"], ["gru"]),
    ],
)
def test_typed_values_of_another_type_are_refused(annotation: Any, value: object):
    with pytest.raises(DisallowedValueError):
        make_value_type(annotation, NO_LIMITS).check(value)


def test_typed_values_get_the_exact_type_of_the_field():
    assert type(make_value_type(float, NO_LIMITS).check(255)) is float
    assert make_value_type(tuple[int, ...], NO_LIMITS).check([1, 2]) == (1, 2)
    assert make_value_type(tuple[float, ...], NO_LIMITS).check([1]) == (1.0,)
    assert make_value_type(int | None, NO_LIMITS).check(None) is None


@pytest.mark.parametrize(
    ("limits", "inside", "outside"),
    [
        (Limits(minimum=1), [1, 2], [0, -1]),
        (Limits(above=0), [0.001, 5], [0, -1]),
        (Limits(maximum=1), [1, -9], [1.01]),
        (Limits(below=1), [0.99], [1, 2]),
        (Limits(minimum=1, also=-1), [-1, 1], [0, -2]),
        (Limits(minimum=0, maximum=1), [0, 1, 0.5], [-0.1, 1.1]),
    ],
)
def test_limits(limits: Limits, inside: list[float], outside: list[float]):
    assert all(limits.allows(number) for number in inside)
    assert not any(limits.allows(number) for number in outside)


def test_limits_count_for_each_item_of_a_list():
    widths = make_value_type(tuple[int, ...], Limits(minimum=1))
    assert widths.from_words(["1", "2"]) == (1, 2)
    with pytest.raises(DisallowedValueError, match=r"holds '0', which is out of range"):
        widths.from_words(["1", "0"])
    with pytest.raises(DisallowedValueError, match=r"holds 0, which is out of range"):
        widths.check([1, 0])


def test_a_text_rule_counts_for_words_and_typed_values():
    name = make_value_type(str, NO_LIMITS, NOT_EMPTY)
    assert name.from_words(["reward"]) == "reward"
    with pytest.raises(DisallowedValueError, match="is empty"):
        name.from_words([""])
    with pytest.raises(DisallowedValueError, match="is empty"):
        name.check("  ")


def test_the_nearest_choice_is_named():
    with pytest.raises(DisallowedValueError, match=r"did you mean lstm\?"):
        make_value_type(Literal["gru", "lstm"], NO_LIMITS).from_words(["ltsm"])


@pytest.mark.parametrize(
    ("annotation", "limits", "description"),
    [
        (int, PORTS, "a whole number, at least 1 and at most 9"),
        (float, Limits(above=0, also=-1), "a number, above 0, or -1"),
        (float, Limits(above=0.5), "a number, above 0.5"),
        (int, Limits(maximum=2**32 - 1), "a whole number, at most 4294967295"),
        (bool, NO_LIMITS, "True or False"),
        (Literal["a", "b", "c"], NO_LIMITS, "a, b or c"),
        (Literal["CHW"], NO_LIMITS, "CHW"),
        (tuple[int, ...], Limits(minimum=1), "a list of whole numbers, each at least 1"),
        (tuple[str, ...] | None, NO_LIMITS, "a list of words, or None"),
    ],
)
def test_what_is_allowed_is_described(annotation: Any, limits: Limits, description: str):
    assert make_value_type(annotation, limits).describe() == description


@pytest.mark.parametrize(
    "annotation", [dict[str, int], list[int], tuple[int, int], int | str, Literal[1, 2], tuple[tuple[int, ...], ...]]
)
def test_annotations_that_no_flag_can_have_are_refused(annotation: Any):
    with pytest.raises(TypeError, match="a flag cannot have the type"):
        make_value_type(annotation, NO_LIMITS)


@pytest.mark.parametrize(
    ("value", "text"),
    [((512, 512), "512 512"), ((), ""), (120.0, "120"), (1e-06, "1e-06"), (1e10, "10000000000"), (None, "None")],
)
def test_values_are_shown_as_on_a_command_line(value: object, text: str):
    assert show_value(value) == text


FREE = make_value_type(dict[str, Any], NO_LIMITS)


def test_values_of_free_form_are_json_on_the_command_line_and_come_back_as_they_are_shown():
    value = {"size": 5, "walls": [[0, 1.5], []], "names": {"a b": None, "is_on": True}}
    assert FREE.from_words([show_value(value)]) == FREE.check(value) == value
    assert FREE.check({"pair": (1, "x")}) == {"pair": [1, "x"]}, "as JSON gives it back"
    given = {"inner": {"n": 1}}
    FREE.check(given)["inner"]["n"] = 2
    assert given == {"inner": {"n": 1}}
    assert make_value_type(dict[str, Any] | None, NO_LIMITS).from_words(["None"]) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "is no dictionary"),
        (
            {"a": [{"b": object}]},
            r"holds <class 'object'> of type type at \['a'\]\[0\]\['b'\], which cannot be written",
        ),
        ({"a": {1: 2}}, r"has the key 1 at \['a'\], and keys are texts"),
        ({"a": float("nan")}, r"holds nan of type float at \['a'\]"),
    ],
)
def test_what_no_file_of_options_can_hold_is_refused_with_its_place(value: Any, message: str):
    with pytest.raises(DisallowedValueError, match=message):
        FREE.check(value)


def test_what_contains_itself_is_refused():
    value: dict[str, Any] = {}
    value["again"] = value
    with pytest.raises(DisallowedValueError, match="contains itself"):
        FREE.check(value)


@pytest.mark.parametrize("word", ["size: 5", "[1]", "[" * 100_000])
def test_words_that_are_no_dictionary_are_refused(word: str):
    with pytest.raises(DisallowedValueError, match=r"is not JSON|is no dictionary"):
        FREE.from_words([word])
