"""Owns the words for why the state of a checkpoint does not fit a network."""

from __future__ import annotations

import re

__all__ = ["describe_mismatch"]

_LONGEST_NAME = 100
# PyTorch tells of all tensors at once, below a heading that names none.
_KINDS = (
    (re.compile(r'Missing key\(s\) in state_dict: "([^"]+)"'), "the checkpoint has no {}, which the network has"),
    (re.compile(r'Unexpected key\(s\) in state_dict: "([^"]+)"'), "the checkpoint has {}, which the network has not"),
    (
        re.compile(
            r"size mismatch for (\S+): copying a param with shape (?:torch\.Size\()?(\[[\d, ]*\])\)? from checkpoint, "
            r"the shape in current model is (?:torch\.Size\()?(\[[\d, ]*\])\)?"
        ),
        "{} is {} in the checkpoint and {} in the network",
    ),
)


def describe_mismatch(error: Exception) -> str:
    """Return why a state could not be loaded: of each kind the first tensor, or else the error's first line.

    Args:
        error: raised by `load_state_dict` or by reading what is in the state.
    """
    text = str(error).strip()
    found = [(pattern.search(text), words) for pattern, words in _KINDS]
    mismatches = [words.format(*(part[:_LONGEST_NAME] for part in match.groups())) for match, words in found if match]
    if mismatches:
        return "; ".join(mismatches)
    return text.splitlines()[0] if text else type(error).__name__
