import os

from sample_profiler.compat.helpers.processes import cores_for_worker_process, set_process_cpu_affinity


def test_processes_have_a_core_each_and_the_rest_share_all_cores():
    cores = [cores_for_worker_process(worker, 44, 20) for worker in range(44)]
    assert cores[:40] == [[worker % 20] for worker in range(40)]
    assert cores[40:] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]
    assert cores_for_worker_process(20, 23, 20) is None  # three do not share twenty evenly


def test_a_process_runs_on_its_cores():
    before = os.sched_getaffinity(0)
    try:
        set_process_cpu_affinity(0, 2 * len(before))
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)
