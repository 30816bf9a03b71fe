"""Options of the run as a whole: what trains, where it is kept, on which device."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

from sample_profiler.config.limits import NOT_EMPTY, TEXT_RULE_KEY, TextRule, option, text_option
from sample_profiler.errors import ConfigError
from sample_profiler.files import expand_home

_LONGEST_FOLDER_NAME_BYTES = 200  # names of files in it are up to 55 longer, and 255 are allowed


_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd")


def is_surely_on_cpu(device: str) -> bool:
    """Tell, for a value of ``--device``, whether there is no question of a GPU; to find out otherwise takes PyTorch."""
    return device == "cpu" or (device == "auto" and not any(Path(path).exists() for path in _GPU_DRIVERS))


def find_folder_reason(name: str) -> str:
    """Return why a name cannot be a folder below another one, which may not be left; empty text if it can.

    Args:
        name: Names of nested folders, separated by slashes.
    """
    if not name.strip():
        return "is empty"
    # Backslashes separate folders on some systems, control characters break logs and terminals.
    if "\\" in name or not name.isprintable():
        return "is written with a backslash or characters that cannot be printed"
    if name.startswith(("/", "~")):
        return "is not relative to train_dir"
    # Looked at as text: PurePosixPath drops single dots and doubled slashes.
    if any(folder.strip() in ("", ".", "..") for folder in name.rstrip("/").split("/")):
        return "is made of folders one of which is empty, '.' or '..'"
    if any(len(folder.encode()) > _LONGEST_FOLDER_NAME_BYTES for folder in PurePosixPath(name).parts):
        return f"has a folder name of more than {_LONGEST_FOLDER_NAME_BYTES} bytes"
    return ""


def _find_train_dir_reason(name: str) -> str:
    return "" if name.strip() and name.isprintable() else "is not the name of a folder"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Run."""

    # No helper here: type checkers only know that a field is required if they see the call of field().
    env: str = field(metadata={TEXT_RULE_KEY: NOT_EMPTY})
    """Full name of the environment, for example doom_benchmark or mujoco_ant."""

    experiment: str = text_option(
        "default_experiment",
        TextRule(
            find_reason=find_folder_reason,
            allowed="the name of a folder below train_dir, such as my_run or doom/my_run",
        ),
    )
    """Name of the run: the folder below train_dir in which everything it writes is kept."""

    train_dir: str = text_option(
        "./train_dir", TextRule(find_reason=_find_train_dir_reason, allowed="the name of a folder")
    )
    """Folder of all runs."""

    restart_behavior: Literal["resume", "restart", "overwrite"] = "resume"
    """What to do when the run's folder exists: continue from its latest checkpoint (resume), keep the old folder under
    another name and begin anew (restart), or delete it and begin anew (overwrite)."""

    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where networks run; auto takes the GPU if there is one. gpu without a GPU is an error."""

    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """Numbers in which encoder and core compute; bf16 halves their memory traffic, and is fast where the processor or
    GPU has instructions for it; auto takes it there, and fp32 elsewhere. Weights, losses, normalizers and the last
    layers stay in fp32."""

    compile: bool = False
    """Let torch.compile make kernels for the learner's encoder: the first training steps take up to minutes, later ones
    less. Needs a C++ compiler on a processor."""

    cuda_graphs: bool = False
    """Give a GPU all that a step of inference computes at once, instead of kernel by kernel: where it has the
    trajectories, too, as for vectors that live there in serial mode, and for networks without parts of one's own. What
    is drawn is the same."""

    seed: int | None = option(None, minimum=0, maximum=2**32 - 1)
    """Seed of environments, sampling and learner; None draws a fresh one for each run."""

    @cached_property
    def folder(self) -> Path:
        """The run's folder, ``{train_dir}/{experiment}``; a leading ``~`` means the home directory.

        Absolute, and the same from when it is first asked for: an environment may change the current folder.

        Raises:
            ConfigError: There is no such home directory.
        """
        return expand_home(self.train_dir, "--train_dir", ConfigError).absolute() / self.experiment
