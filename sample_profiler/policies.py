"""A trained policy alone: from a run's folder or a checkpoint, without the run and its processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sample_profiler.config import Config, load_config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.envs import EnvSpec, env_probed, inspect_env, make_env
from sample_profiler.errors import CheckpointError, PolicyError, UnknownEnvError
from sample_profiler.model.registry import registered_parts
from sample_profiler.run_folder import RunFolder
from sample_profiler.storage.mismatch import describe_mismatch
from sample_profiler.storage.sampling_plan import make_sampling_plan

if TYPE_CHECKING:
    import torch

    from sample_profiler.model.policy import Policy

__all__ = ["PlayedPolicies", "load_policy", "load_state", "restore_policy", "roles_of"]

_UNFITTING = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)
_MOST_FOLDERS = 3  # from a milestone up to the run's folder


def load_policy(
    folder_or_checkpoint: str | os.PathLike[str],
    kind: Literal["latest", "best"] = "latest",
    device: str | torch.device = "cpu",
    *,
    policy_index: int | None = None,
) -> Policy:
    """Load a trained policy for a loop of one's own: there is no run, and no process is started.

    Encoder, core, decoder or network of one's own have to be registered as for training. The environment need not be,
    unless the checkpoint is of a program that does not write its spaces into it.

    Args:
        folder_or_checkpoint: a run's folder (`train_dir/experiment`), its `checkpoint_p0`, or a checkpoint in that.
        kind: of a folder the "latest" checkpoint or the "best".
        device: where it computes: "cpu", "cuda", or any that PyTorch knows.
        policy_index: which policy of a run's folder with several; None: the first.

    Returns:
        The policy.

    Raises:
        CheckpointError: there is no checkpoint, it cannot be read, or it is not of this network.
        ConfigError: the run's `config.json` cannot be read.
        PolicyError: there is no such kind, policy or device.
    """
    from sample_profiler.storage.checkpoints import CheckpointFolder, load_checkpoint

    if kind not in ("latest", "best"):
        raise PolicyError(f"kind is {kind!r}; it is 'latest' or 'best'")
    path = Path(folder_or_checkpoint).expanduser().absolute()
    run = _find_run(path)
    config = load_config(run.config_to_resume(), keeps_unknown=True)
    policy = _choose_policy(path, run, config.sampling.num_policies, policy_index)
    if path.is_dir():
        state = load_state(CheckpointFolder(run.path, policy, config.saving.keep_checkpoints), kind)
    else:
        state = load_checkpoint(path)
    return restore_policy(config, _find_spec(state, config, policy, path), state, path, device)


def load_state(folder: Any, kind: str) -> dict[str, Any]:
    """Return what the newest whole checkpoint of a `CheckpointFolder` holds; nothing in the folder is changed.

    Args:
        folder: of a policy.
        kind: "latest" or "best".

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    state: dict[str, Any] | None = folder.load(kind, sets_aside=False)
    if state is None:
        raise CheckpointError(f"there is no {kind} checkpoint in {folder.path}: train first, or choose another run")
    return state


def restore_policy(
    config: Config, spec: EnvSpec, state: dict[str, Any], path: Path, device: str | torch.device = "cpu"
) -> Policy:
    """Make the policy that was saved.

    Args:
        config: of its run.
        spec: of its environment.
        state: from a checkpoint.
        path: of the checkpoint or its folder, for errors.
        device: where it computes.

    Raises:
        CheckpointError: the state is not of the network that the configuration describes.
        ConfigError, ModelError: a part of the network does not fit.
        PolicyError: there is no such device.
    """
    import torch

    from sample_profiler.model import make_actor_critic
    from sample_profiler.model.policy import Policy

    with torch.random.fork_rng(devices=()):  # whoever draws random numbers in this process goes on with the same
        model = make_actor_critic(
            config.model, config.observations, spec.observation_space, spec.action_space, registered_parts(config)
        )
    try:
        model.load_state_dict(state["model"])
        trained_frames = int(state["frames"])
    except _UNFITTING as error:
        raise CheckpointError(
            f"the checkpoint in {path} is not of this network ({describe_mismatch(error)}): leave out flags of the "
            "network that it was not trained with, and register the same encoder, core and decoder as for training"
        ) from None
    return Policy(
        model.to(_find_device(device)),
        spec.observation_space,
        spec.action_space,
        has_normalized_values=config.loss.normalize_returns,
        trained_frames=trained_frames,
    )


@dataclass(frozen=True)
class PlayedPolicies:
    """The policies that play an environment, where one of them is looked at.

    Attributes:
        roles: the number of the policy that plays each agent.
        leading: number of the policy that is looked at.
        states: from checkpoints, by number of the policy.
    """

    roles: tuple[int, ...]
    leading: int
    states: dict[int, dict[str, Any]]

    def restore(self, config: Config, spec: EnvSpec, seed: int) -> dict[int, Policy]:
        """Make the policies that were saved.

        Args:
            config: of their run.
            spec: of its environment.
            seed: of the actions that they draw.

        Raises:
            CheckpointError, ConfigError, ModelError, PolicyError: as of `restore_policy`.
        """
        policies = {}
        for number, state in self.states.items():
            path = RunFolder(config.run.folder).checkpoints(number)
            policy = restore_policy(config, spec.of_agent(self.roles.index(number)), state, path)
            policy.generator.manual_seed(seed if number == self.leading else derive_seed(seed, number))
            policies[number] = policy
        return policies


def roles_of(config: Config, spec: EnvSpec, policy: int) -> tuple[int, ...]:
    """Return which policy plays each agent of an environment in which one policy is looked at.

    It plays all of them, unless agents have spaces of their own: then those that have its spaces.

    Args:
        config: of the run.
        spec: of its environment.
        policy: that is looked at.

    Raises:
        ConfigError: there are too few policies for these agents.
    """
    if not spec.own_spaces:
        return (policy,) * spec.num_agents
    plan = make_sampling_plan(config.sampling, spec.num_agents, kinds=spec.kinds)
    return plan.cast(policy, spec.kinds)


def _find_run(path: Path) -> RunFolder:
    """Return the folder of the run that a path is in."""
    if not path.exists():
        raise CheckpointError(f"there is no {path}: give the folder of a run (train_dir/experiment) or a checkpoint")
    for folder in (path, *path.parents)[: _MOST_FOLDERS + 1]:
        if folder.is_dir() and RunFolder(folder).config_to_resume().exists():
            return RunFolder(folder)
    name = RunFolder(path).config.name
    raise CheckpointError(
        f"{path} is in no run's folder: there is no {name} with it, which says what the network is like: give the "
        f"folder of a run (train_dir/experiment), or put its {name} above the folder of the checkpoint"
    )


def _choose_policy(path: Path, run: RunFolder, num_policies: int, wanted: int | None) -> int:
    """Return the policy that a path is of, or that is wanted."""
    policies = range(num_policies)
    if wanted is not None and wanted not in policies:
        raise PolicyError(f"policy_index is {wanted!r}; the run in {run.path} has {num_policies}, counted from 0")
    if path == run.path:
        return wanted or 0
    of_path = [policy for policy in policies if run.checkpoints(policy) in (path, path.parent, path.parent.parent)]
    is_folder_of_others = path.is_dir() and path not in map(run.checkpoints, policies)
    if is_folder_of_others or wanted not in (None, *of_path):
        raise PolicyError(
            f"{path} is no folder of checkpoints of policy {wanted or 0}: give the run's folder, {run.path}, "
            f"or one of {[run.checkpoints(policy).name for policy in policies]} in it, or a checkpoint"
        )
    return of_path[0] if of_path else 0


def _find_spec(state: dict[str, Any], config: Config, policy: int, path: Path) -> EnvSpec:
    """Return what the environment was like: as the checkpoint says, or else as it is."""
    if "env_spec" in state:
        try:
            return EnvSpec.from_data(state["env_spec"])
        except ValueError as error:
            raise CheckpointError(f"the checkpoint in {path} is damaged: of its spaces, {error}") from None
    name = config.run.env
    try:
        with env_probed(lambda: make_env(name, config, None), name) as env:
            spec = inspect_env(env, name)
    except UnknownEnvError as error:
        raise CheckpointError(
            f"the checkpoint in {path} does not say which spaces its policy has, and its environment cannot be asked: "
            f"{error}"
        ) from None
    return spec.of_agent(roles_of(config, spec, policy).index(policy))


def _find_device(device: str | torch.device) -> torch.device:
    import torch

    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PolicyError(f"device is {device!r}, which PyTorch cannot use ({reason}): 'cpu' always can be") from None
    return found
