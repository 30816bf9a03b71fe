"""Commands about a run whose folder may not be looked into."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sample_profiler.cli.live_capture import _explain
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


def test_captures_are_for_its_owner_alone(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert "belongs to another user" in _explain(tmp_path, PermissionError(errno.EACCES, "Permission denied"))
