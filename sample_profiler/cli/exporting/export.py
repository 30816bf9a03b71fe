"""Owns `sample-profiler export`: a trained policy as a file that other programs run, or as a folder for a hub."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_output_file
from sample_profiler.cli.common.problems import files_told_of
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.errors import UsageError
from sample_profiler.profiling.tree.render import printable
from sample_profiler.run_folder import RunFolder

if TYPE_CHECKING:
    from sample_profiler.model.policy import Policy

__all__ = ["add_parser", "run"]

_SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt", "safetensors": ".safetensors"}
_MODEL = "model"

_EXAMPLES = """\
formats:
  onnx          for ONNX Runtime and whatever else reads it: needs neither this package nor PyTorch
  torchscript   for PyTorch, from C++ too
  safetensors   the weights alone, by their names in the network

examples:
  sample-profiler export train_dir/doom                          writes train_dir/doom/policy_p0.onnx
  sample-profiler export train_dir/doom --kind best --format torchscript
  sample-profiler export train_dir/doom --folder doom_policy     with a model card, config.json and video
  sample-profiler export train_dir/doom --push_to_hub me/doom    the same folder, to the Hugging Face Hub

What is written is run at once, and compared with the policy: it is not there if it does something else.
Needs pip install 'sample_profiler[export]'.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "export",
        help="write a trained policy as ONNX, TorchScript or safetensors, or to a hub",
        description="Write a trained policy, normalization and recurrent state included, for other programs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_dir(parser)
    parser.add_argument("--format", choices=_SUFFIXES, default="onnx", help="default: onnx")
    parser.add_argument("--kind", choices=("latest", "best"), default="latest", help="of checkpoints; default: latest")
    parser.add_argument("--policy_index", type=int, default=0, metavar="N", help="of a run with several; default: 0")
    parser.add_argument("--output", type=as_output_file, metavar="FILE", help="default: RUN_DIR/policy_pN.…")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="make a folder with a model card instead")
    parser.add_argument("--push_to_hub", metavar="USER/NAME", help="upload such a folder to a model repository")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status.

    Raises:
        CheckpointError, ConfigError: the run cannot be read.
        PolicyError: the policy cannot be written in this format, or a package is missing.
        UsageError: a file cannot be written, or the hub refuses.
    """
    if arguments.output is not None and (arguments.folder or arguments.push_to_hub):
        raise UsageError("--output is of a file alone; leave it out with --folder and --push_to_hub")
    with progress_shown("exporting the policy"):
        told = _export(arguments)
    print(told)
    return 0


def _export(arguments: argparse.Namespace) -> str:
    """Write what is asked for, and return where it is and what it is like."""
    from sample_profiler.cli.exporting.model_folder import push_folder, write_folder
    from sample_profiler.model.exported.formats import export_policy
    from sample_profiler.policies import load_policy

    policy = load_policy(arguments.run_dir, arguments.kind, policy_index=arguments.policy_index)
    run_folder = RunFolder(arguments.run_dir.expanduser())
    suffix = _SUFFIXES[arguments.format]
    with files_told_of():
        if not (arguments.folder or arguments.push_to_hub):
            path = arguments.output or run_folder.exported(arguments.policy_index).with_suffix(suffix)
            apart = export_policy(policy, path, arguments.format)
            told = f"{printable(str(path))} ({path.stat().st_size:,} bytes): {_describe(policy, apart)}"
        else:
            with _folder(arguments.folder) as folder:
                apart = export_policy(policy, folder / f"{_MODEL}{suffix}", arguments.format)
                write_folder(folder, run_folder, policy, arguments.format, f"{_MODEL}{suffix}")
                told = f"{printable(str(folder))}: {_describe(policy, apart)}"
                if arguments.push_to_hub:
                    told = f"{push_folder(folder, arguments.push_to_hub)}: {_describe(policy, apart)}"
    return told


@contextlib.contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """Make the folder to be filled; one that nobody has chosen is gone afterwards."""
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="sample_profiler_") as folder:
            yield Path(folder)
        return
    if chosen.exists() and (not chosen.is_dir() or any(chosen.iterdir())):
        raise UsageError(f"--folder={chosen} is there already, and not empty: give a new one")
    chosen.mkdir(parents=True, exist_ok=True)
    yield chosen


def _describe(policy: Policy, apart: float) -> str:
    return f"trained for {policy.trained_frames:,} frames; its outputs and the policy's are {apart:.2g} apart at most"
