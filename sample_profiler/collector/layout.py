"""Owns how the sampling side of a run is laid out for a caller, and which backend runs it on this machine."""

from __future__ import annotations

from dataclasses import replace

from sample_profiler.collector.backends import SerialBackend
from sample_profiler.collector.processes import ProcessBackend
from sample_profiler.config import Config
from sample_profiler.config.seeds import draw_seed
from sample_profiler.envs import EnvSpec, export_registration
from sample_profiler.run.checks.machine import choose_device
from sample_profiler.run.layout.blueprint import Blueprint, choose_transport, make_blueprint

__all__ = ["lay_out", "make_local_backend"]


def lay_out(config: Config, env_spec: EnvSpec) -> Blueprint:
    """Lay out the workers of a configuration.

    Args:
        config: of the run.
        env_spec: from `probe_env`.

    Raises:
        ConfigError: there is no such device or transport.
    """
    seed = config.run.seed if config.run.seed is not None else draw_seed()
    # Here the flag says only whether there are `final_values`; what follows from them is the caller's affair.
    loss = replace(config.loss, value_bootstrap=True)
    blueprint = make_blueprint(
        config=replace(config, run=replace(config.run, seed=seed), loss=loss),
        seed=seed,
        env_payload=export_registration(config.run.env),
        env_spec=env_spec,
        run_folder=config.run.folder,
        device=choose_device(config),
        transport=choose_transport(config.sampling),
    )
    return replace(blueprint, trains=False)


def make_local_backend(blueprint: Blueprint) -> SerialBackend | ProcessBackend:
    """Start the workers on this machine: in processes, or all in this one."""
    make = SerialBackend if blueprint.config.sampling.serial_mode else ProcessBackend
    return make(blueprint)
