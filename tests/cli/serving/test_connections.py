"""Who opens connections to the live page and says nothing, or never all of it, keeps nobody else out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from sample_profiler.cli.serving import access, actions, app, connections
from sample_profiler.cli.serving.serve import listening
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.conftest import TOKEN
from tests.cli.serving.made_runs import make_ended_run

HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
UNFINISHED = {
    "nothing": "",
    "half a line": "GET /",
    "half a head": f"GET / HTTP/1.1\r\n{HEAD}X-More: ",
    "half a body": f"POST /act?name=first HTTP/1.1\r\n{HEAD}Content-Length: 10\r\n\r\n{{",
    "half a second head": f"GET / HTTP/1.1\r\n{HEAD}\r\nGET / HTTP/1.1\r\n",
}


def connect(client, said=""):
    connection = socket.create_connection(("127.0.0.1", client.port), timeout=20)
    connection.sendall(said.encode())
    return connection


def is_closed(connection):
    """Whether the server has closed a connection that nothing was to come from."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_what_is_said_goes_out_at_once():
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("said", UNFINISHED.values(), ids=UNFINISHED)
def test_a_request_that_never_becomes_whole_ends_its_connection(client, train_dir, monkeypatch, said):
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.2)
    make_ended_run(train_dir / "first")
    with connect(client, said) as connection, contextlib.suppress(ConnectionResetError):
        while connection.recv(1 << 16):
            pass
    assert client.get("/")[0] == 200


def test_a_byte_now_and_then_is_no_request(client, monkeypatch):
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.2)
    with connect(client, "GET / HTTP/1.1\r\nX-More: ") as connection, pytest.raises(ConnectionError):
        while True:
            connection.sendall(b"a")
            time.sleep(0.01)


def test_who_waits_for_an_answer_is_waited_for(client, train_dir, monkeypatch):
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(actions, "act", lambda *_: time.sleep(0.5) or {"told": "done"})
    make_ended_run(train_dir / "first")
    assert client.post("/act?name=first", {"do": "save"})[0] == 200


def test_what_follows_a_request_is_waited_for_once_that_is_answered(client, train_dir, monkeypatch):
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(actions, "act", lambda *_: time.sleep(0.5) or {"told": "done"})
    make_ended_run(train_dir / "first")
    body = '{"do": "save"}'
    whole = f"POST /act?name=first HTTP/1.1\r\n{HEAD}Content-Length: {len(body)}\r\n\r\n{body}"
    with connect(client, f"{whole}GET / HTTP/1.1\r\n") as connection:
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
    assert answer.count(b"HTTP/1.1 ") == 1 and b"done" in answer


def test_many_requests_at_once_are_refused_before_they_take_memory(client, train_dir, monkeypatch):
    going_on = threading.Event()
    monkeypatch.setattr(actions, "act", lambda *_: going_on.wait(20) and {"told": "done"})
    make_ended_run(train_dir / "first")
    body = '{"do": "save"}'
    first = f"POST /act?name=first HTTP/1.1\r\n{HEAD}Content-Length: {len(body)}\r\n\r\n{body}"
    try:
        with connect(client, first) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1000)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400")
            assert not connection.recv(1 << 16)
    finally:
        going_on.set()
    assert client.get("/")[0] == 200


def test_who_asks_for_more_while_a_tab_is_open_and_goes_leaves_no_tab_behind(client, train_dir, monkeypatch):
    monkeypatch.setattr(app, "_MOST_TABS", 2)
    for _ in range(5):
        with connect(client, f"GET /events HTTP/1.1\r\n{HEAD}\r\n") as connection:
            assert connection.recv(1 << 16)
            connection.sendall(f"GET / HTTP/1.1\r\n{HEAD}\r\n".encode())
            time.sleep(0.05)
        deadline_s = time.monotonic() + 20
        while client.request("HEAD", "/events")[0] != 200 or is_full(client):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)


def is_full(client):
    with connect(client, f"GET /events HTTP/1.1\r\n{HEAD}\r\n") as connection:
        return connection.recv(1 << 16).startswith(b"HTTP/1.1 503")


def test_a_head_without_an_end_is_refused_and_a_long_body_is_not_for_that(client, train_dir, monkeypatch):
    monkeypatch.setattr(access, "_MOST_BODY_BYTES", 1 << 20)
    monkeypatch.setattr(actions, "act", lambda *_: {"told": "done"})
    make_ended_run(train_dir / "first")
    with connect(client, "GET / HTTP/1.1\r\nX-More: ") as connection, contextlib.suppress(ConnectionError):
        for _ in range(80):
            connection.sendall(b"a" * 1024)
            time.sleep(0.001)
        assert b"too large" in connection.recv(1 << 16)
    body = b'{"do": "save"' + b" " * (1 << 17) + b"}"
    head = f"POST /act?name=first HTTP/1.1\r\n{HEAD}Content-Length: {len(body)}\r\n\r\n"
    with connect(client, head) as connection:
        for begin in range(0, len(body), 4096):
            connection.sendall(body[begin : begin + 4096])
            time.sleep(0.005)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_who_reads_no_answers_makes_room_for_who_does(client, train_dir, monkeypatch):
    monkeypatch.setattr(connections, "_MOST_OPEN", 3)
    captures = RunFolder(make_ended_run(train_dir / "first")).captures
    captures.mkdir()
    with (captures / "large.json").open("wb") as file:
        file.truncate(1 << 26)  # more than sockets hold
    with contextlib.ExitStack() as opened:
        for _ in range(3):
            opened.enter_context(connect(client, f"GET /file?name=first&file=large.json HTTP/1.1\r\n{HEAD}\r\n"))
        time.sleep(1)
        for _ in range(3):
            assert client.get("/")[0] == 200


BODY = '{"do": "end"}'
ACT = f"POST /act?name=first HTTP/1.1\r\n{HEAD}".encode()
LENGTH = f"Content-Length: {len(BODY)}\r\n".encode()
MALFORMED = {
    "no request": b"hello\r\n",
    "another version": ACT.replace(b"1.1", b"7.3") + LENGTH,
    "no address": ACT.replace(b"/act?name=first", b"") + LENGTH,
    "a tunnel": ACT.replace(b"POST /act?name=first", b"CONNECT elsewhere:1") + LENGTH,
    "a header without a colon": ACT + LENGTH + b"X-More\r\n",
    "a header with a zero": ACT + LENGTH + b"X-More: a\0b\r\n",
    "a space before the colon": ACT + LENGTH + b"X-More : a\r\n",
    "two lengths": ACT + LENGTH + LENGTH.replace(b"13", b"14"),
    "a length and chunks": ACT + LENGTH + b"Transfer-Encoding: chunked\r\n",
    "a length that is none": ACT + LENGTH.replace(b"13", b"-13"),
    "a length with a sign": ACT + LENGTH.replace(b"13", b"+13"),
}


@pytest.mark.parametrize("head", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request_is_refused_and_changes_nothing(client, train_dir, monkeypatch, capfd, head):
    done = []
    monkeypatch.setattr(actions, "act", lambda *_: done.append(1) or {"told": "done"})
    make_ended_run(train_dir / "first")
    with connect(client) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(head + b"\r\n" + BODY.encode())
        assert connection.recv(1 << 16)[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")
    assert not done and client.get("/")[0] == 200
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_request_as_it_should_be_does_what_it_says(client, train_dir, monkeypatch):
    """What the malformed ones are made of."""
    monkeypatch.setattr(actions, "act", lambda *_: {"told": "done"})
    make_ended_run(train_dir / "first")
    with connect(client) as connection:
        connection.sendall(ACT + LENGTH + b"\r\n" + BODY.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_of_too_many_those_go_who_have_said_nothing_for_longest(client, train_dir, monkeypatch):
    monkeypatch.setattr(connections, "_MOST_OPEN", 5)
    make_ended_run(train_dir / "first")
    with contextlib.ExitStack() as opened, client.events("/events?name=first") as messages:
        next(messages)
        silent = [opened.enter_context(connect(client)) for _ in range(20)]
        assert client.get("/")[0] == 200, "who says something is let in"
        assert [is_closed(connection) for connection in silent[:15]] == [True] * 15
        make_ended_run(train_dir / "first", log="later words\n")
        assert any("later words" in message.get("Last lines of the log", "") for message in messages), "a tab stays"
