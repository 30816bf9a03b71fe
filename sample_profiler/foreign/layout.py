"""Owns what the parameters of Sample Factory's networks are called in those of this package.

Layers have the same shapes and the same meaning in both; what the last layer of the actor is cut into is found out by
the network that loads it (:mod:`sample_profiler.model.action_heads`). Parts of somebody's own keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import torch
from torch import Tensor

from sample_profiler.errors import CheckpointError
from sample_profiler.model.action_heads import IMPORTED_LAYER, IMPORTED_STDDEV
from sample_profiler.spaces import ACTION_MASK_KEY, as_dict_space

__all__ = ["name_as_original", "named_moments", "translate_model"]

_TRUNKS = {"": 0, "actor_": 0, "critic_": 1}
_PART = re.compile(r"(?P<trunk>actor_|critic_|)(?P<part>encoder|core|decoder)\.(?P<rest>.+)")
_OF_KEY = re.compile(r"encoders\.(?P<key>[^.]+)\.(?P<rest>.+)")
_IMAGE_ALONE = "basic_encoder."  # of Doom: the default encoder of the picture, here that of the one key
_CONVOLUTION = re.compile(r"(?:enc\.)?conv_head\.(?P<index>\d+)\.(?P<rest>.+)")
_AFTER_CONVOLUTIONS = re.compile(r"(?:enc\.)?mlp_layers\.(?P<rest>.+)")
_RECURRENT = re.compile(r"core\.(?:weight|bias)_[ih]h_l\d+")
_NORMALIZER = "obs_normalizer.running_mean_std.running_mean_std."
_STATISTICS = {"running_mean": "mean", "running_var": "variance", "count": "count"}
_RETURNS = "returns_normalizer."
_CONVOLUTION_NDIM = 4
_BEHIND_CONVOLUTIONS = 3  # the last one, its activation, and the flattening
_HEADS = {
    "critic_linear.": "value_head.",
    "action_parameterization.distribution_linear.": f"{IMPORTED_LAYER}.",
    "action_parameterization.learned_stddev": IMPORTED_STDDEV,
}


class _Names:
    """Names of one network.

    Args:
        names: All of its state dict, of the original.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self.keys = sorted({*self._keys_of_encoders(), *self._keys_of_normalizer()})

    def translate(self, name: str) -> str:
        """Return what a parameter is called here.

        Raises:
            CheckpointError: There is no such parameter in Sample Factory's networks.
        """
        for theirs, ours in _HEADS.items():
            if name.startswith(theirs):
                return ours + name.removeprefix(theirs)
        match = _PART.fullmatch(name)
        if match is None:
            raise CheckpointError(f"{name!r} is no parameter of a network of Sample Factory 2")
        trunk, part, rest = f"trunks.{_TRUNKS[match['trunk']]}.", match["part"], match["rest"]
        if part == "encoder":
            return trunk + self._translate_encoder(rest, f"{match['trunk']}encoder.")
        # A core of one's own is wrapped by sample_profiler.compat.
        if part == "core":
            return trunk + (
                f"core.rnn.{rest.removeprefix('core.')}" if _RECURRENT.fullmatch(rest) else f"core.core.{rest}"
            )
        return f"{trunk}decoder.{rest.removeprefix('mlp.')}"

    def _translate_encoder(self, rest: str, encoder: str) -> str:
        if match := _OF_KEY.fullmatch(rest):
            inner = self._translate_encoder_of_key(match["rest"], f"{encoder}encoders.{match['key']}.")
            return f"encoder.encoders.{self.keys.index(match['key'])}.{inner}"
        if rest.startswith(_IMAGE_ALONE) and not self._has(f"{encoder}measurements_head."):
            inner = self._translate_encoder_of_key(rest.removeprefix(_IMAGE_ALONE), f"{encoder}{_IMAGE_ALONE}")
            return f"encoder.encoders.0.{inner}"
        return f"encoder.{rest}"

    def _translate_encoder_of_key(self, rest: str, prefix: str) -> str:
        if match := _CONVOLUTION.fullmatch(rest):
            return f"layers.{match['index']}.{match['rest'].replace('res_block_core.', 'layers.')}"
        if match := _AFTER_CONVOLUTIONS.fullmatch(rest):
            index, _, of_layer = match["rest"].partition(".")
            return f"layers.{self._place_behind_convolutions(prefix) + int(index)}.{of_layer}"
        return rest.replace("mlp_head.", "layers.")

    def _place_behind_convolutions(self, prefix: str) -> int:
        """Return the place of the first layer behind convolutions, their last activation and the flattening."""
        rests = (name.removeprefix(prefix) for name in self._names if name.startswith(prefix))
        last = max(int(match["index"]) for rest in rests if (match := _CONVOLUTION.fullmatch(rest)))
        return last + _BEHIND_CONVOLUTIONS

    def _keys_of_encoders(self) -> list[str]:
        parts = (match["rest"] for name in self._names if (match := _PART.fullmatch(name)))
        return [match["key"] for rest in parts if (match := _OF_KEY.fullmatch(rest))]

    def _keys_of_normalizer(self) -> list[str]:
        return [
            name.removeprefix(_NORMALIZER).rpartition(".")[0] for name in self._names if name.startswith(_NORMALIZER)
        ]

    def _has(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self._names)


def translate_model(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the state of a network of this package.

    Args:
        state: Of the original.

    Raises:
        CheckpointError: It is of no network of Sample Factory's.
    """
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise CheckpointError(f"{name!r} is a {type(value).__name__}, and a network consists of tensors")
    names = _Names(state)
    translated = {
        names.translate(name): value.clone()
        for name, value in state.items()
        if not name.startswith((_NORMALIZER, _RETURNS))
    }
    for place, key in enumerate(names.keys or ["obs"]):
        entry = f"observation_normalizer.entries.{place}"
        translated |= _statistics(state, f"{_NORMALIZER}{key}.", f"{entry}.statistics.")
        shape = translated[f"{entry}.statistics.mean"].shape if f"{entry}.statistics.mean" in translated else ()
        # Whoever loads them computes them of the statistics.
        translated |= {f"{entry}.factor": torch.ones(shape), f"{entry}.offset": torch.zeros(shape)}
    fresh = {"mean": 0.0, "variance": 1.0, "count": 1.0}
    returns = {f"returns_normalizer.{name}": torch.tensor(value).double() for name, value in fresh.items()}
    return translated | returns | _statistics(state, _RETURNS, "returns_normalizer.", is_of_numbers=True)


def _statistics(
    state: Mapping[str, Tensor], theirs: str, ours: str, *, is_of_numbers: bool = False
) -> dict[str, Tensor]:
    """Return running statistics; those of single numbers, and all counts, have a dimension of 1 in the original."""
    values = {name: state[f"{theirs}{old}"].double() for old, name in _STATISTICS.items() if f"{theirs}{old}" in state}
    return {
        f"{ours}{name}": value.reshape(()) if is_of_numbers or name == "count" else value.clone()
        for name, value in values.items()
    }


_OF_TRUNK = re.compile(r"trunks\.(?P<trunk>\d)\.(?P<part>encoder|core|decoder)\.(?P<rest>.+)")
_OF_ENCODER = re.compile(
    r"(?P<encoder>trunks\.\d\.encoder\.encoders\.(?P<place>\d+)\.layers\.)(?P<index>\d+)\.(?P<rest>.+)"
)
_OF_ENTRY = re.compile(r"observation_normalizer\.entries\.(?P<place>\d+)\.statistics\.(?P<name>\w+)")
_OF_LAYER = re.compile(r"action_head\.(?:heads\.\d+\.)?(?:logits|outputs)\.(?P<kind>weight|bias)")
_ORIGINAL_STATISTICS = {ours: theirs for theirs, ours in _STATISTICS.items()}


def name_as_original(state: Mapping[str, Tensor], observation_space: gymnasium.Space[Any]) -> dict[str, Tensor]:
    """Return the state of a network of this package as Sample Factory's has it: what `translate_model` reads.

    It stays as it is where the original's names do not tell which observations there are.

    Args:
        state: Of a network; parts of somebody's own keep their names.
        observation_space: Of its environment.
    """
    keys = sorted(key for key in as_dict_space(observation_space).spaces if key != ACTION_MASK_KEY)
    layers: dict[str, list[Tensor]] = {"weight": [], "bias": []}
    named: dict[str, Tensor] = {}
    for name, value in state.items():
        if match := _OF_LAYER.fullmatch(name):
            layers[match["kind"]].append(value)
        elif match := _OF_ENTRY.fullmatch(name):
            theirs = f"{_NORMALIZER}{keys[int(match['place'])]}.{_ORIGINAL_STATISTICS[match['name']]}"
            named[theirs] = value.reshape(1) if match["name"] == "count" else value
        elif name.startswith(_RETURNS):
            named[_RETURNS + _ORIGINAL_STATISTICS[name.removeprefix(_RETURNS)]] = value.reshape(1)
        elif not name.startswith("observation_normalizer."):  # what is left of that follows from the statistics
            named[_original_name(name, state, keys)] = value
    named |= {
        f"action_parameterization.distribution_linear.{kind}": torch.cat(rows) for kind, rows in layers.items() if rows
    }
    return named if (_Names(named).keys or ["obs"]) == keys else dict(state)


def _original_name(name: str, state: Mapping[str, Tensor], keys: list[str]) -> str:
    if name == "action_head.log_stddev":
        return "action_parameterization.learned_stddev"
    match = _OF_TRUNK.fullmatch(name)
    if match is None:
        return name.replace("value_head.", "critic_linear.")
    are_apart = any(each.startswith("trunks.1.") for each in state)
    part, rest = match["part"], match["rest"]
    if part == "encoder" and (of_encoder := _OF_ENCODER.fullmatch(name)):
        rest = f"encoders.{keys[int(of_encoder['place'])]}.{_name_in_encoder(of_encoder, state)}"
    elif part == "core":
        rest = f"core.{rest.removeprefix('rnn.')}" if rest.startswith("rnn.") else rest.removeprefix("core.")
    elif part == "decoder" and rest[0].isdigit():
        rest = f"mlp.{rest}"
    return f"{('actor_', 'critic_')[int(match['trunk'])] if are_apart else ''}{part}.{rest}"


def _name_in_encoder(match: re.Match[str], state: Mapping[str, Tensor]) -> str:
    """Return the name of a parameter in the encoder of one key; that of an image has layers behind convolutions."""
    of_encoder = [
        (each, value) for name, value in state.items() if (each := name.removeprefix(match["encoder"])) != name
    ]
    is_resnet = any(".layers." in each for each, _ in of_encoder)
    of_convolutions = [int(each.partition(".")[0]) for each, value in of_encoder if value.ndim == _CONVOLUTION_NDIM]
    index, rest, begin = int(match["index"]), match["rest"], "" if is_resnet else "enc."
    if not of_convolutions:
        return f"mlp_head.{index}.{rest}"
    if index <= max(of_convolutions):
        return f"{begin}conv_head.{index}.{rest.replace('layers.', 'res_block_core.')}"
    return f"{begin}mlp_layers.{index - max(of_convolutions) - _BEHIND_CONVOLUTIONS}.{rest}"


def named_moments(optimizer: Mapping[str, Any], model: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Return what an optimizer knows of each parameter, by the parameter's name here.

    Args:
        optimizer: Its state, with parameters counted.
        model: State of its network, of the original: its parameters in their order, and statistics.

    Raises:
        CheckpointError: It is of other parameters.
    """
    names = _Names(model)
    parameters = [name for name in model if not name.startswith((_NORMALIZER, _RETURNS))]
    moments = optimizer.get("state", {})
    if not isinstance(moments, Mapping) or any(
        index not in range(len(parameters)) or entry["exp_avg"].shape != model[parameters[index]].shape
        for index, entry in moments.items()
    ):
        raise CheckpointError("its optimizer is of other parameters than its network")
    kept = ("step", "exp_avg", "exp_avg_sq")
    return {
        names.translate(parameters[index]): {name: entry[name] for name in kept} for index, entry in moments.items()
    }
