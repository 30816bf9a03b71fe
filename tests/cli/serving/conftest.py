"""A server of the live page in a thread, and requests as anybody could send them."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import contextmanager
from importlib.util import find_spec
from unittest.mock import patch

import pytest

# Of the extra [web], which not everybody has who tests.
if not all(map(find_spec, ("httptools", "starlette", "uvicorn"))):
    collect_ignore_glob = ["test_access.py", "test_app.py", "test_connections.py", "test_serve.py", "test_*page.py"]

TOKEN = "a_token_that_is_known"


class Client:
    """Talks to a server, with the token unless a test says otherwise."""

    def __init__(self, port):
        self.port = port
        self.host = f"127.0.0.1:{port}"

    def request(self, method, path, body=None, timeout_s=20, **headers):
        """Return status, headers and text of an answer; `headers` with `_` for `-`, None leaves one out."""
        named = {"Host": self.host, "Authorization": f"Bearer {TOKEN}"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
            if data is not None:
                named.setdefault("Content-Length", str(len(data)))
            for name, value in named.items():
                for each in value if isinstance(value, list) else [value]:
                    if each is not None:
                        connection.putheader(name, each)
            connection.endheaders(data)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, body, **headers):
        return self.request("POST", path, body, **headers)

    @contextmanager
    def events(self, path):
        """Yield what the server sends, one message after the other, each of the sections that are new in it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        assert response.status == 200, response.read()

        def messages():
            while line := response.readline():
                if line.startswith(b"data: "):
                    yield {name: html for name, html in json.loads(line[6:]).items() if html is not None}

        try:
            yield messages()
        finally:
            response.close()
            connection.close()

    def sections(self, path, is_complete):
        """Return the sections that a page has once they are complete."""
        shown = {}
        with self.events(path) as messages:
            for message in messages:
                shown |= message
                if is_complete(shown):
                    return shown
        raise AssertionError(f"the server has ended: {shown}")


@contextmanager
def serving(train_dir, host="127.0.0.1", port=0):
    from sample_profiler.cli.serving import connections
    from sample_profiler.cli.serving.serve import listening, make_server

    with listening("127.0.0.1", port) as listener, patch.object(connections, "_TICK_TENTHS", 1):
        server, _ = make_server(train_dir, host, listener, TOKEN)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Client(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def train_dir(tmp_path):
    folder = tmp_path / "train_dir"
    folder.mkdir()
    return folder


@pytest.fixture
def client(train_dir):
    with serving(train_dir) as client:
        yield client
