"""Commands about a run whose folder may not be looked into, or says what has no meaning here."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from sample_profiler.cli.capture.live import _explain
from sample_profiler.cli.main import main


@pytest.mark.parametrize("command", ["status", "watch", "report", "trace", "diff"])
def test_it_is_told_in_a_sentence(command, tmp_path, monkeypatch, capsys):
    def refuse(path, *_args, **_kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    for method in ("is_dir", "exists", "glob", "read_text"):
        monkeypatch.setattr(Path, method, refuse)
    runs = [str(tmp_path)] * (2 if command == "diff" else 1)
    assert main([command, *runs]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"sample-profiler {command}: {tmp_path}") and "Permission denied; check the path" in error


@pytest.mark.parametrize("command", ["status", "watch", "report", "trace", "diff"])
@pytest.mark.parametrize("name", ["~nobody_here/x", "~a\0b/x"])
def test_records_in_a_home_directory_that_is_not_here_are_told_of_in_a_sentence(command, name, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"flags": {"profile_dir": {"value": name}}}))
    assert main([command, *[str(tmp_path)] * (2 if command == "diff" else 1)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"sample-profiler {command}: --profile_dir={name!r}: there is no home directory")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_captures_are_for_its_owner_alone(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert "belongs to another user" in _explain(tmp_path, PermissionError(errno.EACCES, "Permission denied"))
