"""Owns what becomes of the last layer of an actor that was trained by Sample Factory.

There it is one layer for all parts of an action; here each part has its own. How many rows belong to which is known
only where the action space is, so it is cut when a network loads it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sample_profiler.model.action_heads import DiscreteHead, GaussianHead

__all__ = ["IMPORTED_LAYER", "IMPORTED_STDDEV", "cut_imported_layer"]

IMPORTED_LAYER = "action_head.imported_layer"
"""Prefix of weight and bias of such a layer in a state dict."""

IMPORTED_STDDEV = "action_head.imported_log_stddev"
"""Name of the logarithms of standard deviations beside it, which one policy has for all states."""


def cut_imported_layer(network: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace such a layer by those of the network's own heads; for `register_load_state_dict_pre_hook`.

    Args:
        network: That loads a state.
        state: The state, changed in place. What does not fit is left under the name of the first head, for PyTorch to
            tell of.
        prefix: Of all names in it.
    """
    layers = dict(_layers_of_heads(network))
    for kind in ("weight", "bias"):
        imported = state.pop(f"{prefix}{IMPORTED_LAYER}.{kind}", None)
        if not isinstance(imported, Tensor):
            continue
        rows = [len(layer.weight) for layer in layers.values()]
        pieces = torch.split(imported, rows) if sum(rows) == len(imported) else (imported,)
        state.update({f"{prefix}{name}.{kind}": piece for name, piece in zip(layers, pieces, strict=False)})
    if (stddev := state.pop(f"{prefix}{IMPORTED_STDDEV}", None)) is not None:
        state[f"{prefix}action_head.log_stddev"] = stddev


def _layers_of_heads(network: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Return the layer of each part of an action, in order, by its name in the network."""
    found: list[tuple[str, nn.Linear]] = []
    for name, head in network.named_modules():
        if isinstance(head, DiscreteHead):
            found.append((f"{name}.logits", head.logits))
        elif isinstance(head, GaussianHead):
            found.append((f"{name}.outputs", head.outputs))
    return found
