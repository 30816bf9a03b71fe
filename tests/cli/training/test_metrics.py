"""A run's figures in the form of OpenMetrics, and who answers with them."""

from __future__ import annotations

import math
import re
import urllib.request

import pytest

from sample_profiler.cli.training.metrics import CONTENT_TYPE, MetricsServer, format_metrics

SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\} (-?[\d.e+-]+)')


def read_samples(text):
    """Values by name and labels; fails where a line is none of the format's."""
    *lines, end = text.splitlines()
    assert end == "# EOF" and text.endswith("# EOF\n")
    found, types = {}, {}
    for line in lines:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, "a family is told of once"
            types[name] = kind
        elif not line.startswith("# HELP "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            family = name.removesuffix("_total")
            assert types[family] == ("counter" if name.endswith("_total") else "gauge")
            found[name, labels] = float(value)
    return found


def test_all_figures_are_there_with_run_and_policy(make_status):
    found = read_samples(format_metrics("doom", make_status()))
    assert found["sample_profiler_trained_frames_total", 'run="doom",policy="0"'] == 12_000
    assert found["sample_profiler_trained_frames_total", 'run="doom",policy="1"'] == 3_000
    assert found["sample_profiler_frames_per_second", 'run="doom",window="60"'] == 1000.4
    assert found["sample_profiler_episode", 'run="doom",policy="0",name="reward"'] == 1.25
    assert found["sample_profiler_training", 'run="doom",policy="0",name="train/loss"'] == 0.5
    assert found["sample_profiler_progress_ratio", 'run="doom"'] == 0.125


def test_names_may_be_anything_and_what_is_no_number_is_left_out(make_status):
    name = 'a"b\\c\nd\udc80'
    status = make_status(episodes={0: {name: 1.0, "nothing": math.nan, "much": math.inf}, 1: {}})
    found = read_samples(format_metrics(name, status))
    run = 'run="a\\"b\\\\c\\nd\\\\udc80"'
    assert found["sample_profiler_episode", f'{run},policy="0",name="a\\"b\\\\c\\nd\\\\udc80"'] == 1.0
    assert not any("nothing" in labels or "much" in labels for _, labels in found)


@pytest.fixture
def server():
    server = MetricsServer("doom", 0)
    yield server
    server.close()


def test_who_scrapes_gets_the_latest_second(server, make_status):
    address = f"http://127.0.0.1:{server.port}/metrics"
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        assert answer.read() == b"# EOF\n"
    server.on_status(make_status())
    with urllib.request.urlopen(address) as answer:
        assert answer.read().decode() == format_metrics("doom", make_status())


def test_nobody_answers_once_the_run_has_ended(server):
    server.on_stop(None)
    server.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics")


def test_a_port_that_is_taken_is_an_error(server):
    with pytest.raises(OSError, match="in use"):
        MetricsServer("other", server.port)
