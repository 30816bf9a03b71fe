"""Tests of the package itself: what importing it costs and which names it has."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sample_profiler
from sample_profiler import timers

ROOT = Path(__file__).parents[2]


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_package_and_options_loads_neither_torch_nor_numpy():
    code = (
        "import sys, sample_profiler, sample_profiler.errors, sample_profiler.config\n"
        "print([name for name in ('torch', 'numpy', 'gymnasium', 'rich') if name in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


def test_public_names_load_on_first_use():
    code = (
        "import sys, sample_profiler\n"
        "before = 'sample_profiler.profiling' in sys.modules\n"
        "from sample_profiler import Timing, get_timing\n"
        "from sample_profiler.profiling import Timing as direct\n"
        "print(before, Timing is direct, callable(get_timing), 'torch' in sys.modules)"
    )
    assert run_python(code).strip() == "False True True False"


def test_a_script_can_be_recorded_and_read_with_names_of_the_package_alone(tmp_path):
    code = (
        "import sys\n"
        "from sample_profiler import profile_session, read_session\n"
        f"with profile_session({str(tmp_path)!r}) as timing, timing.add_time('step'):\n"
        "    pass\n"
        f"(record,) = read_session({str(tmp_path)!r}).processes\n"
        "print(record.trees['main'].children['step'].statistics.count, 'torch' in sys.modules)"
    )
    assert run_python(code).strip() == "1 False"


def test_every_public_name_is_listed_and_exists():
    assert set(sample_profiler.__all__) <= set(dir(sample_profiler))
    assert set(sample_profiler.__all__) == {
        *("Collector", "Timing", "__version__", "enjoy", "evaluate", "get_timing", "register_env", "train"),
        *("as_remote", "profile_range", "profile_session", "read_session", "set_profiling_enabled"),
        *(
            *("Run", "RunComponent", "RunObserver", "register_actor_critic", "register_core", "register_decoder"),
            *("Policy", "PolicyEvaluation", "load_policy"),
        ),
        "register_encoder",
        "register_policy_mapping",
        *timers.__all__,
    }
    assert all(getattr(sample_profiler, name) is not None for name in sample_profiler.__all__)


def test_what_the_docs_name_is_where_they_say():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        name for page in pages for name in re.findall(r"\bsample_profiler(?:\.\w+)+", page.read_text(encoding="utf-8"))
    }
    assert {"sample_profiler.train", "sample_profiler.profiling.device_clock"} <= named
    for name in named:
        assert pkgutil.resolve_name(name) is not None
    from sample_profiler.profiling.device_clock import NoDevice, device_clock_for

    assert isinstance(device_clock_for("cpu"), NoDevice)


def test_an_unknown_name_is_an_attribute_error_that_lists_the_public_ones():
    with pytest.raises(AttributeError, match=r"'timing'.*public names: .*Timing"):
        _ = sample_profiler.timing
