"""The profiler alone: what it imports, and what the standalone examples leave for the tools to read."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

from sample_profiler.analysis.accounts import account
from sample_profiler.cli.main import main as command_line
from sample_profiler.errors import SessionError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.process_record import TIMERS, ProcessRecord
from sample_profiler.profiling.record.reader import EventFollower
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run_folder import RunFolder

pytestmark = pytest.mark.whole_run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "sf_examples" / "standalone"
PATIENCE_S = 60.0

with_sb3 = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None, reason="Stable-Baselines3 is not installed"
)


def command(module: str, run_dir: Path, num_steps: int) -> list[str]:
    flags = (f"--run_dir={run_dir}", f"--num_steps={num_steps}")
    return [sys.executable, "-m", f"sf_examples.standalone.{module}", *flags]


def run(module: str, run_dir: Path, num_steps: int) -> str:
    result = subprocess.run(
        command(module, run_dir, num_steps), capture_output=True, text=True, cwd=ROOT, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@contextmanager
def live_run(run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a training that would go on for long."""
    process = subprocess.Popen(command("ppo_cartpole", run_dir, 100_000_000), cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_training(run_dir: Path) -> ProcessRecord:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            record = only_process(read_session(run_dir))
        except SessionError:
            record = None
        if record is not None and record.trees.get("ppo") and "train" in record.trees["ppo"].children:
            return record
        time.sleep(0.1)
    raise AssertionError(f"no training within {PATIENCE_S} s")


def only_process(session: Session) -> ProcessRecord:
    (record,) = session.processes
    return record


def counts(node: TreeNode) -> dict[str, int]:
    return {key: child.statistics.count for key, child in node.children.items()}


def assert_nothing_is_lost(record: ProcessRecord, component: str) -> None:
    """All wall time is in the account, and in a whole recording no block is longer than the one around it."""
    parts = account(record, component)
    named_ns = sum(parts.work_ns.values()) + sum(parts.waits_ns.values())
    assert named_ns + parts.unaccounted_ns == parts.wall_ns
    assert 0 <= parts.unaccounted_ns < parts.wall_ns
    # Of a process that goes on, what is inside is read a little later.
    for node in record.trees[component].walk() if record.is_closed else ():
        assert sum(child.statistics.total_ns for child in node.children.values()) <= node.statistics.total_ns


def modules_after(code: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import sample_profiler.profiling",
        "from sample_profiler.profiling import Timing, get_timing, set_timing\nwith Timing().add_time('block'): pass",
        "import sample_profiler.timers, sample_profiler.profiling.session.session\n"
        "import sample_profiler.profiling.recording.file",
    ],
)
def test_the_profiler_imports_the_standard_library_and_its_own_core_alone(code: str):
    found = modules_after(code) - modules_after("pass")
    own = {name for name in found if name.split(".")[0] == "sample_profiler"}
    assert {name for name in found - own if name.split(".")[0] not in sys.stdlib_module_names} == set()
    allowed = (
        "profiling",
        "errors",
        "files",
        "run_folder",
        "timers",
        "switches",
        "version",
    )  # whose own imports count, too
    assert {name for name in own if not name.startswith(tuple(f"sample_profiler.{each}" for each in allowed))} == {
        "sample_profiler"
    }


def test_ten_lines_put_the_profiler_into_a_script():
    source = (EXAMPLES / "ppo_cartpole.py").read_text(encoding="utf-8")
    marked = re.findall(r"^.*  # profiler$", source, re.MULTILINE)
    assert len(marked) == 10
    unmarked = "\n".join(line for line in source.splitlines() if not line.endswith("  # profiler"))
    assert not re.search(r"add_time|set_gauge|@timed|profile_session", unmarked)


def test_a_finished_script_leaves_its_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run("ppo_cartpole", tmp_path / "run", num_steps=2048)
    session = read_session(tmp_path / "run")
    record = only_process(session)
    assert (record.name, record.is_closed, record.components) == ("ppo", True, ["ppo"])
    tree = record.trees["ppo"]
    assert {"rollout": 2, "train": 2}.items() <= counts(tree).items()
    assert counts(tree.children["rollout"]) == {"policy": 256, "env_step": 256}
    assert counts(tree.children["train"]) == {"gradient_step": 48}
    assert counts(record.trees[TIMERS]) == {"estimate_advantages": 2}
    assert record.gauges["return"].value > 0
    assert_nothing_is_lost(record, "ppo")
    assert command_line(["status", str(tmp_path / "run")]) == 0
    assert "ppo" in capsys.readouterr().out


def test_a_session_of_a_script_is_saved_and_read_again(tmp_path: Path):
    run("ppo_cartpole", tmp_path / "run", num_steps=1024)
    session = read_session(tmp_path / "run")
    session.save(tmp_path / "copy.json")
    again = only_process(Session.load(tmp_path / "copy.json"))
    assert again.trees["ppo"].to_dict() == only_process(session).trees["ppo"].to_dict()
    assert [event.start_ns for event in again.events] == [event.start_ns for event in only_process(session).events]


def test_a_script_that_goes_on_is_read_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with live_run(tmp_path / "run"):
        record = wait_for_training(tmp_path / "run")
        assert record.is_alive and not record.is_closed
        assert_nothing_is_lost(record, "ppo")
        assert command_line(["status", str(tmp_path / "run")]) == 0
        assert "ppo" in capsys.readouterr().out
        (path,) = RunFolder(tmp_path / "run").live().records()
        with EventFollower(path) as follower:
            seen = {record.paths[event.node] for event in follower.poll() if event.node < len(record.paths)}
        assert ("ppo", "rollout", "env_step") in seen


def test_a_killed_script_leaves_its_session(tmp_path: Path):
    with live_run(tmp_path / "run") as process:
        before = wait_for_training(tmp_path / "run")
        process.kill()
        process.wait()
    record = only_process(read_session(tmp_path / "run"))
    assert not record.is_alive and not record.is_closed
    assert counts(record.trees["ppo"])["rollout"] >= counts(before.trees["ppo"])["rollout"]
    assert record.events[-1].end_ns <= record.read_ns


def test_without_stable_baselines_the_example_says_how_to_get_it():
    code = "import sys\nsys.modules['stable_baselines3'] = None\nimport sf_examples.standalone.train_sb3"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.returncode == 1
    assert "pip install 'sample_profiler[sb3]'" in result.stderr and "Traceback" not in result.stderr


@with_sb3
def test_stages_of_stable_baselines_are_blocks(tmp_path: Path):
    run("train_sb3", tmp_path / "run", num_steps=2048)
    record = only_process(read_session(tmp_path / "run"))
    tree = record.trees["sb3"]
    assert {"rollout": 2, "train": 2}.items() <= counts(tree).items()
    assert counts(tree.children["rollout"]) == {"policy_forward": 256, "env_step": 256}
    # 10 epochs of 4 minibatches, twice
    assert counts(tree.children["train"]) == {"gradient_step": 80}
    assert counts(tree.children["train"].children["gradient_step"]) == {"evaluate_actions": 80, "optimizer_step": 80}
    assert record.gauges["return"].value > 0
    assert_nothing_is_lost(record, "sb3")


@with_sb3
def test_what_the_callback_replaced_is_put_back():
    from stable_baselines3 import A2C
    from stable_baselines3.common.env_util import make_vec_env

    from sf_examples.standalone.train_sb3 import ProfilerCallback

    timing = Timing()
    model = A2C("MlpPolicy", make_vec_env("CartPole-v1", 2), device="cpu")
    owners = [model, model.env, model.policy, model.policy.optimizer, model.rollout_buffer]
    names = [set(vars(owner)) for owner in owners]
    model.learn(40, callback=ProfilerCallback(timing))
    replaced = {"train", "step", "forward", "evaluate_actions", "get", "_excluded_save_params"}
    assert [(set(vars(owner)) - before) & replaced for owner, before in zip(owners, names, strict=True)] == [set()] * 5
    passes = timing.snapshot().children["rollout"].statistics.count
    model.learn(40)
    assert timing.snapshot().children["rollout"].statistics.count == passes


@with_sb3
def test_a_model_can_be_saved_while_it_is_measured(tmp_path: Path):
    from stable_baselines3 import A2C
    from stable_baselines3.common.callbacks import CheckpointCallback
    from stable_baselines3.common.env_util import make_vec_env

    from sf_examples.standalone.train_sb3 import ProfilerCallback

    model = A2C("MlpPolicy", make_vec_env("CartPole-v1", 2), device="cpu")
    model.learn(40, callback=[ProfilerCallback(Timing()), CheckpointCallback(10, str(tmp_path))])
    assert all(A2C.load(path).num_timesteps for path in tmp_path.glob("*.zip"))


class FakePart:
    """An environment, a policy or an optimizer."""

    def step(self) -> None:
        """Do nothing."""

    forward = evaluate_actions = step


class FakeModel:
    """Saves itself as models of Stable-Baselines3 do: all attributes but those that it excludes, pickled."""

    def __init__(self) -> None:
        self.env, self.policy = FakePart(), FakePart()
        self.policy.optimizer = FakePart()
        self.num_timesteps = 7

    def _excluded_save_params(self) -> list[str]:
        return ["policy", "env"]

    def train(self) -> None:
        """Learn nothing."""

    def save(self) -> bytes:
        excluded = self._excluded_save_params()
        return cloudpickle.dumps({name: value for name, value in vars(self).items() if name not in excluded})


@pytest.fixture
def sb3_example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example as it is with as much of Stable-Baselines3 as its callback needs."""
    contents = {
        "stable_baselines3": {"A2C": FakeModel, "PPO": FakeModel},
        "stable_baselines3.common": {},
        "stable_baselines3.common.callbacks": {"BaseCallback": type("BaseCallback", (), {})},
        "stable_baselines3.common.env_util": {"make_vec_env": None},
        "stable_baselines3.common.utils": {"safe_mean": None},
    }
    for name, attributes in contents.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    name = "sf_examples.standalone.train_sb3"
    monkeypatch.delitem(sys.modules, name, raising=False)
    example = importlib.import_module(name)
    del sys.modules[name]  # nobody else gets this one
    return example


def test_checkpoints_leave_out_what_the_callback_has_replaced(sb3_example: ModuleType):
    timing, model = Timing(), FakeModel()
    callback = sb3_example.ProfilerCallback(timing)
    callback.model = model
    callback._on_training_start()
    callback._on_rollout_start()
    model.train()
    assert pickle.loads(model.save()) == {"num_timesteps": 7}
    callback._on_training_end()
    assert timing.snapshot().children["rollout"].children["train"].statistics.count == 1
    assert vars(model).keys() == {"env", "policy", "num_timesteps"}
