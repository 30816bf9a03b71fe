"""The control socket: private, reachable by long paths, and never harmed by whoever is at its other end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
import time

import pytest

from sample_profiler.errors import CaptureError
from sample_profiler.runtime.commands import control_socket
from sample_profiler.runtime.commands.control_socket import ControlClient, ControlSocket

NAME = "control.sock"


def echo(request):
    return {"echo": request}


@pytest.fixture
def control(tmp_path):
    control = ControlSocket(tmp_path / NAME, echo)
    yield control
    control.close()


@pytest.fixture
def connect(tmp_path):
    """Connect a plain socket, as somebody would who knows nothing of the client."""
    sockets = []

    def connect():
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sockets.append(plain)
        plain.settimeout(10)
        plain.connect(str(tmp_path / NAME))
        return plain

    yield connect
    for plain in sockets:
        plain.close()


def lines_of(plain, control, number):
    """Return the next answers, looking at the socket until they are there."""
    data = b""
    plain.settimeout(0.01)
    deadline_s = time.monotonic() + 10
    while data.count(b"\n") < number:
        control.poll()
        try:
            data += plain.recv(1 << 16)
        except TimeoutError:
            assert time.monotonic() < deadline_s, data
    return [json.loads(line) for line in data.splitlines()]


def is_disconnected(plain, control):
    plain.settimeout(0.01)
    for _ in range(500):
        control.poll()
        try:
            if not plain.recv(1 << 16):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def ask(path, control, *requests):
    """Ask from another thread, as the run's side only answers when it looks."""
    answers = []

    def talk():
        client = ControlClient(path, timeout_s=10)
        try:
            answers.extend(client.ask(request) for request in requests)
        finally:
            client.close()

    thread = threading.Thread(target=talk)
    thread.start()
    while thread.is_alive():
        control.poll()
        thread.join(0.005)
    return answers


def test_questions_are_answered_in_order(tmp_path, control):
    assert ask(tmp_path / NAME, control, {"a": 1}, {"b": [2]}) == [{"echo": {"a": 1}}, {"echo": {"b": [2]}}]


def test_only_the_user_of_the_run_can_connect(tmp_path, control):
    mode = (tmp_path / NAME).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_the_permissions_of_other_files_are_as_before(tmp_path, control):
    before = os.umask(0o022)
    os.umask(before)
    ControlSocket(tmp_path / "other" / NAME, echo).close()
    after = os.umask(before)
    assert after == before


def test_a_path_may_be_longer_than_an_address(tmp_path):
    path = tmp_path / ("a" * 100) / ("b" * 100) / NAME
    control = ControlSocket(path, echo)
    try:
        assert path.is_socket()
        assert ask(path, control, {"far": "away"}) == [{"echo": {"far": "away"}}]
    finally:
        control.close()


def test_the_socket_of_a_dead_run_is_replaced(tmp_path):
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(tmp_path / NAME))
    dead.close()  # its file stays, as after a kill
    with pytest.raises(ConnectionRefusedError):
        ControlClient(tmp_path / NAME)
    control = ControlSocket(tmp_path / NAME, echo)
    try:
        assert ask(tmp_path / NAME, control, {}) == [{"echo": {}}]
    finally:
        control.close()


def test_closing_removes_the_socket_and_disconnects_everybody(tmp_path, control, connect):
    plain = connect()
    control.poll()
    control.close()
    assert not (tmp_path / NAME).exists()
    assert plain.recv(1) == b""
    with pytest.raises(FileNotFoundError):
        ControlClient(tmp_path / NAME)
    control.close()  # twice is fine


def test_looking_never_waits(control, connect):
    assert not control._listener.getblocking()
    control.poll()
    connect()
    control.poll()
    assert [client._connection.getblocking() for client in control._clients] == [False]


def test_several_clients_are_told_apart(control, connect):
    plains = [connect() for _ in range(4)]
    for number, plain in enumerate(plains):
        plain.sendall(json.dumps({"n": number}).encode() + b"\n")
    assert [lines_of(plain, control, 1) for plain in plains] == [[{"echo": {"n": n}}] for n in range(4)]


def test_a_line_may_come_in_pieces(control, connect):
    plain = connect()
    plain.sendall(b'{"half": ')
    control.poll()
    plain.sendall(b'1}\n{"next": 2}\n{"third')
    assert lines_of(plain, control, 2) == [{"echo": {"half": 1}}, {"echo": {"next": 2}}]
    plain.sendall(b'": 3}\n')
    assert lines_of(plain, control, 1) == [{"echo": {"third": 3}}]


@pytest.mark.parametrize("garbage", [b"hello", b"", b"[1]", b"\xff\xfe", b"[" * 5000, b"NaN", b'"text"'])
def test_garbage_is_answered_by_an_error_and_the_next_request_is_heard(control, connect, garbage):
    plain = connect()
    plain.sendall(garbage + b'\n{"good": 1}\n')
    first, second = lines_of(plain, control, 2)
    assert "one JSON object on a line" in first["error"]
    assert second == {"echo": {"good": 1}}


def test_a_line_without_an_end_costs_no_memory(control, connect):
    plain, other = connect(), connect()
    plain.settimeout(0.01)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(1000):
            control.poll()
            try:
                plain.sendall(b"x" * 10_000)
            except TimeoutError:
                continue
    other.sendall(b"{}\n")
    assert lines_of(other, control, 1) == [{"echo": {}}]


def test_a_client_that_does_not_read_is_let_go(tmp_path, connect):
    control = ControlSocket(tmp_path / NAME, lambda request: {"much": "x" * 100_000})
    try:
        plain, other = connect(), connect()
        for _ in range(100):
            plain.setblocking(False)
            try:
                plain.sendall(b"{}\n")
            except OSError:
                break
            control.poll()
        plain.setblocking(True)
        assert is_disconnected(plain, control)
        other.sendall(b"{}\n")
        assert len(lines_of(other, control, 1)) == 1
    finally:
        control.close()


def test_a_long_answer_arrives_whole(tmp_path):
    control = ControlSocket(tmp_path / NAME, lambda request: {"much": "x" * 900_000})
    try:
        [answer] = ask(tmp_path / NAME, control, {})
        assert len(answer["much"]) == 900_000
    finally:
        control.close()


def test_a_client_that_goes_away_harms_nobody(control, connect):
    gone, half, stays = connect(), connect(), connect()
    gone.sendall(b'{"never": "read"}\n' * 50)
    gone.close()
    half.sendall(b'{"half')
    half.close()
    stays.sendall(b"{}\n")
    assert lines_of(stays, control, 1) == [{"echo": {}}]
    control.poll()


def test_what_answering_raises_is_the_answer(tmp_path, connect):
    def handle(request):
        raise ValueError("no such thing; allowed are others")

    control = ControlSocket(tmp_path / NAME, handle)
    try:
        plain = connect()
        plain.sendall(b"{}\n")
        assert lines_of(plain, control, 1) == [{"error": "no such thing; allowed are others"}]
    finally:
        control.close()


def test_a_client_learns_that_the_run_has_ended(tmp_path):
    control = ControlSocket(tmp_path / NAME, echo)
    client = ControlClient(tmp_path / NAME, timeout_s=10)
    try:
        control.poll()
        control.close()
        with pytest.raises(OSError):
            client.ask({})
    finally:
        client.close()


def test_a_client_talks_to_its_own_user_and_root_alone(tmp_path, control, monkeypatch):
    assert ask(tmp_path / NAME, control, {}) == [{"echo": {}}]
    uid = os.getuid()
    for other, is_refused in ((uid, False), (0, False), (uid + 1, True)):
        monkeypatch.setattr(control_socket, "_peer_user", lambda connection, other=other: other)
        with pytest.raises(PermissionError) if is_refused else contextlib.nullcontext():
            ControlClient(tmp_path / NAME).close()


def test_the_user_at_the_other_end_is_known(tmp_path, control, connect):
    assert control_socket._peer_user(connect()) == os.getuid()


@pytest.mark.parametrize("line", [b"hello", b"[1]", b"null", b"\xff", b"[" * 5000])
def test_what_is_no_answer_is_an_error(tmp_path, line):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / NAME))
        listener.listen()
        with contextlib.closing(ControlClient(tmp_path / NAME, timeout_s=10)) as client:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(line + b"\n")
                with pytest.raises(CaptureError, match="is no answer of a run"):
                    client.ask({})


def test_a_client_does_not_wait_for_ever(tmp_path, control):
    client = ControlClient(tmp_path / NAME, timeout_s=0.05)
    try:
        with pytest.raises(TimeoutError):
            client.ask({})
    finally:
        client.close()
