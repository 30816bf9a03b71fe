"""Tests of a run's folder: every name of a file in it, as the tree in the documentation has it."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from sample_profiler.errors import SessionError
from sample_profiler.run_folder import LiveFolder, RunFolder, read_config_file
from tests.docs.pages import ROOT, paths_in_tree

RUN = RunFolder(Path("train_dir/mine"))
EXAMPLES = {"policy": 0, "worker": 0, "tracker": "mlflow", "checkpoints": RUN.checkpoints(0), "profile_dir": ""}


def examples_in_tree(text: str) -> set[str]:
    """Return the paths of the tree in a text, with examples for what is in braces."""
    return {path.format(**EXAMPLES, experiment="mine").rstrip("/") for path in paths_in_tree(text)}


def named_by_the_class() -> set[str]:
    """Return all paths in a run's folder that its properties and methods name."""
    named = set()
    for name, member in inspect.getmembers(RUN):
        value = member
        if name.startswith("_") or name in ("path", "aside"):
            continue
        if callable(member) and not isinstance(member, LiveFolder):
            arguments = inspect.signature(member).parameters
            value = member(**{argument: EXAMPLES[argument] for argument in arguments})
        value = value.path if isinstance(value, LiveFolder) else value
        if isinstance(value, Path):
            named.add(str(value.relative_to(RUN.path)))
    return named


def test_the_tree_in_its_docstring_has_what_it_names_and_nothing_else():
    around = {"profile", "summary", "tracking/mlflow"}  # are in the tree as what is in them
    assert examples_in_tree(RunFolder.__doc__ or "") == named_by_the_class() - around


def test_the_tree_of_the_readme_is_a_part_of_it():
    told = examples_in_tree((ROOT / "README.md").read_text(encoding="utf-8"))
    assert told - named_by_the_class() == set() and len(told) > 10


def test_checkpoints_of_all_policies_are_found_in_order(tmp_path):
    folder = RunFolder(tmp_path)
    for policy in (1, 0):
        folder.milestones(folder.checkpoints(policy)).mkdir(parents=True)
    folder.summary.mkdir()
    assert folder.all_checkpoints() == [folder.checkpoints(0), folder.checkpoints(1)]


def test_a_run_is_resumed_with_the_flags_that_something_was_trained_with(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.config_to_resume() == folder.config
    folder.earlier_config.write_text("{}")
    assert folder.config_to_resume() == folder.earlier_config == tmp_path / "config.json.earlier"


def test_record_files_are_in_the_folder_unless_its_flags_say_where(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "mine")
    assert folder.live() == folder.own_live == LiveFolder(folder.path / "profile" / "live")
    folder.path.mkdir(parents=True)
    folder.config.write_text(json.dumps({"flags": {"profile_dir": {"value": str(tmp_path / "records")}}}))
    assert folder.live().path.parent == tmp_path / "records"
    assert folder.live().path.name.startswith("mine_")
    assert folder.live() == folder.live(str(tmp_path / "records")) == RunFolder(folder.path / ".." / "mine").live()
    assert folder.live() != RunFolder(tmp_path / "others" / "mine").live(str(tmp_path / "records"))
    assert folder.live("") == folder.own_live, "who knows what the run was told need not read it"


def test_there_has_to_be_the_home_directory_that_they_are_in():
    with pytest.raises(SessionError, match="--profile_dir='~nobody_here/x': there is no home directory"):
        RUN.live("~nobody_here/x")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"flags": []}', '{"flags": {"rollout": 32}}', "[" * 100_000, None])
def test_a_configuration_that_cannot_be_read_has_no_flags(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert RunFolder(tmp_path).flag_values() == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "has no flags"),
        ('{"algo": "APPO", "cli_args": {}}', "as those of Sample Factory have none.*import-checkpoint"),
        ('{"flags": {"a": 1, "a": 2}}', "'a' stands there twice"),
    ],
)
def test_a_configuration_is_an_object_of_flags_each_of_which_stands_there_once(tmp_path, text, problem):
    path = tmp_path / "any.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_config_file(path)
    path.write_text('{"flags": {"a": {"value": 1}}, "format": 7}')
    assert read_config_file(path)["flags"] == {"a": {"value": 1}}


def test_record_files_are_found_by_the_name_of_their_process(tmp_path):
    live = LiveFolder(tmp_path)
    assert live.records() == live.records("main") == []
    mine = [live.record("main", 12), live.record("main", 7)]
    others = [live.record(name, 7) for name in ("main.2", "main_2", "a[b]*")]
    for path in (*mine, *others, live.being_made(live.record("main", 8)), RunFolder.aside(mine[0])):
        path.touch()
    assert live.records("main") == mine
    assert live.records() == sorted(mine + others)
    assert [live.records(name) for name in ("main.2", "main_2", "a[b]*")] == [[path] for path in others]


def test_files_of_an_earlier_run_and_beginnings_are_found_by_the_ends_of_their_names(tmp_path):
    folder = RunFolder(tmp_path)
    folder.own_live.path.mkdir(parents=True)
    record = folder.own_live.record("Runner", 7)
    begun = folder.own_live.being_made(record)
    for path in (record, begun, RunFolder.aside(record), RunFolder.aside(folder.steady), folder.session):
        path.touch()
    assert folder.own_live.records_being_made() == [begun]
    assert folder.own_live.records_aside() == [record.parent / "Runner.7.rec.earlier"]
    assert folder.documents_aside() == [folder.profile / "steady.json.earlier"]
