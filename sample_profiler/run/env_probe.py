"""Owns how the environment of a run is tried before anything is made: in a process of its own; in serial mode, here.

What an environment does to its process, such as changing its folder, its signals or its threads, or hanging, befalls
the process alone in which it is tried.
"""

from __future__ import annotations

import contextlib
import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sample_profiler.config import Config
from sample_profiler.envs import EnvSpec, env_probed, export_registration, import_registration, inspect_env, make_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.errors import ConfigError, EnvError, SampleProfilerError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.timers.stacks import get_thread_stacks
from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.loop.unasked_component import UnaskedComponent
from sample_profiler.runtime.machine.core_shares import choose_worker_threads
from sample_profiler.runtime.machine.libraries import tame_numerical_libraries
from sample_profiler.runtime.machine.measured_process import UNKNOWN_STATUS
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S
from sample_profiler.runtime.processes.child import ChildSettings, SharedMemoryNames
from sample_profiler.runtime.processes.failure import Failure, HangError, RemoteError
from sample_profiler.runtime.processes.main_thread_watch import MainThreadWatch
from sample_profiler.runtime.processes.supervisor import Supervisor
from sample_profiler.runtime.surroundings.process_settings import ProcessSettings

__all__ = ["EnvProbe", "begin_local_probe", "begin_probe", "probe_env"]

logger = logging.getLogger(__name__)

_NAME = "EnvProbe"
_IMPORT, _CONSTRUCTOR, _CLOSE = "import", "constructor", "close"
_POLL_S = 0.5
_CLOSE_PATIENCE_S = 6.0  # at the end of a run, as components have


class EnvProbe(Protocol):
    """An environment that is being tried.

    Attributes:
        settings: of this process, from before it was tried here; None: it is tried in another one.
        metadata: of the timers of this process, which it may reset if it is tried here.
    """

    settings: ProcessSettings | None
    metadata: dict[str, str]

    def spec(self) -> EnvSpec:
        """Wait for what the environment is like, and return it.

        Raises:
            EnvContractError: it is not what an environment has to be.
            EnvError: its constructor raised, or its reset or step did; one of its methods hangs, or ended its process.
        """

    def look(self) -> None:
        """See whether it has been closed by now; call it every second or so after `spec`, which does not wait for that.

        A `close` that hangs is told, and its process ended.
        """

    def end(self) -> None:
        """End what is left of it."""


def begin_probe(config: Config, *, takes_step: bool) -> EnvProbe:
    """Begin to try the run's environment.

    Args:
        config: of the run.
        takes_step: also reset it and take a random step, to see whether it keeps its contract. That may take long, so
            it is for where there is something to lose: else workers find it out.

    Raises:
        UnknownEnvError: there is no environment of that name.
    """
    if config.sampling.serial_mode:
        return begin_local_probe(config, takes_step=takes_step)
    tame_numerical_libraries()
    return _ProcessProbe(config, _find_registration(config), takes_step=takes_step)


def begin_local_probe(config: Config, *, takes_step: bool) -> EnvProbe:
    """Begin to try the environment in this process; arguments and errors are those of `begin_probe`."""
    if ":" not in config.run.env:
        export_registration(config.run.env)  # looks whether there is one, before PyTorch is imported
    probe = _LocalProbe(config, takes_step=takes_step)
    _find_registration(config, probe.settings)
    return probe


def _find_registration(config: Config, settings: ProcessSettings | None = None) -> bytes:
    """Return the function that makes the environment, packed; a module that its name begins with is imported for it.

    Args:
        config: of the run.
        settings: of this process, that the module may change; None: as they are now.

    Raises:
        UnknownEnvError: there is no environment of that name.
        EnvError: the module cannot be imported, or that hangs.
    """
    name = config.run.env
    if ":" not in name:
        return export_registration(name)
    settings = settings or ProcessSettings()
    with MainThreadWatch(config.faults.hang_timeout) as watch:
        watch.enter(f"the import of the module of {name}")
        watch.beat(FIRST_SIGN_S)
        try:
            return export_registration(name)
        except HangError as error:
            raise EnvError(str(error)) from None
        finally:
            settings.check()


def probe_env(config: Config, *, takes_step: bool = False) -> EnvSpec:
    """Try the run's environment and return what it is like; arguments and errors are those of an `EnvProbe`."""
    probe = begin_probe(config, takes_step=takes_step)
    try:
        return probe.spec()
    finally:
        probe.end()


@dataclass(frozen=True)
class _Entered:
    """The process is in a method of the environment from now on."""

    method: str


@dataclass(frozen=True)
class _Refused:
    """The environment cannot be used.

    Attributes:
        error: of this package, without its cause.
        cause_text: traceback of that; empty if there is none.
    """

    error: SampleProfilerError
    cause_text: str


def _look_at(env: Any, config: Config, *, takes_step: bool, tell: Callable[[str], None]) -> EnvSpec:
    """Read an environment's spaces, and try it as far as asked; `tell` is called with the method that comes next."""
    name = config.run.env
    tell("observation_space")
    spec = inspect_env(env, name)
    if takes_step:
        agents = AgentsEnv(lambda: env, spec, name, index=0, seed=config.run.seed or 0)
        if agents.wants_training_info:  # a reset may ask how far the training is
            tell("set_training_info")
            agents.set_training_info(0)
        tell("reset")
        observations = agents.reset()
        tell("step")
        agents.step(agents.random_actions(observations))
    return spec


class _LocalProbe:
    """Tries the environment where it will run: in the only process of a serial run."""

    def __init__(self, config: Config, *, takes_step: bool) -> None:
        tame_numerical_libraries()
        import torch  # noqa: F401 (a serial run needs it: its settings are noted before the environment changes them)

        self.settings: ProcessSettings | None = ProcessSettings()
        self.metadata = get_thread_stacks().current().metadata
        self._config = config
        self._takes_step = takes_step

    def spec(self) -> EnvSpec:
        config, name = self._config, self._config.run.env
        assert self.settings is not None
        spec: EnvSpec | None = None
        with MainThreadWatch(config.faults.hang_timeout) as watch:

            def tell(method: str) -> None:
                watch.enter(_describe(method, config))

            try:
                tell(_CONSTRUCTOR)
                with env_probed(partial(make_env, name, config, None), name) as env:
                    spec = _look_at(env, config, takes_step=self._takes_step, tell=tell)
                    tell(_CLOSE)
            except HangError as error:
                if spec is None:  # else it hangs in its close, and the run goes on
                    raise EnvError(str(error)) from None
            finally:
                self.settings.check()
        return spec

    def look(self) -> None:
        """It has been closed."""

    def end(self) -> None:
        """It has ended."""


class _Tried(UnaskedComponent):
    """The environment in the process that was started for it; an `event_loop.Component`, which has no work to do.

    Made means tried; its end closes the environment.
    """

    def __init__(self, config: Config, payload: bytes, takes_step: bool, reports: Reports) -> None:
        self.name = _NAME
        self.timing = Timing(f"{_NAME} profile")
        self._reports = reports
        self._stack = contextlib.ExitStack()
        name = config.run.env
        import_registration(name, payload)
        self._tell(_CONSTRUCTOR)
        try:
            env = self._stack.enter_context(env_probed(partial(make_env, name, config, None), name))
            reports.send(_look_at(env, config, takes_step=takes_step, tell=self._tell))
        except SampleProfilerError as error:
            cause = error.__cause__
            text = "" if cause is None else "".join(traceback.format_exception(cause))
            reports.send(_Refused(_as_own(error), text))
            raise

    def finish(self) -> None:
        self._tell(_CLOSE)
        self._stack.close()

    def _tell(self, method: str) -> None:
        self._reports.send(_Entered(method))


def _as_own(error: SampleProfilerError) -> SampleProfilerError:
    """Return an error as one of this package's own classes, which any process can read: others derive from these."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == SampleProfilerError.__module__)
    if isinstance(error, ConfigError):
        return ConfigError(tuple(map(str, error.problems)))
    own: SampleProfilerError = kind(str(error))
    return own


def _try_env(config: Config, payload: bytes, takes_step: bool, reports: Reports) -> _Tried:
    return _Tried(config, payload, takes_step, reports)


class _ProcessProbe:
    """Tries the environment in a process of its own, each method of it for `--hang_timeout` at most."""

    def __init__(self, config: Config, payload: bytes, *, takes_step: bool) -> None:
        self.settings: ProcessSettings | None = None
        self.metadata = get_thread_stacks().current().metadata
        self._config = config
        self._method = _IMPORT
        self._since_s = time.monotonic()
        self._result: EnvSpec | SampleProfilerError | None = None
        settings = ChildSettings(
            _NAME,
            niceness=config.machine.default_niceness,
            num_threads=choose_worker_threads(config.sampling.num_workers),
            has_environments=True,
            tells_changes="all",
        )
        self._supervisor = Supervisor()
        try:
            self._child = self._supervisor.spawn(settings, partial(_try_env, config, payload, takes_step))
        except BaseException:
            self._supervisor.kill()
            raise
        self._has_ended = False

    def spec(self) -> EnvSpec:
        told_s = self._since_s
        while self._result is None:
            self._wait()
            self._check_alive()
            self._check_time()
            silent_s = time.monotonic() - max(told_s, self._since_s)
            if self._result is None and silent_s >= self._config.machine.heartbeat_reporting_interval:
                told_s = time.monotonic()
                logger.warning("%s has not returned for %.0f s", self._where(), told_s - self._since_s)
        if isinstance(self._result, SampleProfilerError):
            self.end()
            raise self._result
        self._child.stop()
        return self._result

    def look(self) -> None:
        if self._has_ended:
            return
        self._supervisor.beat()
        self._take_reports()
        if not self._child.is_alive():
            self._see_off()
        elif time.monotonic() - self._since_s >= self._limit_s:
            self._give_up()

    def end(self) -> None:
        if self._has_ended:
            return
        if isinstance(self._result, EnvSpec):
            deadline_s = max(time.monotonic() + 1.0, self._since_s + _CLOSE_PATIENCE_S)
            while self._child.is_alive() and time.monotonic() < deadline_s:
                self._wait()
            if self._child.is_alive():
                self._give_up()
                return
        self._see_off()

    @property
    def _limit_s(self) -> float:
        return FIRST_SIGN_S if self._method == _IMPORT else self._config.faults.hang_timeout

    def _where(self) -> str:
        return _describe(self._method, self._config)

    def _wait(self) -> None:
        """Wait for reports or the end of the process, for a moment at most, and take what there is."""
        self._supervisor.beat()
        left_s = self._since_s + self._limit_s - time.monotonic()
        PipeWaiter([self._child.reports, self._child.exit]).wait(min(_POLL_S, left_s))
        self._take_reports()

    def _take_reports(self) -> None:
        for report in self._child.reports.receive():
            match report:
                case logging.LogRecord():
                    logging.getLogger(report.name).handle(report)
                case SharedMemoryNames():
                    self._supervisor.note_shared_memory(report)
                case _Entered():
                    self._method, self._since_s = report.method, time.monotonic()
                case EnvSpec() if self._result is None:
                    self._result = report
                case _Refused() if self._result is None:
                    self._result = report.error
                    if report.cause_text:
                        self._result.__cause__ = RemoteError(report.cause_text)
                case Failure() if self._result is None:  # of nothing that is known to go wrong
                    self._result = EnvError(f"{self._where()}: {report.message}")
                    self._result.__cause__ = RemoteError(report.traceback_text)
                case _:  # signs of life, and what it came to as a component
                    pass

    def _check_alive(self) -> None:
        """Note what it came to if the environment has ended its process."""
        if self._result is not None or self._child.is_alive():
            return
        self._take_reports()
        if self._result is None:
            self._result = EnvError(f"{self._where()} ended its process, which {self._child.describe_exit()}")
            if crash := self._child.describe_crash():
                self._result.__cause__ = RemoteError(crash)

    def _check_time(self) -> None:
        """Note what it came to if a method takes too long."""
        if self._result is not None or time.monotonic() - self._since_s < self._limit_s:
            return
        stacks = self._child.dump_stacks()
        cure = "" if self._method == _IMPORT else " (--hang_timeout): give it more if it may take so long"
        self._result = EnvError(f"{self._where()} hangs: it has not returned within {self._limit_s:g} s{cure}")
        if stacks:
            self._result.__cause__ = RemoteError(stacks)

    def _give_up(self) -> None:
        """Tell of a `close` that takes too long, and end it."""
        took_s = time.monotonic() - self._since_s
        stacks = self._child.dump_stacks()
        logger.warning(
            "%s hangs: it has not returned within %.0f s, and its process was ended%s",
            *(self._where(), took_s, f"\n{stacks}".rstrip()),
        )
        self._see_off()

    def _see_off(self) -> None:
        """End the process and what it has started."""
        self._has_ended = True
        killed = self._supervisor.stop(0.0, self._take_reports)
        if isinstance(self._result, EnvSpec) and not killed and self._child.exit_code not in (0, UNKNOWN_STATUS):
            told = f"{self._child.describe_exit()}\n{self._child.describe_crash()}".rstrip()
            logger.warning("%s ended its process, which %s", self._where(), told)


def _describe(method: str, config: Config) -> str:
    name = f"of the environment {config.run.env}"
    words = {_IMPORT: f"the import of this program in a process {name}", _CONSTRUCTOR: f"the constructor {name}"}
    return words.get(method, f"{method}() {name}")
