"""Checkpoint files: whole or not there, never executed, and always one to go back to."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import pickle
import random
import resource
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch

from sample_profiler.errors import CheckpointError
from sample_profiler.storage import checkpoints
from sample_profiler.storage.checkpoints import CheckpointFolder
from tests.isolation.unprivileged import as_nobody, folder_of_nobody


def make_state(number: int) -> dict:
    return {"weights": {"w": torch.full((500,), float(number))}, "frames": number, "nested": [1, (2.5, "x", None)]}


@pytest.fixture
def folder(tmp_path):
    return CheckpointFolder(tmp_path, policy=0, num_kept=2)


def names(folder: CheckpointFolder) -> list[str]:
    return sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file())


def damage(path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "truncated":
        data = data[: len(data) // 2]
    elif how == "empty":
        data.clear()
    elif how == "one bit":
        with zipfile.ZipFile(path) as archive:  # within a tensor, where nothing but a checksum can tell
            member = next(info for info in archive.infolist() if info.filename.endswith("/data/0"))
        data[member.header_offset + 500] ^= 1
    elif how == "zeros":
        data[:] = bytes(len(data))
    elif how == "text":
        data = bytearray(b"this is no checkpoint\n" * 100)
    path.write_bytes(data)


def test_what_was_saved_is_loaded(folder):
    path = folder.save(make_state(7), num_steps=27, num_frames=221_184)
    assert path == folder.path / "checkpoint_000000027_221184.pth"
    assert folder.path.name == "checkpoint_p0"
    state = folder.load("latest")
    assert torch.equal(state["weights"]["w"], torch.full((500,), 7.0))
    assert (state["frames"], state["nested"]) == (7, [1, (2.5, "x", None)])


def folded(levels: int) -> list:
    """Return a list that is 2 ** levels ones to whoever walks it, and hardly anything in a file."""
    value: list = []
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "bomb", [torch.zeros(1).expand(2**50), folded(60)], ids=["an expanded tensor", "a folded list"]
)
def test_what_unfolds_to_more_than_there_is_room_for_is_passed_over(folder, caplog, bomb):
    folder.save(make_state(1), 1, 1)
    path = folder.save(make_state(2) | {"latest_metrics": bomb}, 2, 2)
    with caplog.at_level(logging.WARNING):
        assert folder.load("latest")["frames"] == 1
    assert f"Cannot read the checkpoint {path}: its " in caplog.text
    assert "bytes unfold to far more" in caplog.text


def test_what_is_no_file_is_not_waited_for(folder, caplog):
    folder.save(make_state(1), 1, 1)
    os.mkfifo(folder.path / "checkpoint_000000002_2.pth")
    assert folder.load("latest")["frames"] == 1
    assert "it is no file but a folder, a pipe or a device" in caplog.text


def test_nothing_saved_is_nothing_loaded(folder):
    assert folder.load("latest") is None
    assert folder.load("best") is None


def test_no_best_one_beside_others_is_no_new_run(folder):
    folder.save(make_state(1), 1, 1)
    message = r"no best checkpoint .* only checkpoint_000000001_1.pth: use --load_checkpoint_kind=latest"
    with pytest.raises(CheckpointError, match=message):
        folder.load("best")
    assert names(folder) == ["checkpoint_000000001_1.pth"]


def test_the_latest_is_that_of_most_steps_whatever_its_name_sorts_like(folder):
    for number in (999_999_999, 1_000_000_000):
        folder.save(make_state(number), number, 4 * number)
    assert folder.load("latest")["frames"] == 1_000_000_000


@pytest.mark.parametrize("num_kept", [1, 2, 3])
def test_so_many_of_the_latest_are_kept(tmp_path, num_kept):
    folder = CheckpointFolder(tmp_path, 0, num_kept)
    for number in range(5):
        folder.save(make_state(number), number, number)
        assert len(names(folder)) == min(number + 1, num_kept)
    assert names(folder) == [f"checkpoint_{number:09}_{number}.pth" for number in range(5 - num_kept, 5)]


def test_policies_do_not_mix(tmp_path):
    folders = [CheckpointFolder(tmp_path, policy, 1) for policy in range(2)]
    for policy, folder in enumerate(folders):
        folder.save(make_state(policy), 5, 5)
    assert [folder.load("latest")["frames"] for folder in folders] == [0, 1]


def test_the_best_is_one_beside_the_latest_and_replaced_by_a_better_one(folder):
    for number in range(4):
        folder.save(make_state(number), number, number)
    folder.save_best(make_state(10), 1, 1, metric="reward", value=-0.5)
    path = folder.save_best(make_state(11), 2, 2, metric="reward", value=1234.5)
    assert path.name == "best_000000002_2_reward_1234.500.pth"
    assert [name for name in names(folder) if "best" in name] == [path.name]
    assert folder.load("best")["frames"] == 11
    assert folder.load("latest")["frames"] == 3


@pytest.mark.parametrize("metric", [float("inf"), -1e30, 0.0, 1e-9])
def test_the_best_is_found_again_whatever_its_metric(folder, metric):
    folder.save_best(make_state(1), 1, 1, "reward", metric)
    folder.save_best(make_state(2), 2, 2, "reward", metric)
    assert folder.load("best")["frames"] == 2
    assert len(names(folder)) == 1


@pytest.mark.parametrize(
    ("metric", "num_steps", "is_read"),
    [
        (-math.inf, 0, True),
        (1.0, 9, True),  # a better one, of a training that went further before
        (2.0, 3, True),  # its name tells three digits: it may be better by less
        (2.0004, 3, True),
        (2.0, 4, False),  # who has gone further knows of it
        (2.1, 3, False),
        (math.inf, 3, False),
    ],
)
def test_best_checkpoints_are_read_where_they_may_be_better_than_what_is_known(
    folder, monkeypatch, metric, num_steps, is_read
):
    folder.save_best(make_state(1), num_steps=3, num_frames=30, metric="reward", value=2.0)
    read = []
    monkeypatch.setattr(checkpoints, "_read", lambda path: read.append(path.name) or {})
    assert len(list(folder.better_states("reward", metric, num_steps))) == is_read
    assert read == ["best_000000003_30_reward_2.000.pth"] * is_read


@pytest.mark.parametrize("name", ["best_000000003_30.pth", "best_000000003_30_reward_1.2.3.pth"])
def test_a_best_checkpoint_whose_name_tells_no_metric_is_read(folder, name):
    best = folder.save_best(make_state(1), num_steps=3, num_frames=30, metric="reward", value=2.0)
    best.rename(best.with_name(name))
    assert [state["frames"] for state in folder.better_states("reward", 9.0, 9)] == [1]


@pytest.mark.parametrize("metric", ["true_objective", "a/b: ü", "_3.000", "x" * 500])
def test_the_name_of_the_best_tells_by_which_metric(folder, metric):
    path = folder.save_best(make_state(1), num_steps=3, num_frames=30, metric=metric, value=2.0)
    assert path.parent == folder.path
    assert path.name.startswith("best_000000003_30_")
    assert path.name.endswith("_2.000.pth")
    assert folder.load("best")["frames"] == 1
    assert len(list(folder.better_states(metric, -math.inf, 0))) == 1
    assert len(list(folder.better_states(metric, 3.0, 0))) == 0
    assert len(list(folder.better_states("reward", -math.inf, 0))) == 0


@pytest.mark.parametrize("is_in_the_way", [False, True])
def test_a_folder_that_gets_lost_right_after_a_save_is_told_as_such(folder, monkeypatch, is_in_the_way):
    folder.save(make_state(1), num_steps=1, num_frames=1)
    listed = checkpoints.sorted_checkpoints

    def move_and_list(path: Path, kind: str) -> list[tuple[int, Path]]:
        path.rename(path.with_name("away"))
        if is_in_the_way:
            path.write_text("in the way")
        return listed(path, kind)

    monkeypatch.setattr(checkpoints, "sorted_checkpoints", move_and_list)
    with pytest.raises(CheckpointError, match=r"cannot write the checkpoint .*_000000002_2\.pth: .* gone"):
        folder.save(make_state(2), num_steps=2, num_frames=2)
    assert len(list((folder.path.parent / "away").glob("checkpoint_*.pth"))) == 2, "and nothing is removed"


def test_milestones_stay(folder):
    for number in range(5):
        folder.save_milestone(make_state(number), number, number)
        folder.save(make_state(number), number, number)
    milestones = [name for name in names(folder) if name.startswith("milestones/")]
    assert milestones == [f"milestones/checkpoint_{number:09}_{number}.pth" for number in range(5)]


def test_other_files_are_left_alone(folder):
    folder.path.mkdir()
    others = ["checkpoint_notes.pth", "checkpoint_000000009_9.pth.bak", "best.txt", "checkpoint_9_9.pth"]
    for name in others:
        (folder.path / name).write_text("mine")
    for number in range(4):
        folder.save(make_state(number), number, number)
        folder.save_best(make_state(number), number, number, "reward", 1.0)
    assert set(others) <= set(names(folder))
    assert folder.load("latest")["frames"] == 3


@pytest.mark.parametrize("how", ["truncated", "empty", "one bit", "zeros", "text"])
def test_a_damaged_file_costs_only_itself(folder, caplog, how):
    folder.save(make_state(1), 1, 1)
    damage(folder.save(make_state(2), 2, 2), how)
    with caplog.at_level(logging.WARNING):
        assert folder.load("latest")["frames"] == 1
    assert "checkpoint_000000002_2.pth" in caplog.text
    assert how == "one bit" or "it is damaged (File is not a zip file)" in caplog.text


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "Stale file handle"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "Permission denied"),
        (MemoryError(), "MemoryError"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "can't allocate"),
    ],
    ids=["a stale handle", "no permission", "no memory", "no memory for a tensor"],
)
def test_what_cannot_be_read_now_is_not_taken_for_damaged(folder, monkeypatch, reason, told):
    """Training from an older one would replace it, though it is whole."""
    newest = [folder.save(make_state(number), number, number) for number in (1, 2)][-1]
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.torch, "load", mock.Mock(side_effect=reason))
        with pytest.raises(CheckpointError, match=f"cannot read the checkpoint {newest} now: .*{told}.*move it away"):
            folder.load("latest")
    assert folder.load("latest")["frames"] == 2


def test_an_archive_whose_end_cannot_be_read_now_is_not_taken_for_damaged(folder, monkeypatch):
    """Whatever it is, zipfile says that the file is no archive."""
    for number in (1, 2):
        folder.save(make_state(number), number, number)
    reason = OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    monkeypatch.setattr(zipfile, "_EndRecData", mock.Mock(side_effect=reason))
    with pytest.raises(CheckpointError, match=r"000000002_2\.pth now: Stale file handle"):
        folder.load("latest")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOTCONN])
def test_a_file_on_a_disk_that_fails_is_not_passed_over(folder, monkeypatch, number):
    """It may be a network's that does not answer for a moment: what is sound would be removed by the next save."""
    for frames in (1, 2):
        folder.save(make_state(frames), frames, frames)
    load = torch.load

    def load_older(path, **options):
        if "000000002" in str(path):
            raise OSError(number, os.strerror(number))
        return load(path, **options)

    monkeypatch.setattr(checkpoints.torch, "load", load_older)
    with pytest.raises(CheckpointError, match=rf"000000002_2\.pth now: {os.strerror(number)}"):
        folder.load("latest")


def test_a_file_of_something_else_is_passed_over(folder):
    folder.save(make_state(1), 1, 1)
    torch.save(torch.zeros(3), folder.path / "checkpoint_000000002_2.pth")
    assert folder.load("latest")["frames"] == 1


def test_a_file_that_unfolds_in_memory_is_passed_over(folder, caplog):
    """Zeros compress to a thousandth: a few megabytes from somebody else would take all memory."""
    folder.save(make_state(1), 1, 1)
    path = folder.save(make_state(2), 2, 2)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert torch.load(path, weights_only=True)["frames"] == 2, "PyTorch unfolds it"
    with caplog.at_level(logging.WARNING):
        assert folder.load("latest")["frames"] == 1
    assert "it is compressed" in caplog.text


def test_a_file_of_a_later_format_is_told_as_such(folder, caplog):
    folder.save(make_state(1) | {"format_version": checkpoints.FORMAT_VERSION + 1}, 1, 1)
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"), caplog.at_level(logging.WARNING):
        folder.load("latest")
    assert f"it has format {checkpoints.FORMAT_VERSION + 1}" in caplog.text


def test_a_damaged_file_never_gives_wrong_numbers(folder):
    """Bits and pieces changed anywhere: the file is refused, or what it holds is what was saved."""
    path = folder.save(make_state(3), 3, 3)
    data, rng = path.read_bytes(), random.Random(0)
    for attempt in range(300):
        changed = bytearray(data)
        start = rng.randrange(len(changed))
        if attempt % 3 == 0:
            changed[start] ^= 1 << rng.randrange(8)
        elif attempt % 3 == 1:
            changed[start : start + 50] = rng.randbytes(50)
        else:
            del changed[start : start + rng.randrange(1, 200)]
        path.write_bytes(changed)
        try:
            state = folder.load("latest")
        except CheckpointError:
            continue
        assert torch.equal(state["weights"]["w"], make_state(3)["weights"]["w"])
        assert (state["frames"], state["nested"]) == (3, make_state(3)["nested"])


def test_only_damaged_files_are_an_error_that_says_what_to_do(folder):
    for number in range(2):
        damage(folder.save(make_state(number), number, number), "truncated")
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints.*--restart_behavior=restart"):
        folder.load("latest")


def test_training_that_went_on_from_an_older_checkpoint_is_what_is_loaded_next(folder):
    """The newest files are damaged, or training goes on from the best policy: they are no longer the latest."""
    for number in (1, 5, 6):
        folder.save(make_state(number), number, number)
    damage(folder.path / "checkpoint_000000006_6.pth", "truncated")
    assert folder.load("latest")["frames"] == 5
    folder.save(make_state(105), 5, 5)
    assert folder.load("latest")["frames"] == 105
    folder.save(make_state(2), 2, 2)
    assert folder.load("latest")["frames"] == 2
    folder.save(make_state(3), 3, 3)
    assert names(folder) == ["checkpoint_000000002_2.pth", "checkpoint_000000003_3.pth"]


def test_what_was_just_saved_is_never_removed(tmp_path):
    folder = CheckpointFolder(tmp_path, 0, num_kept=1)
    folder.save(make_state(9), 9, 9)
    folder.save(make_state(1), 1, 1)
    assert folder.load("latest")["frames"] == 1


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return (open, (str(self._path), "w"))


@pytest.mark.parametrize("kind", ["torch", "plain pickle", "legacy torch"])
def test_nothing_in_a_checkpoint_is_executed(folder, tmp_path, kind):
    touched = tmp_path / "executed"
    good = folder.save(make_state(1), 1, 1)
    evil = good.with_name("checkpoint_000000002_2.pth")
    if kind == "plain pickle":
        evil.write_bytes(pickle.dumps(Evil(touched)))
    else:
        state = {"weights": Evil(touched)}
        torch.save(state, evil, _use_new_zipfile_serialization=kind == "torch")
    # The file is dangerous, and would be executed by whoever is not careful.
    if kind == "torch":
        with open_when_unpickled(evil):
            assert touched.exists()
        touched.unlink()

    assert folder.load("latest")["frames"] == 1
    assert not touched.exists()


def open_when_unpickled(path):
    return torch.load(path, weights_only=False)["weights"]


def test_saving_is_atomic(folder, monkeypatch):
    """Whenever a save is interrupted, the checkpoint before it is there, whole, and nothing half-written is taken."""
    folder.save(make_state(1), 1, 1)

    def die_in_the_middle(state, file):
        file.write(b"half a checkpoint")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.torch, "save", die_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        folder.save(make_state(2), 2, 2)
    assert folder.load("latest")["frames"] == 1
    assert [name for name in names(folder) if not name.startswith(".")] == ["checkpoint_000000001_1.pth"]


def test_a_checkpoint_is_on_the_disk_before_it_gets_its_name(folder, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), fsync(descriptor)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append("rename"), replace(self, to)))
    folder.save(make_state(1), 1, 1)
    assert events == ["sync", "sync", "rename", "sync"], "the new folder's name, the file, its name, the folder"
    events.clear()
    folder.save(make_state(2), 2, 2)
    assert events == ["sync", "rename", "sync"]


@contextlib.contextmanager
def small_disk(num_bytes: int) -> Iterator[None]:
    """Files cannot grow beyond so many bytes; only inside, since the tests' own output may go to a file, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("num_numbers", [500, 500_000])
def test_a_full_disk_is_an_error_that_says_so_and_costs_nothing(folder, num_numbers):
    folder.save(make_state(1), 1, 1)
    state = {"w": torch.arange(float(num_numbers)), "v": torch.ones(100)}
    message = r"cannot write the checkpoint .*checkpoint_000000002_2.pth \(\d+ MiB free\): File too large; checkpoints"
    with pytest.raises(CheckpointError, match=message), small_disk(1500):
        folder.save(state, 2, 2)
    assert names(folder) == ["checkpoint_000000001_1.pth"], "half a file would keep the disk full"
    assert folder.load("latest")["frames"] == 1


def test_files_that_somebody_else_has_used_up_are_told_as_such(folder):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"Too many open files.* opens files and leaves them open"):
            folder.save(make_state(1), 1, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "checkpoint_p0").write_text("a file is in the way")
    with pytest.raises((CheckpointError, FileExistsError), match="checkpoint_p0"):
        CheckpointFolder(tmp_path, 0, 1).save(make_state(1), 1, 1)


@pytest.mark.parametrize(
    ("mode", "what"), [(0o500, "written to"), (0o300, "read"), (0o600, "searched"), (0o000, "read or written to")]
)
def test_a_folder_without_permission_is_told_with_whose_it_is_and_the_cure(mode, what):
    with folder_of_nobody() as outer, as_nobody():
        folder = CheckpointFolder(outer, 0, 2)
        folder.save(make_state(1), 1, 1)
        folder.path.chmod(mode)
        told = rf"{folder.path} \(d.*cannot be {what}.*: chmod u\+r?w?x {folder.path}"
        with pytest.raises(CheckpointError, match=told):
            folder.save(make_state(2), 2, 2)
        if mode == 0o500:
            assert folder.load("latest")["frames"] == 1
            return
        for kind in ("latest", "best"):
            with pytest.raises(CheckpointError, match=rf"{folder.path} \(d.*chmod u\+rx {folder.path}"):
                folder.load(kind)


def test_a_checkpoint_without_permission_is_told_with_whose_it_is_and_the_cure():
    with folder_of_nobody() as outer, as_nobody():
        folder = CheckpointFolder(outer, 0, 2)
        path = folder.save(make_state(1), 1, 1)
        path.chmod(0o200)
        with pytest.raises(CheckpointError, match=rf"{path} now: {path} \(--w-.*cannot be read.*chmod u\+r {path}"):
            folder.load("latest")


def resume_past_a_damaged_one(tmp_path, num_kept):
    """Save 1 and 2, damage 2, and return the folder as the next start finds it, which goes on from 1."""
    folder = CheckpointFolder(tmp_path, 0, num_kept)
    for steps in (1, 2):
        folder.save({"steps": steps}, steps, steps)
    (newest,) = folder.path.glob("checkpoint_000000002_*.pth")
    newest.write_bytes(newest.read_bytes()[:50])
    resumed = CheckpointFolder(tmp_path, 0, num_kept)
    assert resumed.load("latest") == {"steps": 1}
    return resumed


def test_a_damaged_checkpoint_takes_the_place_of_no_whole_one(tmp_path):
    resumed = resume_past_a_damaged_one(tmp_path, 2)
    resumed.save({"steps": 3}, 3, 3)
    assert names(resumed) == ["checkpoint_000000001_1.pth", "checkpoint_000000003_3.pth"]
    resumed.save({"steps": 4}, 4, 4)
    assert names(resumed) == ["checkpoint_000000003_3.pth", "checkpoint_000000004_4.pth"]


def test_a_whole_checkpoint_in_the_place_of_a_damaged_one_is_whole(tmp_path):
    resumed = resume_past_a_damaged_one(tmp_path, 3)
    for steps in (2, 3, 4):
        resumed.save({"steps": steps}, steps, steps)
    assert names(resumed) == [f"checkpoint_{steps:09}_{steps}.pth" for steps in (2, 3, 4)]


def test_nobody_is_advised_to_load_what_a_checkpoint_executes(tmp_path, caplog):
    folder = CheckpointFolder(tmp_path, 0, 2)
    path = folder.save({"steps": 1}, 1, 1)
    torch.save({"steps": os.getcwd}, path)
    with pytest.raises(CheckpointError, match="restart_behavior=restart"):
        folder.load("latest")
    assert "which is never loaded" in caplog.text and "weights_only" not in caplog.text


def test_what_is_to_be_added_is_in_each_checkpoint(tmp_path):
    folder = CheckpointFolder(tmp_path, 0, 2, {"env_spec": {"num_agents": 3}})
    folder.save(make_state(1), 1, 1)
    folder.save_milestone(make_state(1), 1, 1)
    best = folder.save_best(make_state(1), 1, 1, "reward", 2.0)
    assert folder.load("latest") == folder.load("best") | {"weights": mock.ANY}
    assert checkpoints.load_checkpoint(best)["env_spec"] == {"num_agents": 3}


@pytest.mark.parametrize("how", ["truncated", "empty", "text"])
def test_a_single_file_that_cannot_be_read_is_an_error_that_names_it(folder, how):
    path = folder.save(make_state(1), 1, 1)
    assert checkpoints.load_checkpoint(path)["frames"] == 1
    damage(path, how)
    with pytest.raises(CheckpointError, match=f"cannot read the checkpoint {path}: "):
        checkpoints.load_checkpoint(path)


def test_whoever_only_reads_renames_nothing(folder):
    path = folder.save(make_state(1) | {"optimizer_steps": 0}, 0, 0)
    damage(path, "empty")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        folder.load("latest", sets_aside=False)
    assert path.exists()
    assert folder.load("latest") is None
    assert not path.exists()
