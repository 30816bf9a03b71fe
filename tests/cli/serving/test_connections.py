"""Who opens connections to the live page and says nothing, or never all of it, keeps nobody else out."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from sample_profiler.cli.serving import actions, connections
from sample_profiler.cli.serving.serve import listening
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
    with connect(client) as connection, pytest.raises(ConnectionError):
        while True:
            connection.sendall(b"G")
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


MALFORMED = {
    "no request": b"hello\r\n\r\n",
    "another version": b"GET / HTTP/7.3\r\n",
    "no version": b"GET /\r\n",
    "no address": b"GET  HTTP/1.1\r\n",
    "an address of bytes": b"GET /\xff\xfe HTTP/1.1\r\n",
    "a tunnel": b"CONNECT elsewhere:1 HTTP/1.1\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nX-More\r\n",
    "a header with a zero": b"GET / HTTP/1.1\r\nX-More: a\0b\r\n",
    "a header over two lines": b"GET / HTTP/1.1\r\nX-More: a\r\n b\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nX-More : a\r\n",
    "two lengths": b"POST /act?name=first HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n",
    "a length and chunks": b"POST /act?name=first HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "a length that is none": b"POST /act?name=first HTTP/1.1\r\nContent-Length: -2\r\n",
    "a web socket": b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
}


@pytest.mark.parametrize("lines", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request_changes_nothing_and_keeps_nobody_out(client, train_dir, monkeypatch, caplog, lines):
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.3)
    done = []
    monkeypatch.setattr(actions, "act", lambda *_: done.append(1) or {"told": "done"})
    make_ended_run(train_dir / "first")
    with connect(client) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(lines + HEAD.encode() + b'\r\n{"do": "end"}')
        while connection.recv(1 << 16):
            pass
    assert not done and client.get("/")[0] == 200
    assert "Traceback" not in caplog.text and not any(record.exc_info for record in caplog.records)


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
