import os
import pickle

from sample_profiler.compat.helpers.processes import (
    cores_for_worker_process,
    get_lock,
    get_mp_ctx,
    get_mp_lock,
    set_process_cpu_affinity,
)


def test_locks_are_of_a_context_and_none_is_needed_in_one_process():
    context = get_mp_ctx(serial=False)
    assert context.get_start_method() == "spawn" and get_mp_ctx(serial=True) is None
    for lock in (get_mp_lock(), get_mp_lock(context), get_lock(mp_ctx=context)):
        with lock:
            assert not lock.acquire(False)
    for lock in (get_lock(serial=True), pickle.loads(pickle.dumps(get_lock(serial=True)))):
        with lock:
            assert lock.acquire(timeout=20)
        lock.release()


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
