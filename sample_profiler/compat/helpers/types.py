"""Owns names of types, for annotations alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium

from sample_profiler.compat.settings.attributes import AttrDict

Config: TypeAlias = argparse.Namespace | AttrDict
Env: TypeAlias = Any
ObsSpace: TypeAlias = gymnasium.Space[Any]
ActionSpace: TypeAlias = gymnasium.Space[Any]
ActionDistribution: TypeAlias = Any
StatusCode: TypeAlias = int
PolicyID: TypeAlias = int
Device: TypeAlias = str
MpQueue: TypeAlias = Any
MpLock: TypeAlias = Any
InitModelData: TypeAlias = tuple[int, dict[str, Any], Any, int]
CreateEnvFunc: TypeAlias = Callable[..., Any]
MsgHandler: TypeAlias = Callable[[Any, dict[str, Any]], None]
PolicyMsgHandler: TypeAlias = Callable[[Any, dict[str, Any], int], None]
MakeEncoderFunc: TypeAlias = Callable[[Any, Any], Any]
MakeCoreFunc: TypeAlias = Callable[[Any, int], Any]
MakeDecoderFunc: TypeAlias = Callable[[Any, int], Any]
MakeActorCriticFunc: TypeAlias = Callable[[Any, Any, Any], Any]
