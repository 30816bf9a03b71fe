from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch

from sample_profiler.runtime.surroundings import settings as module
from sample_profiler.runtime.surroundings.process_settings import ProcessSettings


@pytest.fixture
def settings(caplog):
    caplog.set_level(logging.INFO)
    made = ProcessSettings()
    yield made
    made.check()  # whatever a test has changed is put back


def read_umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def messages(caplog):
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_what_nobody_has_changed_is_not_told(settings, caplog):
    settings.expect_change()  # pytest notes the stage of a test in a variable
    settings.check()
    assert messages(caplog) == []


def test_a_change_is_told_once_with_what_it_was(settings, caplog, tmp_path, monkeypatch):
    settings.expect_change()  # pytest notes the stage of a test in a variable
    monkeypatch.chdir(tmp_path)
    settings.check()
    settings.check()
    monkeypatch.chdir("/")
    settings.check()
    ((level, message),) = messages(caplog)
    assert level == "INFO"
    assert "which stays so: the current folder (" in message
    assert f" → {tmp_path})" in message
    assert os.getcwd() == "/", "an environment may need it there"


@pytest.mark.parametrize(
    ("change", "read", "words"),
    [
        (lambda: os.umask(0o777), read_umask, "umask"),
        (lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN), lambda: signal.getsignal(signal.SIGTERM), "SIGTERM"),
        (
            lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP}),
            lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            "blocked",
        ),
        (lambda: logging.disable(logging.CRITICAL), lambda: logging.root.manager.disable, "switched off"),
        (lambda: logging.getLogger().handlers.clear(), lambda: list(logging.getLogger().handlers), "handlers"),
        (lambda: logging.getLogger().setLevel(60), lambda: logging.getLogger().level, "level of the log"),
        (lambda: np.seterr(all="raise"), np.geterr, "floating-point"),
        (lambda: sys.setrecursionlimit(500), sys.getrecursionlimit, "recursion"),
        (lambda: sys.setswitchinterval(3), sys.getswitchinterval, "take turns"),
        (lambda: setattr(time, "monotonic", lambda: 5.0), lambda: time.monotonic, "clocks"),
        (lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision, "matrix products"),
        (lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.is_autocast_enabled("cpu"), "autocast"),
        (lambda: setattr(torch.backends.cudnn, "benchmark", True), lambda: torch.backends.cudnn.benchmark, "cuDNN"),
        (
            lambda: setattr(logging.getLogger("sample_profiler.files"), "disabled", True),
            lambda: logging.getLogger("sample_profiler.files").disabled,
            "this package's loggers",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_run_depends_on_is_put_back_with_a_warning(settings, caplog, change, read, words):
    before = read()
    change()
    settings.check()
    assert read() == before
    told = [message for level, message in messages(caplog) if level == "WARNING"]
    assert len(told) == 1
    assert words in told[0]


def test_a_handler_that_was_added_stays_and_one_that_was_removed_comes_back(settings):
    root, own, foreign = logging.getLogger(), logging.NullHandler(), logging.NullHandler()
    root.addHandler(own)
    settings.expect_change()
    root.removeHandler(own)
    root.addHandler(foreign)
    settings.check()
    assert {own, foreign} <= set(root.handlers)
    root.removeHandler(foreign)
    settings.check()
    assert foreign not in root.handlers, "whoever has added it has removed it"
    root.removeHandler(own)
    settings.expect_change()


def test_warnings_become_errors_for_nobody_else(settings, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings.expect_change()
        warnings.simplefilter("error", ResourceWarning)
        warnings.filterwarnings("ignore", "of the environment's own")
        before = len(warnings.filters)
        settings.check()
        assert ("error", None, ResourceWarning, None, 0) not in warnings.filters
        assert any(each[0] == "ignore" and each[1] is not None for each in warnings.filters)
        assert before - 1 <= len(warnings.filters)
        warnings.warn("nobody raises", ResourceWarning, stacklevel=1)
        settings.expect_change()


def test_output_leads_where_it_did(caplog, tmp_path, capfd):
    settings = ProcessSettings()  # now: capfd has made it lead to where it looks
    with (tmp_path / "elsewhere").open("w") as elsewhere:
        os.dup2(elsewhere.fileno(), 1)
        os.close(2)
    os.write(1, b"lost")
    settings.check()
    os.write(1, b"found")
    os.write(2, b"found, too")
    assert capfd.readouterr() == ("found", "found, too")
    assert "standard output; standard error" in caplog.text


def test_variables_are_told_by_name_and_a_few_of_many(settings, caplog, monkeypatch):
    settings.expect_change()  # pytest notes the stage of a test in a variable
    for number in range(8):
        monkeypatch.setenv(f"SECRET_{number}", "password")
    settings.check()
    assert "variables (SECRET_0, SECRET_1, SECRET_2, SECRET_3, SECRET_4 and 3 more)" in caplog.text
    assert "password" not in caplog.text


def test_a_handler_that_was_muted_is_heard_again(settings):
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    settings.expect_change()
    handler.setLevel(logging.CRITICAL)
    handler.addFilter(lambda _: False)
    settings.check()
    assert (handler.level, handler.filters) == (logging.NOTSET, [])
    logging.getLogger().removeHandler(handler)
    settings.expect_change()


def test_what_is_there_no_more_is_a_change(settings, caplog, monkeypatch):
    monkeypatch.delattr(sys, "stdout")
    settings.check()
    assert "sys.stdout or sys.stderr" in caplog.text


def test_what_pytorch_has_one_of_is_put_back(settings, caplog):
    import torch

    settings.expect_change()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    settings.check()
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
    assert "PyTorch's default type; whether PyTorch keeps gradients" in caplog.text
    assert settings.is_kept_where_it_hurts()
    mode = torch.inference_mode()
    mode.__enter__()
    assert not settings.is_kept_where_it_hurts()
    settings.check()
    assert not torch.is_inference_mode_enabled()
    module._entered.pop().__exit__(None, None, None)
    mode.__exit__(None, None, None)


@pytest.mark.parametrize("limit", [resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS])
def test_limits_hurt_at_once_when_they_are_lowered_alone(settings, limit):
    soft, hard = resource.getrlimit(limit)
    lower = 1 << 40 if soft == resource.RLIM_INFINITY else soft - 1
    resource.setrlimit(limit, (lower, hard))
    assert not settings.is_kept_where_it_hurts()
    settings.look()
    assert resource.getrlimit(limit) == (soft, hard)
    settings.expect_change()
    resource.setrlimit(limit, (lower, hard))
    settings.expect_change()
    resource.setrlimit(limit, (soft, hard))
    assert settings.is_kept_where_it_hurts()


def test_a_process_beside_one_that_tells_puts_back_in_silence(caplog):
    caplog.set_level(logging.DEBUG)
    settings = ProcessSettings(is_told=False)
    sys.setrecursionlimit(500)
    settings.check()
    assert sys.getrecursionlimit() != 500
    assert messages(caplog) == []


def test_who_may_open_no_more_files_gets_its_limit_back(settings, caplog):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        settings.check()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "RLIMIT_NOFILE" in caplog.text


def test_what_cannot_be_read_counts_as_unchanged(settings, caplog, monkeypatch):
    settings.expect_change()  # pytest notes the stage of a test in a variable

    def fail(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(module, "read_at_once", fail)
    os.umask(before := os.umask(0o777))
    os.umask(0o777)
    settings.check()
    assert messages(caplog) == []
    monkeypatch.undo()
    settings.check()
    assert read_umask() == before
    assert "umask" in caplog.text


def test_a_process_that_has_left_its_group_is_back_in_it():
    """Else Ctrl+C would not reach it any more. In a process of its own, since that of the tests may lead its group."""
    code = """
import os
os.setpgid(0, 0) if os.getpid() != os.getpgrp() else None
if os.fork() == 0:
    from sample_profiler.runtime.surroundings.process_settings import ProcessSettings
    before, settings = os.getpgrp(), ProcessSettings()
    os.setpgid(0, 0)
    settings.check()
    os._exit(os.getpgrp() != before)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
