"""Who gets an answer of the live page, and who does not."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import quote

import pytest

from sample_profiler.cli.serving.access import is_loopback, make_token
from tests.cli.serving.conftest import TOKEN, serving
from tests.cli.serving.made_runs import make_ended_run

PATHS = ["/", "/run?name=first", "/events", "/file?name=first&file=a.json", "/page.js", "/page.css", "/nowhere", "/act"]


@pytest.fixture
def run_dir(train_dir):
    return make_ended_run(train_dir / "first")


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_answered(client, run_dir, path):
    for method in ("GET", "POST", "HEAD", "PUT", "OPTIONS"):
        status, headers, text = client.request(method, path, body=b"", Authorization=None)
        assert status == 401
        assert "first" not in text and "Set-Cookie" not in headers and "set-cookie" not in headers


@pytest.mark.parametrize(
    "token", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ä", "%00", f"{TOKEN}%00", f"%20{TOKEN}", "x" * 60_000]
)
def test_a_token_that_is_not_quite_it_is_none(client, token):
    path = f"/?token={token if '%' in token else quote(token)}"
    assert client.request("GET", path, Authorization=None)[0] in (400, 401)
    cookie = f"sample_profiler_{client.port}={token}".encode().decode("latin-1")
    assert client.request("GET", "/", Authorization=None, Cookie=cookie)[0] in (400, 401)


def test_the_printed_address_opens_the_page_and_leaves_a_cookie_that_no_script_and_no_other_site_has(client):
    status, headers, text = client.get(f"/?token={TOKEN}", Authorization=None)
    assert status == 200 and "<title>" in text
    assert TOKEN not in text
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert client.get("/", Authorization=None, Cookie=cookie)[0] == 200
    other_port = cookie.replace(str(client.port), str(client.port + 1))
    assert client.get("/", Authorization=None, Cookie=other_port)[0] == 401


def test_what_other_servers_of_this_machine_have_left_in_the_browser_is_in_nobodys_way(client):
    name = f"sample_profiler_{client.port}"
    for others in ('a={"b": [1, 2]}', f"{name}=theirs", "=; ;,;@=@", "a"):
        for cookie in (f"{others}; {name}={TOKEN}", f"{name}={TOKEN};{others}", [others, f"{name}={TOKEN}"]):
            assert client.get("/", Authorization=None, Cookie=cookie)[0] == 200
    assert client.get("/", Authorization=None, Cookie=f"{name}=theirs; x{name}={TOKEN}; {name}x={TOKEN}")[0] == 401


def test_a_token_is_looked_for_where_it_belongs_alone(client):
    headers = {"Referer": f"http://{client.host}/?token={TOKEN}", "X_Token": TOKEN, "Cookie": f"token={TOKEN}"}
    for authorization in (None, f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN} {TOKEN}"):
        assert client.get("/", Authorization=authorization, **headers)[0] == 401
    assert client.get(f"/{TOKEN}", Authorization=None)[0] == 401
    assert client.get(f"/?name=token%3D{TOKEN}&token=x&token={TOKEN}", Authorization=None)[0] == 401


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0"),
        *("localhost@evil.example", "evil.example@localhost", "127.0.0.1:80@evil.example", "evil.example#@localhost"),
        *("localhost:80:80", "localhost:evil.example", "localhost/..", "localhost?", "localhost.", "127.0.0.1\\@evil"),
        *("localhost, evil.example", "2130706433", "0x7f.1", "127.1", "[", "[::1", "[::1].evil.example", "::1", ""),
    ],
)
def test_a_page_of_another_name_that_leads_here_is_refused_even_with_the_token(client, host):
    assert client.get("/", Host=host)[0] in (400, 421)


@pytest.mark.parametrize("host", [None, ["localhost", "evil.example"], ["localhost", "localhost"]])
def test_there_is_one_host(client, host):
    assert client.get("/", Host=host)[0] == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:9", "[::1]:9"])
def test_names_of_this_machine_lead_here_by_any_port_as_through_ssh(client, host):
    assert client.get("/", Host=host)[0] == 200


def test_who_is_told_to_listen_to_others_is_found_by_its_addresses_and_its_name_alone(train_dir):
    with serving(train_dir, "0.0.0.0") as client:
        for host in ("10.1.2.3:80", "[fe80::1]", socket.gethostname(), "localhost"):
            assert client.get("/", Host=host)[0] == 200
        assert client.get("/", Host="evil.example")[0] == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "", "file://"]
)
def test_pages_of_others_change_nothing(client, run_dir, origin):
    cookie = f"sample_profiler_{client.port}={TOKEN}"
    for authorization in (None, f"Bearer {TOKEN}"):
        answer = client.post(
            "/act?name=first", {"do": "end"}, Origin=origin, Cookie=cookie, Authorization=authorization
        )
        assert answer[0] == 403


def test_a_cookie_alone_changes_nothing(client, run_dir):
    cookie = f"sample_profiler_{client.port}={TOKEN}"
    assert client.post("/act?name=first", {"do": "end"}, Cookie=cookie, Authorization=None)[0] == 403
    both = [f"http://{client.host}", "http://evil.example"]
    assert client.post("/act?name=first", {"do": "end"}, Cookie=cookie, Authorization=None, Origin=both)[0] == 403


def test_a_page_of_the_server_is_let_through(client, run_dir):
    cookie, origin = f"sample_profiler_{client.port}={TOKEN}", f"http://{client.host}"
    answer = client.post("/act?name=first", {"do": "end"}, Cookie=cookie, Authorization=None, Origin=origin)
    assert answer[0] == 400 and "has ended" in answer[2]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_a_post_changes_something(client, run_dir, method):
    assert client.request(method, "/act?name=first&do=end", body=b"")[0] == 405


def test_large_bodies_are_not_read(client, run_dir):
    assert client.post("/act?name=first", b"x" * 5000)[0] == 413
    assert client.post("/act?name=first", b"{}", Content_Length="999999999999")[0] == 413
    chunks = b"4\r\n    \r\n" * 2000 + b"0\r\n\r\n"
    for length in (None, "2"):
        assert client.post("/act?name=first", chunks, Content_Length=length, Transfer_Encoding="chunked")[0] in (
            400,
            413,
        )


@pytest.mark.parametrize(("method", "status"), [("POST", 400), ("OPTIONS", 405), ("DELETE", 405)])
def test_a_request_that_says_nothing_of_a_body_has_none(client, run_dir, method, status):
    assert client.request(method, "/act?name=first", None)[0] == status


def test_large_heads_are_not_read(client):
    for headers in ({"X_More": "x" * 1_000_000}, {"X_More": ["x" * 100] * 10_000}, {"Content_Length": "9" * 5000}):
        with contextlib.suppress(ConnectionError):  # closed before all was sent
            assert client.get("/", **headers)[0] in (400, 431)
        assert client.get("/")[0] == 200


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/nowhere", "/run?name=first", "/run?name=no"])
def test_every_answer_forbids_what_pages_do_not_need(client, run_dir, path):
    for authorization in (f"Bearer {TOKEN}", None):
        headers = client.get(path, Authorization=authorization)[1]
        policy = headers.get("content-security-policy", "")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers and "server" not in headers


def test_tokens_are_long_and_never_the_same():
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100 and min(map(len, tokens)) >= 32


def test_loopback_is_what_only_this_machine_reaches():
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "", "localhost.example.org")))
