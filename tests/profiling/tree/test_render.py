"""The tree and the flat list, exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sample_profiler.profiling import Timing


def test_tree_is_exactly_as_specified(make_timing, clock):
    timing = make_timing("Learner 0 profile", clock_ns=clock)
    with timing.add_time("misc"):
        clock.pass_s(0.0037)
    with timing.add_time("train"):
        clock.spend(timing, "epoch_init", 0.0037)
        with timing.add_time("calculate_losses"):
            clock.spend(timing, "losses_init", 0.0021)
            clock.spend(timing, "forward_head", 0.4746)
            clock.pass_s(10.2242 - 0.0021 - 0.4746)
        clock.spend(timing, "minibatch_init", 0.0038)
        clock.spend(timing, "losses_postprocess", 0.1654)
        clock.pass_s(28.5942 - 0.0037 - 10.2242 - 0.0038 - 0.1654)
    clock.spend(timing, "prepare_batch", 8.0517)
    expected = """\
Learner 0 profile tree view:
misc: 0.0037, prepare_batch: 8.0517
train: 28.5942
  epoch_init: 0.0037, minibatch_init: 0.0038, losses_postprocess: 0.1654
  calculate_losses: 10.2242
    losses_init: 0.0021, forward_head: 0.4746"""
    assert timing.tree_str() == expected
    assert str(timing) == expected


def test_tree_keeps_each_block_below_its_own_line(timing, clock):
    for parent in ("a", "b"):
        with timing.add_time(parent), timing.add_time("x"):
            clock.spend(timing, "y", 1)
    assert str(timing) == (
        "Test tree view:\na: 1.0000\n  x: 1.0000\n    y: 1.0000\nb: 1.0000\n  x: 1.0000\n    y: 1.0000"
    )


def test_tree_of_nothing_is_its_title(timing):
    assert str(timing) == "Test tree view:"
    assert timing.flat_str() == ""


def test_flat_str_shows_each_key_once(timing, clock):
    with timing.add_time("a"):
        clock.spend(timing, "x", 1)
    clock.spend(timing, "x", 0.5)
    assert timing.flat_str() == "a: 1.0000, x: 1.5000"


def test_tree_shows_no_parent_smaller_than_its_children(timing, clock):
    for _ in range(3):
        with timing.timeit("wait_policy"):
            clock.spend(timing, "wait_policy_total", 1)
    assert timing["wait_policy"] == 1.0
    assert str(timing) == "Test tree view:\nwait_policy: 3.0000\n  wait_policy_total: 3.0000"


def test_tree_shows_the_last_pass_where_its_children_show_less(timing, clock):
    for seconds in (5, 2):
        with timing.timeit("step"):
            clock.spend(timing, "inner", seconds, "timeit")
            clock.pass_s(1)
    assert str(timing) == "Test tree view:\nstep: 3.0000\n  inner: 2.0000"


BLOCKS = st.recursive(
    st.integers(0, 50),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["add_time", "timeit", "time_avg"]), inner),
        max_size=4,
    ),
    max_leaves=12,
)


@given(blocks=BLOCKS)
def test_tree_never_shows_a_parent_smaller_than_the_sum_of_its_children(blocks):
    now = [0]
    timing = Timing("Random", clock_ns=lambda: now[0])

    def run(content):
        if isinstance(content, int):
            now[0] += content * 100_000  # multiples of what four decimals show, so that rounding plays no part
            return
        for key, method, inner in content:
            with getattr(timing, method)(f"{key}_{method}"):
                run(inner)

    run(blocks)
    sums = {}
    for line in reversed(str(timing).splitlines()[1:]):
        depth = (len(line) - len(line.lstrip())) // 2
        for entry in line.split(", "):
            value = float(entry.rsplit(": ", 1)[1])
            # A time_avg rounds its mean, so each child may show up to half a digit more.
            assert value + 0.0005 >= sums.pop(depth + 1, 0.0)
            sums[depth] = sums.get(depth, 0.0) + value


def test_what_a_terminal_would_obey_or_cannot_show_is_escaped(timing, clock):
    clock.spend(timing, "\x1b[31mred\nblock \udcff ä", 1)
    timing.name = "A\rname"
    assert str(timing) == "A\\rname tree view:\n\\x1b[31mred\\nblock \\udcff ä: 1.0000"
    assert timing.flat_str() == "\\x1b[31mred\\nblock \\udcff ä: 1.0000"
