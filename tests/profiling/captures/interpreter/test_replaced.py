"""Functions of others that are ours for a while."""

from __future__ import annotations

from types import SimpleNamespace

from sample_profiler.profiling.captures.interpreter.replaced import Replaced


def make_owner():
    return SimpleNamespace(first=lambda: "first", second=lambda: "second")


def test_functions_are_replaced_and_put_back():
    owner, replaced = make_owner(), Replaced()
    originals = vars(owner).copy()
    replaced.replace(owner, "first", lambda original: lambda: f"before {original()}")
    replaced.replace(owner, "second", lambda original: lambda: f"before {original()}")
    assert (owner.first(), owner.second()) == ("before first", "before second")
    replaced.put_back()
    assert vars(owner) == originals
    replaced.put_back()
    assert vars(owner) == originals


def test_two_of_ours_in_one_place_are_put_back_in_any_order():
    owner = make_owner()
    original = owner.first
    one, two = Replaced(), Replaced()
    one.replace(owner, "first", lambda original: lambda: f"one {original()}")
    two.replace(owner, "first", lambda original: lambda: f"two {original()}")
    assert owner.first() == "two one first"
    two.put_back()
    one.put_back()
    assert owner.first is original


def test_what_somebody_else_has_put_there_meanwhile_stays():
    owner, replaced = make_owner(), Replaced()
    replaced.replace(owner, "first", lambda original: original)
    owner.first = theirs = lambda: "theirs"
    del owner.second
    replaced.put_back()
    assert owner.first is theirs
