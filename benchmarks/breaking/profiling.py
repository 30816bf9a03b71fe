"""Mistakes in what is recorded, what is concluded from it, and how it is shown."""

from __future__ import annotations

from benchmarks.breaking.breakage import Breakage

__all__ = ["PROFILING"]

PROFILING = (
    Breakage(
        "an event that may be half overwritten is read from the ring",
        "sample_profiler/profiling/record/ring_reader.py",
        "overwritten = record.read_live().events_written - num_events + 1",
        "overwritten = record.read_live().events_written - num_events",
        ("tests/profiling/record/test_reader.py",),
    ),
    Breakage(
        "of a slot the copy is read that its writer fills",
        "sample_profiler/profiling/record/slots.py",
        "layout.FIGURES_OFFSET + (sequence & 1) * layout.FIGURES.size",
        "layout.FIGURES_OFFSET + (~sequence & 1) * layout.FIGURES.size",
        ("tests/profiling/record/test_reader.py",),
    ),
    Breakage(
        "slots that changed while they were read count as whole",
        "sample_profiler/profiling/record/slots.py",
        "if data[offset : offset + 8] == again[offset : offset + 8]:",
        "if len(data) == len(again):",
        ("tests/profiling/record/test_reader.py",),
    ),
    Breakage(
        "blocks of a killed process count up to now",
        "sample_profiler/profiling/record/reader.py",
        'elif state in ("gone", "unknown"):',
        'elif state == "unknown":',
        ("tests/profiling/record/test_reader.py",),
    ),
    Breakage(
        "passes are counted in a neighbouring bucket of the histogram",
        "sample_profiler/profiling/tree/statistics.py",
        "shift = duration.bit_length() - _SUB_BUCKET_BITS - 1",
        "shift = duration.bit_length() - _SUB_BUCKET_BITS",
        ("tests/profiling/tree/test_statistics.py",),
    ),
    Breakage(
        "device times are lost where trees are merged",
        "sample_profiler/profiling/tree/merging.py",
        "        node.add_device(other.device)\n",
        "",
        ("tests/profiling/tree/test_merging.py",),
    ),
    Breakage(
        "device time runs from the end of a block to its start",
        "sample_profiler/profiling/device_clock/clock.py",
        "clock.elapsed_ns(one.start, one.end)",
        "clock.elapsed_ns(one.end, one.start)",
        ("tests/profiling/device_clock/test_clock.py",),
    ),
    Breakage(
        "passes that the device has not reached are forgotten in the end",
        "sample_profiler/profiling/device_clock/clock.py",
        "                        one.timing.add_unresolved(one.path, 1)\n\n    def _take",
        "\n    def _take",
        ("tests/profiling/device_clock/test_clock.py",),
    ),
    Breakage(
        "waits within a block count as work, too",
        "sample_profiler/analysis/accounts.py",
        "max(0, block.statistics.total_ns - waited_ns)",
        "block.statistics.total_ns",
        ("tests/analysis/test_accounts.py",),
    ),
    Breakage(
        "a window has the passes since the start",
        "sample_profiler/analysis/window.py",
        "        mine.statistics.count = max(0, mine.statistics.count - theirs.statistics.count)\n",
        "",
        ("tests/analysis/test_window.py",),
    ),
    Breakage(
        "inference is the limit where the Learner waits for nothing",
        "sample_profiler/analysis/rules/sampling.py",
        "    if run.learner_waits < LITTLE:\n        return None  # where only",
        "    if run.learner_waits > LITTLE:\n        return None  # where only",
        ("tests/analysis/rules/test_sampling.py",),
    ),
    Breakage(
        "an environment is slow only if it takes forty times as long as others",
        "sample_profiler/analysis/rules/stragglers.py",
        "_SLOW_ENV_RATIO, _SLOW_ENV_SHARE = 4.0, 0.2",
        "_SLOW_ENV_RATIO, _SLOW_ENV_SHARE = 40.0, 0.2",
        ("tests/analysis/rules/test_stragglers.py",),
    ),
    Breakage(
        "moving data to a device is named as the limit where it is a twentieth of the work",
        "sample_profiler/analysis/rules/transfer.py",
        "_HALF = 0.5",
        "_HALF = 0.05",
        ("tests/analysis/rules/test_transfer.py",),
    ),
    Breakage(
        "p-values are corrected for one test too few",
        "sample_profiler/analysis/comparing/comparison.py",
        "(len(p_values) - rank) * p_values[index]",
        "(len(p_values) - rank - 1) * p_values[index]",
        ("tests/analysis/comparing/test_comparison.py",),
    ),
    Breakage(
        "a stage that is twice as fast saves as much as it still takes",
        "sample_profiler/analysis/whatif.py",
        "saved = 1 - 1 / speedup",
        "saved = 1 / speedup",
        ("tests/analysis/test_whatif.py",),
    ),
    Breakage(
        "a run that is faster than it has to be fails diff --fail-over",
        "sample_profiler/cli/diff.py",
        "change < -fail_over",
        "change > fail_over",
        ("tests/cli/test_diff.py",),
    ),
    Breakage(
        "a block is recorded by another name than rules know",
        "sample_profiler/ppo/trainer.py",
        "with timing.add_time(CALCULATE_LOSSES, device=True):",
        'with timing.add_time("losses_calculated", device=True):',
        ("tests/test_vocabulary.py",),
    ),
    Breakage(
        "arrows of a timeline join points in the order of their numbers",
        "sample_profiler/reports/timeline/flows.py",
        "order = np.lexsort(columns[1::-1])",
        "order = np.lexsort(columns[:2])",
        ("tests/reports/timeline/test_timeline.py",),
    ),
    Breakage(
        "a figure's name is HTML in the page",
        "sample_profiler/reports/run_report/charts.py",
        'caption = f"{escape(describe_figure(name))} {told}"',
        'caption = f"{describe_figure(name)} {told}"',
        ("tests/reports/run_report/test_report.py",),
    ),
    Breakage(
        "files outside of a run's folder are read and deleted as parts of a capture",
        "sample_profiler/cli/capture/live.py",
        "is_inside = all(path.resolve().is_relative_to(run_dir.resolve()) for path in planned.values())",
        "is_inside = True",
        ("tests/cli/capture/test_capture.py",),
    ),
    Breakage(
        "recordings of a lost worker go with its files",
        "sample_profiler/run/records/lost_records.py",
        "_without_events(record) if earlier is None else _sum(earlier, record)",
        "_without_events(record)",
        ("tests/run/records/test_lost_records.py",),
    ),
    Breakage(
        "waits of a component include its own turns",
        "sample_profiler/runtime/loop/turns.py",
        "if waited_ns and other != name:",
        "if waited_ns:",
        ("tests/runtime/loop/test_turns.py",),
    ),
)
