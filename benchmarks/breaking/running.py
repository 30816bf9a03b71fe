"""Mistakes in how a run is configured, watched, ended and told of."""

from __future__ import annotations

from benchmarks.breaking.breakage import Breakage

__all__ = ["RUNNING"]

RUNNING = (
    Breakage(
        "a saved value counts instead of the command line",
        "sample_profiler/config/parse.py",
        'draft.origin(name) == "command line" or name in _FLAGS_OF_THIS_START',
        "name in _FLAGS_OF_THIS_START",
        ("tests/config/test_parse.py",),
    ),
    Breakage(
        "a default is another one than the documentation says",
        "sample_profiler/config/parts/loss.py",
        "gae_lambda: float = option(0.95,",
        "gae_lambda: float = option(0.9,",
        ("tests/config/test_help.py",),
    ),
    Breakage(
        "a module is imported because a config.json names it",
        "sample_profiler/config/parse.py",
        'if name == "env" and ":" in value and value != draft.value(name):',
        'if name == "env" and value is None:',
        ("tests/config/test_parse.py",),
    ),
    Breakage(
        "a report takes all with it that came in the same read",
        "sample_profiler/runtime/messages/channels.py",
        "        del self._buffer[: 8 + size]\n",
        "        self._buffer.clear()\n",
        ("tests/runtime/messages/test_channels.py",),
    ),
    Breakage(
        "signs of life are not noted",
        "sample_profiler/runtime/messages/heartbeats.py",
        "            self._heard_s[component] = self._told_s[component] = self._clock()\n            start_s",
        "            self._told_s[component] = self._clock()\n            start_s",
        ("tests/runtime/messages/test_heartbeats.py",),
    ),
    Breakage(
        "what a process has started in sessions of its own is not ended with it",
        "sample_profiler/runtime/processes/orphans.py",
        "    left += [process for process in others if process.is_running()]  # not another one of that number\n",
        "",
        ("tests/runtime/processes/test_supervisor.py",),
    ),
    Breakage(
        "shared memory that processes have told of stays",
        "sample_profiler/runtime/processes/supervisor.py",
        "self._unlink(left.union(*self._shared_memory.values()))",
        "self._unlink(left)",
        ("tests/runtime/processes/test_supervisor.py",),
    ),
    Breakage(
        "shared memory of others is removed",
        "sample_profiler/runtime/processes/orphans.py",
        "if name not in existed_before and os.path.exists(name)]",
        "if os.path.exists(name)]",
        ("tests/runtime/processes/test_orphans.py",),
    ),
    Breakage(
        "a run that a signal has ended says that all is well",
        "sample_profiler/cli/training/conclusion.py",
        "        return status_of_signal(result.interrupted_by)\n",
        "        return 0\n",
        ("tests/cli/test_train.py",),
    ),
    Breakage(
        "the latest failure of a run counts, instead of the one that was its cause",
        "sample_profiler/run/runner.py",
        "        if self.failure is None:\n            self.failure = failure\n",
        "        self.failure = failure\n",
        ("tests/run/test_runner_ends.py",),
    ),
    Breakage(
        "a Learner that is lost with what it had learned is only warned of",
        "sample_profiler/run/lost_components/ends.py",
        "if has_learned and component not in self._finished:",
        "if has_learned and component in self._finished:",
        ("tests/run/test_runner_ends.py",),
    ),
    Breakage(
        "one worker too many is replaced",
        "sample_profiler/run/lost_components/replacements.py",
        "if len(self._losses) >= self._options.max_worker_restarts:",
        "if len(self._losses) > self._options.max_worker_restarts:",
        ("tests/run/lost_components/test_replacements.py",),
    ),
    Breakage(
        "a successor counts steps of its predecessor as its own",
        "sample_profiler/run/lost_components/replacements.py",
        "        self._steps_at_start[worker] = int(self._counters.agent_steps[worker].sum())\n",
        "",
        ("tests/run/lost_components/test_replacements.py",),
    ),
    Breakage(
        "time for which a run stood still counts for its speed",
        "sample_profiler/run/records/statistics.py",
        "        self._times_s.append(time_s - self.left_out_s)\n",
        "        self._times_s.append(time_s)\n",
        ("tests/run/records/test_statistics.py",),
    ),
    Breakage(
        "environments of successors repeat what those of the lost worker were given",
        "sample_profiler/run/layout/factories.py",
        "derive_seed(blueprint.seed, _SEED_ENV, env, attempt)",
        "derive_seed(blueprint.seed, _SEED_ENV, env)",
        ("tests/run/layout/test_factories.py",),
    ),
    Breakage(
        "a synchronous run trains beside its workers",
        "sample_profiler/run/layout/factories.py",
        "max_datasets=1 + sampling.num_batches_to_accumulate if sampling.async_rl else 1,",
        "max_datasets=1 + sampling.num_batches_to_accumulate,",
        ("tests/run/layout/test_factories.py",),
    ),
    Breakage(
        "--max_grad_norm is ignored",
        "sample_profiler/run/layout/factories.py",
        "            max_grad_norm=config.optimizer.max_grad_norm,\n",
        "            max_grad_norm=0.0,\n",
        ("tests/run/layout/test_factories.py",),
    ),
    Breakage(
        "another user may answer for a run",
        "sample_profiler/runtime/commands/control_socket.py",
        "if _peer_user(self._socket) not in (os.getuid(), _ROOT):",
        "if _peer_user(self._socket) < 0:",
        ("tests/runtime/commands/test_control_socket.py",),
    ),
    Breakage(
        "a command that raised is answered as if all went well",
        "sample_profiler/runtime/commands/commands.py",
        "return CommandResult(command.number, component.name, None, traceback.format_exc())",
        "return CommandResult(command.number, component.name, None, None)",
        ("tests/runtime/commands/test_commands.py",),
    ),
    Breakage(
        "what a stopped loop had not read is forgotten",
        "sample_profiler/runtime/loop/event_loop.py",
        "                self.unhandled = ready[number:]\n",
        "",
        ("tests/runtime/loop/test_event_loop.py",),
    ),
)
