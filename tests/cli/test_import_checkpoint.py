import json
from pathlib import Path

from sample_profiler.cli.main import main

RUNS = Path(__file__).parents[1] / "foreign" / "sample_factory_runs"


def test_the_command_says_what_was_imported_and_what_was_not(tmp_path, capsys):
    assert main(["import-checkpoint", str(RUNS / "two_policies"), str(tmp_path / "mine")]) == 0
    told = capsys.readouterr()
    assert "Policy 0: trained on 1,472 frames" in told.out and "Policy 1: trained on 1,216 frames" in told.out
    assert f"Imported a run on two_policies to {tmp_path / 'mine'}" in told.out
    assert told.err == ""
    assert json.loads((tmp_path / "mine" / "config.json").read_text())["flags"]["num_policies"]["value"] == 2


def test_what_cannot_be_imported_is_told_in_one_line(tmp_path, capsys):
    assert main(["import-checkpoint", str(tmp_path), str(tmp_path / "mine")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("sample-profiler import-checkpoint: there is no run of Sample Factory in")
    assert told.count("\n") == 1
