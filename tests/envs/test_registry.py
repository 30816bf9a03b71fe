"""Names of environments, here and in processes that are started from here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sample_profiler.envs import registry
from sample_profiler.envs.contract import EnvPlacement
from sample_profiler.errors import EnvError, UnknownEnvError

PLACEMENT = EnvPlacement(worker_index=1, vector_index=2, env_id=3)


@pytest.fixture(autouse=True)
def _empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr(registry, "_fallbacks", [])


def make_module_level(full_env_name, cfg, env_config, render_mode=None):
    return full_env_name, cfg, env_config, render_mode


class Unpicklable:
    def __call__(self, *args, **kwargs):
        return "made"

    def __reduce__(self):
        raise TypeError("it holds a file")


def test_make_gets_name_configuration_placement_and_render_mode():
    registry.register_env("mine", make_module_level)
    cfg = SimpleNamespace(rollout=32)
    assert registry.make_env("mine", cfg, PLACEMENT, "human") == ("mine", cfg, PLACEMENT, "human")
    assert registry.registered_envs() == ["mine"]


def test_second_registration_of_a_name_counts():
    registry.register_env("mine", lambda *_, **__: 1)
    registry.register_env("mine", lambda *_, **__: 2)
    assert registry.make_env("mine", None, None) == 2


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_name_has_to_be_text(name):
    with pytest.raises(EnvError, match="not empty"):
        registry.register_env(name, make_module_level)


def test_what_makes_it_has_to_be_callable():
    with pytest.raises(EnvError, match=r"'mine'.*not a function"):
        registry.register_env("mine", "make_module_level")


def test_unknown_name_suggests_the_nearest_whatever_the_case():
    registry.register_env("doom_basic", make_module_level)
    registry.register_env_fallback(lambda _: None, lambda: ["CartPole-v1"])
    with pytest.raises(UnknownEnvError, match=r"'doom_basik'.*did you mean 'doom_basic'\?.*register_env"):
        registry.make_env("doom_basik", None, None)
    with pytest.raises(UnknownEnvError, match="did you mean 'CartPole-v1'"):
        registry.make_env("cartpole-v1", None, None)


def test_unknown_name_without_a_near_one_lists_what_there_is():
    with pytest.raises(UnknownEnvError, match="nothing is registered"):
        registry.make_env("x", None, None)
    registry.register_env("doom_basic", make_module_level)
    with pytest.raises(UnknownEnvError, match="there are doom_basic"):
        registry.make_env("x", None, None)
    for number in range(30):
        registry.register_env(f"family_{number}", make_module_level)
    with pytest.raises(UnknownEnvError, match="none of the 31 known names is near"):
        registry.make_env("x", None, None)


def test_fallback_is_asked_only_for_names_that_are_not_registered():
    registry.register_env_fallback(lambda name: make_module_level if name == "Known-v1" else None, lambda: ["Known-v1"])
    assert registry.make_env("Known-v1", None, None)[0] == "Known-v1"
    with pytest.raises(UnknownEnvError):
        registry.make_env("Other-v1", None, None)
    registry.register_env("Known-v1", lambda *_, **__: "mine")
    assert registry.make_env("Known-v1", None, None) == "mine"


def test_a_fallback_may_import_the_module_that_registers_a_name():
    def import_it(name):
        registry.register_env("mine", make_module_level)

    registry.register_env_fallback(import_it, lambda: [])
    assert registry.make_env("my_module:mine", None, None)[0] == "mine"
    with pytest.raises(UnknownEnvError):
        registry.make_env("my_module:yours", None, None)


def test_export_of_an_unknown_name_suggests_the_nearest():
    registry.register_env("doom_basic", make_module_level)
    with pytest.raises(UnknownEnvError, match="did you mean 'doom_basic'"):
        registry.export_registration("doom_basi")


def test_lambda_with_a_closure_arrives(monkeypatch):
    answer = 42
    registry.register_env("mine", lambda *_, **__: answer)
    payload = registry.export_registration("mine")
    monkeypatch.setattr(registry, "_makers", {})
    registry.import_registration("mine", payload)
    assert registry.make_env("mine", None, None) == 42


def test_fallback_arrives_as_a_registration(monkeypatch):
    registry.register_env_fallback(lambda _: lambda *_, **__: "from a fallback", lambda: [])
    payload = registry.export_registration("Known-v1")
    monkeypatch.setattr(registry, "_fallbacks", [])
    registry.import_registration("Known-v1", payload)
    assert registry.make_env("Known-v1", None, None) == "from a fallback"


def test_registered_name_wins_over_an_imported_one():
    registry.register_env("mine", lambda *_, **__: "sent")
    payload = registry.export_registration("mine")
    registry.register_env("mine", lambda *_, **__: "of the re-imported script")
    registry.import_registration("mine", payload)
    assert registry.make_env("mine", None, None) == "of the re-imported script"


def test_unpicklable_function_says_why_when_it_is_needed(monkeypatch):
    registry.register_env("mine", Unpicklable())
    payload = registry.export_registration("mine")
    registry.import_registration("mine", payload)
    assert registry.make_env("mine", None, None) == "made"
    monkeypatch.setattr(registry, "_makers", {})
    registry.import_registration("mine", payload)
    with pytest.raises(EnvError, match=r"'mine' cannot be sent .*TypeError: it holds a file.*top level"):
        registry.make_env("mine", None, None, render_mode="human")


def test_payload_that_does_not_load_says_why_when_it_is_needed():
    registry.import_registration("mine", b"csample_profiler_no_such_module\nmake\n.")
    with pytest.raises(EnvError, match=r"'mine'.*sample_profiler_no_such_module"):
        registry.make_env("mine", None, None)


SCRIPT = """
import multiprocessing
from sample_profiler.envs import export_registration, import_registration, make_env, register_env

def helper():
    return "helper of the script"

register_env("at_import", lambda *_, **__: "registered at import")

def work(names_and_payloads):
    for name, payload in names_and_payloads:
        import_registration(name, payload)
        print(name, "->", make_env(name, None, None), flush=True)

def main():
    local = "of main"
    register_env("in_main", lambda *_, **__: f"lambda {local}, {helper()}")
    payloads = [("at_import", b"never opened"), ("in_main", export_registration("in_main"))]
    process = multiprocessing.get_context("spawn").Process(target=work, args=(payloads,))
    process.start()
    process.join()
    return process.exitcode

if __name__ == "__main__":
    raise SystemExit(main())
"""


def test_what_a_script_registers_reaches_spawned_processes(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(root)}
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "at_import -> registered at import",
        "in_main -> lambda of main, helper of the script",
    ]


def test_importing_environments_does_not_import_torch():
    code = "import sys, sample_profiler.envs, sample_profiler.envs.wrappers; print('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=60)
    assert result.stdout.strip() == "False", result.stderr
