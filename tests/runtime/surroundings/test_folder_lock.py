"""Locks of folders: who waits for whom, and for how long."""

from __future__ import annotations

import errno
import fcntl
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_profiler.errors import ConfigError
from sample_profiler.runtime.surroundings.folder_lock import folder_locked, lock_until_exit, stay_until_unlocked

HOLD = """
import sys
from pathlib import Path
from sample_profiler.runtime.surroundings.folder_lock import lock_until_exit
print(lock_until_exit(Path(sys.argv[1]), 0.0), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has locked `tmp_path / "mine"` until its end."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "mine")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_a_process_that_ends_lets_go_however_it_ends(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    assert not lock_until_exit(tmp_path / "mine", 0.1)
    with pytest.raises(ConfigError, match="another run is writing to"), folder_locked(tmp_path / "mine"):
        pass
    threading.Timer(0.2, holder.kill).start()
    assert lock_until_exit(tmp_path / "mine", 60.0)
    assert lock_until_exit(tmp_path / "mine", 0.0), "it is this process that has"


def test_a_lock_is_waited_for_as_long_as_asked(
    holder: subprocess.Popen[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(ConfigError, match=r"still writes to .*mine: wait for its end, or kill it"):
        stay_until_unlocked(tmp_path / "mine", 0.1)
    threading.Timer(0.2, holder.kill).start()
    stay_until_unlocked(tmp_path / "mine", 60.0)
    assert caplog.text.count("waiting for it") == 2, "told once each time"


def test_where_folders_cannot_be_made_or_locked_nobody_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert lock_until_exit(tmp_path / "file", 0.0)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    assert lock_until_exit(tmp_path / "other", 0.0)
    stay_until_unlocked(tmp_path / "other", 0.0)
    with folder_locked(tmp_path):
        pass
