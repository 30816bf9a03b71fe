"""`sample-profiler diff`: of runs that ended well, were killed, or are no runs of this framework."""

from __future__ import annotations

import pytest

from sample_profiler.cli.main import main
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import profile_session, read_live
from sample_profiler.run_folder import RunFolder

S = 1_000_000_000


@pytest.fixture
def make_run(tmp_path):
    """Leave a run of one second; whether it has a steady part, and which is its machine, are given.

    The steady part is all of it; nothing is trained on in it if the run is idle.
    """

    def make(name, fps, *, passes=10, host="here", is_steady=True, is_idle=False):
        folder = tmp_path / name
        RunFolder(folder).live().path.mkdir(parents=True)
        for process in ("Runner", "Learner_0"):
            timing = Timing(f"{process} profile")
            file = RecordFile(RunFolder(folder).live().record(process, 1), process_name=process, ring_bytes=0)
            file.attach(timing, process)
            for _ in range(passes):
                with timing.add_time("main_loop"), timing.add_time("train"), timing.add_time("backward"):
                    pass
            if fps:
                file.set_gauge(f"{process}/frames", fps)
            file.close()
        session = read_live(folder, with_events=False)
        session.machine["host"] = host
        for record in session.processes:
            record.trees[record.name].statistics.total_ns = S
        session.save(RunFolder(folder).session)
        for record in session.processes if is_idle else ():
            record.gauges.clear()
        if is_steady:
            session.save(RunFolder(folder).steady)
        for path in RunFolder(folder).live().path.iterdir():
            path.unlink()
        return str(folder)

    return make


def test_a_difference_can_fail_a_build(make_run, capsys):
    a, b = make_run("a", 1000), make_run("b", 900)
    assert main(["diff", a, b]) == 0
    output = capsys.readouterr().out
    assert "900 frames/s over 1 s, -10.0 %" in output
    assert "interval" not in output, "one run of each has none"
    assert main(["diff", a, b, "--fail-over", "5%"]) == 1
    assert main(["diff", b, a, "--fail-over", "5%"]) == 0


def test_counts_come_before_what_the_clock_says(make_run, capsys):
    assert main(["diff", make_run("a", 1000), make_run("b", 1000, passes=20)]) == 0
    output = capsys.readouterr().out
    assert output.index("passes per 1,000 frames") < output.index("frames/s") < output.index("time per frame")


def test_any_loss_can_fail_a_build(make_run, capsys):
    a, b = make_run("a", 1000), make_run("b", 999)
    assert main(["diff", a, b, "--fail-over", "0"]) == 1
    assert "B is slower by more than 0 %" in capsys.readouterr().err
    assert main(["diff", b, a, "--fail-over", "0%"]) == 0
    assert main(["diff", a, a, "--fail-over", "0"]) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["diff", a, b, "--fail-over", "-1"])


def test_runs_of_different_machines_are_compared_only_if_asked(make_run, capsys):
    runs = [make_run("a", 1000), make_run("b", 900, host="there")]
    assert main(["diff", *runs]) == 2
    assert "host here and there" in capsys.readouterr().err
    assert main(["diff", *runs, "--allow-different-machines"]) == 0


def test_killed_runs_of_other_machines_are_told_apart_by_the_names_in_their_records(tmp_path, capsys):
    for name, host in (("a", "one"), ("b", "other"), ("c", "one")):
        RunFolder(tmp_path / name).live().path.mkdir(parents=True)
        timing = Timing("main")
        path = RunFolder(tmp_path / name).live().record("main", 1)
        file = RecordFile(path, process_name="main", metadata={"host": host}, ring_bytes=0)
        file.attach(timing, "main")
        with timing.add_time("train"):
            pass
        file.close()
    a, b, c = (str(tmp_path / name) for name in "abc")
    assert main(["diff", a, b]) == 2
    assert "different machines (host one and other)" in capsys.readouterr().err
    assert main(["diff", a, c]) == 0
    assert main(["diff", a, b, "--allow-different-machines"]) == 0


def test_a_run_that_was_killed_is_compared_as_a_whole(make_run, capsys):
    killed, other = make_run("a", 1000, is_steady=False), make_run("b", 500, is_steady=False)
    assert main(["diff", killed, other]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"{killed} and {other} have no steady part: both are compared as a whole")
    assert "500 frames/s over 1 s, -50.0 %" in output
    assert main(["diff", killed, make_run("c", 500)]) == 0
    assert capsys.readouterr().out.startswith(f"{killed} has no steady part: both are compared as a whole")


def test_a_run_that_trained_on_nothing_in_its_steady_part_is_told_apart_from_one_without(make_run, capsys):
    idle = make_run("b", 500, is_idle=True)
    assert main(["diff", make_run("a", 1000), idle]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"{idle} trained on nothing in the steady part: both are compared as a whole")
    assert "500 frames/s over 1 s, -50.0 %" in output


def test_scripts_without_frames_are_compared_pass_by_pass(tmp_path, capsys):
    for name, passes in (("a", 1), ("b", 3)):
        with profile_session(tmp_path / name) as timing:
            for _ in range(passes):
                with timing.add_time("train"), timing.add_time("backward"):
                    pass
    runs = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["diff", *runs]) == 0
    output = capsys.readouterr().out
    assert f"{runs[0]} and {runs[1]} tell of no frames trained on, so blocks are compared pass by pass" in output
    assert "time per pass" in output and "main/train/backward" in output
    assert main(["diff", *runs, "--fail-over", "5%"]) == 2
    assert "no throughput for --fail-over" in capsys.readouterr().err


def test_runs_without_anything_in_common_are_told(make_run, tmp_path, capsys):
    with profile_session(tmp_path / "script") as timing, timing.add_time("train"):
        pass
    run = make_run("run", 1000, host="elsewhere", is_steady=False)
    assert main(["diff", run, str(tmp_path / "script"), "--allow-different-machines"]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'script'} tells of no frames trained on, and the runs have no block in common" in error


def test_folders_that_are_no_runs_are_told(tmp_path, capsys):
    assert main(["diff", str(tmp_path), str(tmp_path)]) == 2
    assert "has nothing to read" in capsys.readouterr().err
