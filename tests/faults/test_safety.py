"""Files from elsewhere execute nothing, names stay inside the run's folder, and pages show markup as text."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.runs import CARTPOLE, SMALL, run
from sample_profiler.cli.main import main
from sample_profiler.cli.train import train
from sample_profiler.cli.training import training as training_module
from sample_profiler.cli.training import training_run as training_run_module
from sample_profiler.config import parse_config, save_config
from sample_profiler.envs import register_env, registry
from sample_profiler.profiling import Session, Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import read_live
from sample_profiler.run.env_probe import begin_local_probe
from sample_profiler.run.run import RunResult
from sample_profiler.run_folder import RunFolder
from sample_profiler.storage.checkpoints import CheckpointFolder
from sf_examples.gym.enjoy_gym import main as enjoy

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


class Payload:
    """Makes a file when somebody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self._mark), "w")


def make_run(folder: Path) -> None:
    live = RunFolder(folder).live().path
    live.mkdir(parents=True)
    timing = Timing("Runner profile")
    with RecordFileOf(live / "Runner.1.rec", timing), timing.add_time("main_loop"):
        pass
    session = read_live(folder)
    session.run |= {"reason": "over", "history": {"fps": [[1.0, 1.0], [2.0, 3.0]]}}
    session.save(RunFolder(folder).session)
    session.save(RunFolder(folder).steady)


class RecordFileOf:
    def __init__(self, path: Path, timing: Timing) -> None:
        self._file = RecordFile(path, process_name="Runner", ring_bytes=4096, num_slots=16)
        self._file.attach(timing, "Runner")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._file.close()


@pytest.mark.parametrize("kind", ["config.json", "session", "steady", "record file"])
def test_a_pickle_in_place_of_a_file_is_refused_and_not_executed(tmp_path, capsys, kind):
    folder, mark = tmp_path / "run", tmp_path / "executed"
    make_run(folder)
    paths = {
        "config.json": folder / "config.json",
        "session": RunFolder(folder).session,
        "steady": RunFolder(folder).steady,
        "record file": next(RunFolder(folder).live().path.iterdir()),
    }
    paths[kind].write_bytes(pickle.dumps(Payload(mark)))
    if kind == "session":
        shutil.rmtree(RunFolder(folder).live().path)
    for command in ("status", "report", "trace"):
        main([command, str(folder)])
    status = main(["diff", str(folder), str(folder)])
    assert (status == 2) or kind != "steady"
    if kind == "config.json":
        assert train(["--env=x", "--experiment=run", f"--train_dir={tmp_path}"]) == 2
    assert not mark.exists()
    assert "Traceback" not in capsys.readouterr().err


def test_a_malicious_checkpoint_is_refused_by_a_run_and_by_its_player(tmp_path: Path) -> None:
    flags = (*CARTPOLE, *SMALL, "--serial_mode=True", "--device=cpu", "--train_for_env_steps=200")
    assert run(*flags, folder=tmp_path).returncode == 0
    mark, folder = tmp_path / "executed", tmp_path / "run" / "checkpoint_p0"
    for path in folder.glob("*.pth"):
        path.unlink()
    evil = folder / "checkpoint_000000099_9999.pth"
    torch.save({"model": Payload(mark), "frames": 1}, evil)
    content = evil.read_bytes()
    result = run(*flags, folder=tmp_path)
    assert result.returncode == 1
    assert "Cannot read the checkpoint" in result.stdout
    assert "none of the 1 checkpoints" in result.stdout
    assert "Traceback" not in result.stdout
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        status = enjoy(["--env=CartPole-v1", "--experiment=run", f"--train_dir={tmp_path}", "--no_render"])
    assert status == 2
    assert "none of the 1 checkpoints" in errors.getvalue()
    assert not mark.exists(), "the payload was executed"
    assert evil.read_bytes() == content
    # It would have been, by whoever is not careful.
    torch.load(evil, weights_only=False)["model"].close()
    assert mark.exists()


class Quiet:
    """An environment that nobody steps."""

    def __new__(cls) -> Any:
        import gymnasium

        return gymnasium.make("CartPole-v1")


@pytest.fixture
def begin(monkeypatch, tmp_path):
    """Start a run that ends at once, and return its exit status."""
    monkeypatch.setattr(registry, "_makers", {})
    for name in ("mine/with/slashes", "../../escape", EVIL):
        register_env(name, lambda *_, **__: Quiet())

    def execute(config, env_spec, device, folder, observers, *_):
        for observer in observers:
            observer.on_stop(None)
        CheckpointFolder(folder, 0, 1).save({"a": 1}, 1, 1)
        session = Session(created_s=1.0, config=dict(config.values()), run={"reason": EVIL})
        return RunResult(None, "over", None, {0: 1}, 1.0, 1.0, 1.0, {}, session, session, {})

    monkeypatch.setattr(training_run_module, "execute_run", execute)
    monkeypatch.setattr(training_module, "begin_probe", begin_local_probe)
    home = tmp_path / "work" / "train_dir"

    def begin(*flags: str) -> int:
        return train(["--device=cpu", "--num_workers=1", f"--train_dir={home}", *flags])

    return begin


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "experiment",
    ["../x", "a/../../x", "/tmp/x", "~/x", "a\0b", "a\nb", "..", ".", "", "a//../b", "a\\..\\b", "x" * 300],
)
def test_an_experiment_stays_below_its_folder(begin, tmp_path, experiment):
    assert begin("--env=mine/with/slashes", f"--experiment={experiment}") == 2
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("env", ["mine/with/slashes", "../../escape", EVIL])
def test_names_of_environments_are_in_no_path(begin, tmp_path, env):
    assert begin(f"--env={env}", "--experiment=mine") == 0
    folder = tmp_path / "work" / "train_dir" / "mine"
    assert folder / "config.json" in folder.iterdir()
    assert all(name.startswith("work/train_dir/mine/") for name in files_below(tmp_path))
    assert not [name for name in files_below(tmp_path) if "slashes" in name or "escape" in name or "script" in name]


def test_overwriting_never_follows_a_link_out_of_train_dir(begin, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    (precious / "config.json").write_text("{}")
    (tmp_path / "work" / "train_dir").mkdir(parents=True)
    (tmp_path / "work" / "train_dir" / "mine").symlink_to(precious)
    assert begin("--env=mine/with/slashes", "--experiment=mine", "--restart_behavior=overwrite") == 2
    assert (precious / "thesis.txt").read_text() == "mine"


def test_overwriting_never_follows_a_link_on_the_way_to_the_folder(begin, tmp_path):
    precious = tmp_path / "precious"
    (precious / "mine").mkdir(parents=True)
    (precious / "mine" / "config.json").write_text("{}")
    (tmp_path / "work" / "train_dir").mkdir(parents=True)
    (tmp_path / "work" / "train_dir" / "group").symlink_to(precious)
    assert begin("--env=mine/with/slashes", "--experiment=group/mine", "--restart_behavior=overwrite") == 2
    assert (precious / "mine" / "config.json").read_text() == "{}"


@pytest.mark.parametrize("is_dangling", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        *("log.txt", "checkpoint_p0", "checkpoint_p7", "checkpoint_p0/milestones", "profile", "profile/live"),
        *("profile/captures", "summary", "summary/0"),
    ],
)
def test_a_run_that_goes_on_follows_no_link_out_of_its_folder(begin, tmp_path, capfd, name, is_dangling):
    assert begin("--env=mine/with/slashes", "--experiment=mine") == 0
    link, precious = tmp_path / "work" / "train_dir" / "mine" / name, tmp_path / "precious"
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(precious)
    if not is_dangling and name == "log.txt":
        precious.write_text("mine")
    elif not is_dangling:
        precious.mkdir()
    capfd.readouterr()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert begin("--env=mine/with/slashes", "--experiment=mine") == 2
    assert f"{link} is a link" in "".join(capfd.readouterr())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert precious.exists() != is_dangling
    assert begin("--env=mine/with/slashes", "--experiment=mine", "--restart_behavior=restart") == 0


COMMAND_TO_TERMINAL = "\x1b]52;c;aGk=\x07"  # writes to the clipboard


@pytest.mark.parametrize(
    "flags",
    [
        {COMMAND_TO_TERMINAL: {"value": 1, "origin": "default"}},
        {COMMAND_TO_TERMINAL: "no entry"},
        {"env": {"value": f"os:{COMMAND_TO_TERMINAL}", "origin": "command line"}},
        {"experiment": {"value": COMMAND_TO_TERMINAL, "origin": "command line"}},
    ],
    ids=["a flag", "an entry", "an environment", "a value"],
)
@pytest.mark.parametrize("command", ["train", "enjoy"])
def test_a_configuration_cannot_command_a_terminal(begin, tmp_path, capfd, command, flags):
    folder = tmp_path / "work" / "train_dir"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "config.json").write_text(json.dumps({"format": 1, "flags": flags}))
    if command == "train":
        assert begin("--experiment=mine") == 2
    else:
        assert enjoy(["--experiment=mine", f"--train_dir={folder}", "--no_render"]) == 2
    output = "".join(capfd.readouterr())
    assert "\\x1b]52;c;aGk=\\x07" in output
    assert "\x1b" not in output and "\x07" not in output


@pytest.mark.parametrize("command", ["status", "report", "watch", "trace"])
def test_names_of_files_cannot_command_a_terminal(tmp_path, capsys, command):
    folder = tmp_path / f"run{COMMAND_TO_TERMINAL}"
    folder.mkdir()
    assert main([command, str(folder)]) == 2
    error = capsys.readouterr().err
    assert "\\x1b]52;c;aGk=\\x07" in error
    assert "\x1b" not in error and "\x07" not in error


@pytest.mark.parametrize("command", ["status", "report", "diff", "trace"])
def test_names_of_files_cannot_command_a_terminal_in_what_is_no_error(tmp_path, capfd, command):
    folder = tmp_path / f"run{COMMAND_TO_TERMINAL}"
    make_run(folder)
    assert main([command, *[str(folder)] * (2 if command == "diff" else 1)]) == (2 if command == "diff" else 0)
    output = "".join(capfd.readouterr())
    assert "\\x1b]52;c;aGk=\\x07" in output or command == "status"
    assert "\x1b" not in output and "\x07" not in output


def test_a_log_that_is_a_pipe_is_not_waited_for(begin, tmp_path, capfd):
    assert begin("--env=mine/with/slashes", "--experiment=mine") == 0
    log = tmp_path / "work" / "train_dir" / "mine" / "log.txt"
    log.unlink()
    os.mkfifo(log)
    assert begin("--env=mine/with/slashes", "--experiment=mine") == 2
    assert f"{log} is no file but a folder, a pipe or a device" in "".join(capfd.readouterr())


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.handlers: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]

    handle_startendtag = handle_starttag


def test_a_page_shows_markup_as_text_wherever_it_comes_from(tmp_path, capsys):
    folder = tmp_path / "<script>alert(1)<b>"
    make_run(folder)
    shutil.rmtree(RunFolder(folder).live().path)
    for path in (RunFolder(folder).session, RunFolder(folder).steady):
        document = json.loads(path.read_text())
        document["run"] |= {"reason": EVIL, "failure": EVIL, "history": {EVIL: [[1.0, 1.0], [2.0, 3.0]]}}
        document["machine"] = {EVIL: EVIL, "host": EVIL}
        document["config"] = {EVIL: EVIL, "encoder_mlp_layers": [EVIL]}
        document["problems"] = [EVIL]
        (process,) = document["processes"]
        rows = [row | {"key": EVIL} for row in process["trees"]["Runner"]]
        names = (EVIL, f"RolloutWorker_w0{EVIL}", f"Learner_0{EVIL}")
        process |= {"name": EVIL, "host": EVIL, "metadata": {EVIL: EVIL}, "thread_names": {"1": EVIL}}
        process |= {"trees": dict.fromkeys(names, rows), "titles": dict.fromkeys(names, EVIL)}
        process["open_blocks"] = [[EVIL, [EVIL], 1, 1]]
        process["gauges"] = {EVIL: {"value": 1.0, "min": 1.0, "max": 1.0, "count": 1, "updated_ns": 1}}
        path.write_text(json.dumps(document))
    assert main(["report", str(folder)]) == 0, capsys.readouterr().err
    page = (folder / "report.html").read_text()
    assert page.count("alert(1)") > 20
    tags = Tags(page)
    assert not tags.tags & {"script", "img"}
    assert tags.handlers == []


def test_the_page_of_a_run_shows_its_environment_as_text(begin, tmp_path):
    assert begin(f"--env={EVIL}", "--experiment=<script>alert(1)<b>") == 0
    page = (tmp_path / "work" / "train_dir" / "<script>alert(1)<b>" / "report.html").read_text()
    assert "alert(1)" in page
    tags = Tags(page)
    assert not tags.tags & {"script", "img"}
    assert tags.handlers == []


def test_a_saved_configuration_names_no_code(tmp_path):
    """Values are checked against their fields' types, so there is no way to name a class or a function."""
    config = parse_config(["--env=x", "--num_workers=1"])
    save_config(config, tmp_path / "config.json")
    document = json.loads((tmp_path / "config.json").read_text())
    kinds = {type(entry["value"]) for entry in document["flags"].values()}
    assert kinds <= {str, int, float, bool, list, type(None)}
