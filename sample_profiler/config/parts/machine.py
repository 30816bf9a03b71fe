"""Options of the machine and of what a run reports about itself."""

from __future__ import annotations

from dataclasses import dataclass

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """Machine and reporting."""

    set_workers_cpu_affinity: bool = True
    """Bind each rollout worker to cores of its own, so that the system does not move it around."""

    force_envs_single_thread: bool = False
    """Keep numerical libraries inside environments to one thread, so that workers do not compete for cores."""

    default_niceness: int = option(0, minimum=-20, maximum=19)
    """Niceness of the component processes; below 0 needs privileges."""

    log_to_file: bool = True
    """Also write the log to log.txt in the run's folder."""

    experiment_summaries_interval: float = option(10.0, above=0)
    """Seconds between two points of the TensorBoard summaries."""

    flush_summaries_interval: float = option(30.0, above=0, maximum=86_400)
    """Seconds between two writes of the TensorBoard summaries to disk."""

    stats_avg: int = option(100, minimum=1, maximum=1_000_000)
    """Number of latest episodes over which statistics such as the reward are averaged."""

    metrics_port: int = option(0, minimum=0, maximum=65_535)
    """Port of this machine (127.0.0.1) at which the run's figures are told to Prometheus, in the form of OpenMetrics;
    0: none."""

    alert_command: str = ""
    """Command line that is run when the run fails, stalls, leaks memory, becomes slow or has a new best policy, without
    a shell; the alert is JSON on its standard input. A resumed run takes it from its own command line alone."""

    alert_webhook: str = ""
    """Address that the same alerts are sent to as JSON, by POST. A resumed run takes it from its own command line
    alone."""

    summaries_use_frameskip: bool = True
    """Count steps in environment frames (agent steps times env_frameskip) wherever steps are shown or given."""

    heartbeat_interval: float = option(2.0, above=0)
    """Seconds between two signs of life of each component."""

    heartbeat_reporting_interval: float = option(20.0, above=0)
    """Seconds without a sign of life after which a component is reported as stuck; a component that died is known at
    once."""
