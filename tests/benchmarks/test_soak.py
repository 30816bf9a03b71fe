"""What a soak says of a run: growth of memory, and throughput at the end against that at the beginning."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time

import psutil
import pytest

from benchmarks import soak
from benchmarks.measuring.machine.machine_speed import FixedWork
from benchmarks.measuring.turns.old_and_new import NUM_PAIRS, Turns
from benchmarks.soak import Moment, Soak, describe, evaluate, find_problems, main, measure_mapped, watch


def moments(memory_of, fps_of, minutes=60, work_of=lambda minute: 2.0):
    frames, seen = 0.0, []
    for index in range(minutes * 6):
        seen.append(Moment(10.0 * index, frames, memory_of(index / 6), 1.0, work_of(index / 6)))
        frames += 10 * fps_of(index / 6)
    return seen


def test_memory_that_grows_only_at_first_does_not_count():
    figures = evaluate(moments(lambda minute: 500 + 100 * min(minute, 4), lambda minute: 1000))
    assert figures["memory_mib_per_minute"] == pytest.approx(0)
    assert figures["last_to_first"] == pytest.approx(1)


def test_memory_that_leaks_is_seen_by_the_minute():
    figures = evaluate(moments(lambda minute: 500 + 2.5 * minute, lambda minute: 1000))
    assert figures["memory_mib_per_minute"] == pytest.approx(2.5)


def test_record_files_that_fill_are_no_leak():
    looks = [
        dataclasses.replace(m, memory_mib=500 + 2 * m.time_s / 60, records_mib=1.5 * m.time_s / 60)
        for m in moments(lambda minute: 0, lambda minute: 1000)
    ]
    assert evaluate(looks)["memory_mib_per_minute"] == pytest.approx(0.5)


def test_what_is_mapped_of_a_folder_is_measured_for_all_processes(tmp_path):
    file = tmp_path / "run" / "filled"
    file.parent.mkdir()
    file.write_bytes(bytes(8 << 20))
    map_it = (
        f"import mmap; file = open('{file}', 'r+b'); memory = mmap.mmap(file.fileno(), 0); memory.write(bytes(8 << 20))"
    )
    with psutil.Popen([sys.executable, "-c", f"{map_it}; input()"], stdin=subprocess.PIPE) as process:
        try:
            for _ in range(1000):
                if (mib := measure_mapped(psutil.Process(), file.parent)) > 7.9:
                    break
                time.sleep(0.01)
            assert mib == pytest.approx(8)
            assert measure_mapped(process, tmp_path / "other") == 0
        finally:
            process.kill()


def test_a_run_that_becomes_slower_is_seen():
    figures = evaluate(moments(lambda minute: 500, lambda minute: 1000 if minute < 30 else 900))
    assert figures["last_to_first"] == pytest.approx(0.9)


def test_a_machine_that_becomes_slower_is_told_and_excuses_nothing():
    figures = evaluate(
        moments(lambda minute: 500, lambda minute: 1000 if minute < 30 else 900, work_of=lambda m: 2 + m)
    )
    assert figures["work_last_to_first"] == pytest.approx((2 + 55) / (2 + 5), abs=0.1)
    end = {"task": "doom_basic", "minutes": 60, "machine": "some", "commit": "1", "problems": [], "output": ""}
    assert "a fixed piece of work took 8.2" in describe(end | {"figures": figures})
    assert len(find_problems(figures)) == 1


def test_a_fixed_piece_of_work_takes_as_much_processor_time_as_its_passes(monkeypatch):
    now_s = iter([0.0, 3.0, 10.0, 11.0, 20.0, 22.0, 30.0, 39.0, 40.0, 41.0])
    monkeypatch.setattr("time.thread_time", lambda: next(now_s))
    assert FixedWork().measure() == 2.0


def test_a_new_run_in_turns_is_told_and_excuses_nothing(capsys, monkeypatch, tmp_path):
    looks = moments(lambda minute: 500, lambda minute: 1000 if minute < 30 else 900)
    turns = Turns(old=[100.0, 110.0, 90.0], new=[100.0, 110.0, 90.0])
    monkeypatch.setattr(soak, "watch", lambda *_: Soak(looks, 0, turns=turns))
    assert main(["--tasks=cartpole", "--learned=0", f"--output={tmp_path}"]) == 1
    assert "in turns with a new run: 1.000 of its throughput (1.000 to 1.000)" in capsys.readouterr().out
    end = lines_of(tmp_path, "cartpole")[-1]
    assert end["figures"]["old_to_new"] == pytest.approx(1)
    assert end["turns"]["old"] == [100.0, 110.0, 90.0]


def test_what_is_too_short_says_nothing():
    for number in (0, 1, 4):
        with pytest.raises(ValueError, match="too short"):
            evaluate(moments(lambda minute: 500, lambda minute: 1000, minutes=1)[:number])


@pytest.mark.parametrize(
    ("mib_per_minute", "last_fps", "problems"),
    [
        (0.5, 1000, []),
        (-3.0, 960, []),
        (0.99, 1000, ["memory grows by 1.04 MB a minute, more than 1"]),
        (0.0, 940, ["throughput at last is 0.940 of that at first, more than 5% off"]),
        (0.0, 1060, ["throughput at last is 1.060 of that at first, more than 5% off"]),
        (2.0, 500, ["memory grows by 2.10 MB", "throughput at last is 0.500"]),
    ],
)
def test_the_limits_are_held_to(mib_per_minute, last_fps, problems):
    seen = moments(lambda minute: 500 + mib_per_minute * minute, lambda minute: 1000 if minute < 30 else last_fps)
    found = find_problems(evaluate(seen))
    assert len(found) == len(problems)
    assert all(text.startswith(expected) for text, expected in zip(found, problems, strict=True))


@pytest.fixture
def soaked(monkeypatch):
    """Stand in for the runs; return which tasks were trained, and how memory grows and runs end."""
    trained, seen = [], {"growth": 0.0, "status": 0, "minutes": 60}

    def watch(command, folder, seconds, keep, num_pairs):
        trained.append("cartpole" if "--env=CartPole-v1" in command else "doom_basic")
        looks = moments(lambda minute: 500 + seen["growth"] * minute, lambda minute: 1000, seen["minutes"])
        for look in looks:
            keep(look)
        if seen["status"] == "interrupted":
            raise KeyboardInterrupt
        return Soak(looks, seen["status"], "its end" if seen["status"] else "")

    monkeypatch.setattr(soak, "watch", watch)
    monkeypatch.setattr(soak, "learn", lambda *_: Soak([], 0))
    return trained, seen


def lines_of(folder, task):
    return [json.loads(line) for line in (folder / f"soak-{task}.jsonl").read_text().splitlines()]


def test_every_look_is_a_line_and_the_end_has_status_and_problems(soaked, tmp_path):
    assert main(["--tasks=cartpole", f"--output={tmp_path}"]) == 0
    first, *looks, last = lines_of(tmp_path, "cartpole")
    assert (first["what"], first["task"], first["minutes"]) == ("begin", "cartpole", 60)
    assert len(looks) == 360 and {look["what"] for look in looks} == {"look"}
    assert looks[1]["time_s"] == 10 and looks[1]["memory_mib"] == 500
    assert (last["what"], last["status"], last["problems"]) == ("end", 0, [])
    assert first["machine"] == last["machine"] and first["commit"] == last["commit"]


def test_both_tasks_are_trained_though_the_first_one_fails(soaked, tmp_path, capsys):
    trained, seen = soaked
    seen["growth"] = 5.0
    assert main([f"--output={tmp_path}"]) == 1
    assert trained == ["cartpole", "doom_basic"]
    assert capsys.readouterr().out.count("FAILED: memory grows") == 2
    assert "memory grows" in lines_of(tmp_path, "doom_basic")[-1]["problems"][0]


def test_what_came_to_its_end_is_not_made_again_unless_it_failed_and_that_is_asked_for(soaked, tmp_path, capsys):
    trained, seen = soaked
    seen["status"] = 3
    for flags in ((), (), ("--again",), ()):
        assert main(["--tasks=cartpole", f"--output={tmp_path}", *flags]) == int(not trained[1:])
        seen["status"] = 0
    assert trained == ["cartpole", "cartpole"]
    assert main(["--tasks=cartpole", f"--output={tmp_path}", "--minutes=30"]) == 0
    assert len(trained) == 3, "that of another length is another one"
    assert main(["--tasks=cartpole", f"--output={tmp_path}", "--minutes=30", "--learned=0"]) == 0
    assert len(trained) == 4, "and so is that of a policy that has learned for another time"
    assert "FAILED: it ended with status 3\nits end" in capsys.readouterr().out


def test_one_that_was_interrupted_is_made_again_and_its_looks_stay(soaked, tmp_path):
    trained, seen = soaked
    seen["status"] = "interrupted"
    with pytest.raises(KeyboardInterrupt):
        main(["--tasks=cartpole", f"--output={tmp_path}"])
    assert len(lines_of(tmp_path, "cartpole")) == 361
    seen["status"] = 0
    assert main(["--tasks=cartpole", f"--output={tmp_path}"]) == 0
    assert len(trained) == 2


@pytest.mark.parametrize(
    ("status", "minutes", "problem"),
    [
        (None, 60, "it did not end within 240 s more"),
        (0, 40, "it was watched for 39.8 of 60 minutes"),
        (1, 0, "too short to say anything"),
    ],
)
def test_a_run_that_does_not_end_or_is_too_short_fails(soaked, tmp_path, status, minutes, problem):
    _, seen = soaked
    seen |= {"status": status, "minutes": minutes}
    assert main(["--tasks=cartpole", f"--output={tmp_path}"]) == 1
    assert any(text.startswith(problem) for text in lines_of(tmp_path, "cartpole")[-1]["problems"])


def test_a_soak_goes_on_with_what_was_learned_for_some_minutes(soaked, monkeypatch, tmp_path, capsys):
    learned = []
    monkeypatch.setattr(soak, "learn", lambda command, folder, seconds: learned.append(seconds) or Soak([], 0))
    assert main(["--tasks=cartpole", "--learned=6", f"--output={tmp_path}"]) == 0
    assert learned == [360] and lines_of(tmp_path, "cartpole")[-1]["learned"] == "6 minutes of learning"
    assert "cartpole, 60 minutes after 6 minutes of learning" in capsys.readouterr().out


def test_a_soak_goes_on_with_a_copy_of_a_run_that_has_learned(soaked, monkeypatch, tmp_path, capsys):
    checkpoint = tmp_path / "learned" / "checkpoint_p0" / "checkpoint_000000001_8.pth"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    (tmp_path / "learned" / "config.json").touch()  # of that run, with an end of its own
    flag, seen = f"--learned_run={tmp_path / 'learned'}", []

    def watch(command, folder, *_):
        seen.append((command, sorted(path.name for path in (folder / "run").rglob("*"))))
        return Soak([], 0)

    monkeypatch.setattr(soak, "watch", watch)
    monkeypatch.setattr(soak, "learn", lambda *_: pytest.fail("it has learned"))
    for _ in range(2):
        assert main(["--tasks=cartpole", flag, f"--output={tmp_path}"]) == 1, "nothing was seen of it"
    ((command, files),) = seen
    assert files == ["checkpoint_000000001_8.pth", "checkpoint_p0"]
    assert not [word for word in command if "frames" in word or "env_steps" in word]
    assert "cartpole, 60 minutes after checkpoint_000000001_8 of learned, " in capsys.readouterr().out
    checkpoint.rename(checkpoint.with_name("checkpoint_000000002_16.pth"))
    main(["--tasks=cartpole", flag, f"--output={tmp_path}"])
    assert len(seen) == 2, "one that has learned more is another one"
    for wrong in ([flag], ["--tasks=cartpole", "--learned_run=nowhere"]):
        with pytest.raises(SystemExit):
            main([*wrong, f"--output={tmp_path}"])


def test_where_nothing_could_be_learned_there_is_no_soak(soaked, monkeypatch, tmp_path):
    trained, _ = soaked
    monkeypatch.setattr(soak, "learn", lambda *_: Soak([], 7, "what it said"))
    assert main(["--tasks=cartpole", f"--output={tmp_path}"]) == 1
    assert trained == [] and "it ended with status 7" in lines_of(tmp_path, "cartpole")[-1]["problems"]


def test_what_a_soak_goes_on_with_lies_where_the_soak_looks_for_it(monkeypatch, tmp_path):
    save = "import sys; open(sys.argv[1].split('=')[1] + '/flags', 'w').write(' '.join(sys.argv[1:])); print('learned')"
    assert soak.learn([sys.executable, "-c", save], tmp_path, 60) == Soak([], 0)
    assert (tmp_path / "flags").read_text() == f"--train_dir={tmp_path} --experiment=run --train_for_seconds=60"
    failed = soak.learn([sys.executable, "-c", "import sys; sys.exit('no')"], tmp_path, 60)
    assert failed == Soak([], 1, "no\n")
    monkeypatch.setattr(soak, "_SPARE_S", 0.1)
    assert soak.learn([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, 0.1).status is None


def test_a_process_that_does_not_end_is_killed_and_what_was_seen_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr(soak, "_INTERVAL_S", 0.05)
    monkeypatch.setattr(soak, "_SPARE_S", 0.1)
    monkeypatch.setattr(soak, "look", lambda process, folder, log, time_s, work: [Moment(time_s, 1.0, 2.0, 3.0, 4.0)])
    kept = []
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    monkeypatch.setattr(soak, "turns_s", lambda num_pairs: 0.0)
    taken = []
    monkeypatch.setattr(soak, "take_turns", lambda *arguments: taken.append(arguments[1:]) or Turns([1.0], [2.0]))
    over = watch(command, tmp_path, 0.5, kept.append)
    assert taken == [(tmp_path / "run", command, tmp_path / "new", NUM_PAIRS)], "once"
    assert over.turns == Turns([1.0], [2.0])
    assert over.status is None and len(kept) > 2 and over.moments == kept


def test_without_turns_a_soak_is_a_soak_all_the_same(monkeypatch, tmp_path, capsys):
    def fail(*_):
        raise RuntimeError("it does not train")

    monkeypatch.setattr(soak, "_INTERVAL_S", 0.05)
    monkeypatch.setattr(soak, "take_turns", fail)
    over = watch([sys.executable, "-c", "import time; time.sleep(0.5)"], tmp_path, 0.1, lambda _: None)
    assert (over.status, over.turns) == (0, Turns())
    assert "Nothing is known of a new run in the place of this one: it does not train" in capsys.readouterr().err


def test_no_turns_are_taken_where_none_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(soak, "_INTERVAL_S", 0.05)
    monkeypatch.setattr(soak, "take_turns", lambda *_: pytest.fail("turns"))
    over = watch([sys.executable, "-c", "import time; time.sleep(0.5)"], tmp_path, 0.1, lambda _: None, 0)
    assert (over.status, over.turns) == (0, Turns())


def test_the_output_of_a_run_that_fails_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(soak, "_INTERVAL_S", 0.01)
    over = watch([sys.executable, "-c", "print('too bad'); exit(3)"], tmp_path, 5.0, lambda _: None)
    assert (over.status, over.output) == (3, "too bad\n")


def test_a_run_that_ends_or_has_ended_is_not_looked_at(monkeypatch, tmp_path):
    """It has let go of its memory, so that growth before would be taken for less."""
    monkeypatch.setattr(soak, "_INTERVAL_S", 0.02)
    monkeypatch.setattr(soak, "take_turns", lambda *_: Turns())
    looks = []

    def look(process, folder, log, time_s, work):
        looks.append((process.poll(), time_s))
        return []

    monkeypatch.setattr(soak, "look", look)
    for program, seconds in (("import time; time.sleep(0.7)", 0.3), ("pass", 9.0)):
        watch([sys.executable, "-c", program], tmp_path, seconds, lambda _: None)
        assert all(status is None and time_s <= seconds for status, time_s in looks)
