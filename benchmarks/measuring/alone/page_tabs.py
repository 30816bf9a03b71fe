"""A process that looks at the live page with many tabs, from a line "on" on standard input to "off"."""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys

_READ_BYTES = 1 << 20


def open_tab(port: int, token: str, path: str) -> socket.socket:
    """Ask for what a tab is sent as long as it is open."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return connection


def main() -> None:
    """Look until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("token")
    parser.add_argument("paths", nargs="+", help="each of a tab")
    options = parser.parse_args()
    os.nice(19)
    tabs: list[socket.socket] = []
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if isinstance(key.fileobj, socket.socket):
                    if not key.fileobj.recv(_READ_BYTES):
                        raise SystemExit("the server has closed a tab")
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                for tab in tabs:
                    selector.unregister(tab)
                    tab.close()
                is_on = line.strip() == "on"
                tabs = [open_tab(options.port, options.token, path) for path in options.paths] if is_on else []
                for tab in tabs:
                    selector.register(tab, selectors.EVENT_READ)


if __name__ == "__main__":
    main()
