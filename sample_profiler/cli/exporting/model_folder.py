"""Owns a folder with a policy and all that others have to know of it, as hubs of models show them."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.config import show_value
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.files import written_whole
from sample_profiler.model.exported.step import OUTPUTS, STATES, input_names
from sample_profiler.model.policy import Policy
from sample_profiler.profiling.session.session import read_session
from sample_profiler.reports.sections.history import EPISODE_RETURN, name_figure, read_history
from sample_profiler.run_folder import RunFolder
from sample_profiler.spaces.as_data import space_to_data
from sample_profiler.version import __version__

__all__ = ["CARD", "HUB_EXTRA", "front_matter", "model_index", "push_folder", "write_folder"]

CARD = "README.md"
"""File of a folder that hubs show first."""

_SPACES = "policy.json"
HUB_EXTRA = "pip install 'sample_profiler[export]'"
"""What to install for the hub."""

_HOW_TO_RUN = {
    "onnx": """\
```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{file}")
states = np.zeros((1, {state_size}), np.float32)  # where an episode begins
# Observations are named as `inputs` of policy.json says.
actions, parameters, returns, states = session.run({outputs}, {{**observations, "states": states}})
```
""",
    "torchscript": """\
```python
import torch

policy = torch.jit.load("{file}")
states = torch.zeros(1, {state_size})  # where an episode begins
actions, parameters, returns, states = policy(observations, states)
```
""",
    "safetensors": """\
The weights are named as in the network of sample_profiler, which `config.json` and `policy.json` describe:

```python
from safetensors.torch import load_file

weights = load_file("{file}")
```
""",
}


def write_folder(folder: Path, run: RunFolder, policy: Policy, format_name: str, file: str) -> None:
    """Write what belongs to a policy beside its file: a card, its spaces, the run's flags, and the video if it has one.

    Args:
        folder: where the policy's file is.
        run: that it was trained by.
        policy: the policy.
        format_name: of the file.
        file: name of the file.

    Raises:
        OSError: a file cannot be written.
    """
    described = {
        "sample_profiler": __version__,
        "trained_frames": policy.trained_frames,
        "state_size": policy.state_size,
        "observation_space": space_to_data(policy.observation_space),
        "action_space": space_to_data(policy.action_space),
        "inputs": [*input_names(policy.observation_space.spaces).values(), STATES],
        "outputs": list(OUTPUTS),
    }
    _write(folder / _SPACES, json.dumps(_with_named_infinities(described), indent=1, allow_nan=False) + "\n")
    shutil.copyfile(run.config_to_resume(), folder / run.config.name)
    videos = [video for ending in (".mp4", ".gif") if (video := run.replay.with_suffix(ending)).is_file()]
    for video in videos[:1]:
        shutil.copyfile(video, folder / video.name)
    _write(folder / CARD, _card(run, policy, format_name, file, [video.name for video in videos[:1]]))


def _with_named_infinities(data: Any) -> Any:
    """Return data with "inf" and "-inf" as texts: JSON has no such numbers, and parsers of others refuse them."""
    if isinstance(data, dict):
        return {key: _with_named_infinities(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_with_named_infinities(value) for value in data]
    return str(data) if isinstance(data, float) and math.isinf(data) else data


def _write(path: Path, text: str) -> None:
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def _card(run: RunFolder, policy: Policy, format_name: str, file: str, videos: list[str]) -> str:
    flags = run.flag_values()
    env, name = str(flags.get("env", "")), run.path.resolve().name
    returns = _latest_return(run)
    head: dict[str, Any] = {
        "library_name": "sample_profiler",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", "ppo", env],
        "pipeline_tag": "reinforcement-learning",
    }
    if returns is not None:
        metric = {"type": "mean_reward", "value": round(returns, 2), "name": "mean return of the latest episodes"}
        head |= model_index(name, env, metric)
    how = _HOW_TO_RUN[format_name].format(file=file, state_size=policy.state_size, outputs=list(OUTPUTS))
    texts = [
        front_matter(head),
        f"# {name}\n",
        f"A policy for `{env}`, trained by PPO for {policy.trained_frames:,} frames with sample_profiler {__version__}."
        + ("" if returns is None else f" The latest episodes of its training had a mean return of {returns:.4g}.")
        + "\n",
        *(f"![It plays]({video})\n" for video in videos),
        "## How to run it\n",
        how,
        "Observations are arrays `[N, ...]` as the environment gives them, nested ones under `outer/inner`; what is "
        "normalized is normalized inside. `actions` are `[N, A]`, the most probable ones, within the bounds of the "
        "environment, part after part; `action_parameters` are logits, or means and logarithms of standard deviations. "
        "The states of a step are those that the step before has returned, zeros where an episode begins.\n",
        "## Flags\n",
        _flags(flags),
    ]
    return "\n".join(texts)


def _latest_return(run: RunFolder) -> float | None:
    try:
        points = read_history(read_session(run.path, with_events=False)).get(name_figure(EPISODE_RETURN, 0))
    except SessionError:
        return None
    return points[-1][1] if points else None


def model_index(name: str, env: str, metric: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a card's head that tells a hub how good a policy is.

    Args:
        name: of the policy.
        env: name of the environment.
        metric: its ``type``, ``value`` and ``name``.
    """
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    result = {"task": task, "dataset": {"name": env, "type": env}, "metrics": [metric]}
    return {"model-index": [{"name": name, "results": [result]}]}


def front_matter(head: Mapping[str, Any]) -> str:
    """Return the head of a card, JSON line by line: YAML has all of it."""
    return "---\n" + "".join(f"{name}: {json.dumps(value)}\n" for name, value in head.items()) + "---\n"


def _flags(flags: Mapping[str, Any]) -> str:
    lines = (f"--{name}={show_value(value)}" for name, value in flags.items())
    return "```text\n" + "\n".join(line.replace("```", "'''") for line in lines) + "\n```\n"


def push_folder(folder: Path, repository: str) -> str:
    """Upload a folder to a repository of the Hugging Face Hub, which is made if need be; return its address.

    Who uploads is known by the token of `hf auth login`, or by HF_TOKEN; where to, by HF_ENDPOINT.

    Args:
        folder: with a policy and its card.
        repository: as in "user/name".

    Raises:
        UsageError: huggingface_hub is missing, or the hub refuses or cannot be reached.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed, which --push_to_hub takes: {HUB_EXTRA}") from None
    hub = HfApi()
    try:
        address = hub.create_repo(repository, repo_type="model", exist_ok=True)
        hub.upload_folder(repo_id=repository, folder_path=str(folder), commit_message="A policy of sample_profiler")
    except Exception as error:  # of the hub, of the network, of a name that is none
        raise UsageError(f"--push_to_hub={repository}: {type(error).__name__}: {error}") from error
    return str(address)
