"""Options that every environment family has; a family adds its own in an extra part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions:
    """Environment."""

    env_frameskip: int = option(1, minimum=1, maximum=1_000_000)
    """Number of environment frames for which each action is repeated; for environments of one's own by what makes
    them, as with skip_and_stack of sample_profiler.envs.wrappers."""

    env_framestack: int = option(1, minimum=1, maximum=10_000)
    """Number of latest frames that make up one observation; for environments of one's own as env_frameskip."""

    pixel_format: Literal["CHW", "HWC"] = "CHW"
    """Order of the dimensions of images as environments return them: channels, height, width. Of HWC the channels, if
    they are at most four, are moved to the front, where networks expect them."""
