"""Owns `sample-profiler serve`: one page over all runs of a folder, live, for a browser."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.cli.common.arguments import Commands
from sample_profiler.cli.common.problems import note
from sample_profiler.errors import UsageError
from sample_profiler.profiling.tree.render import printable

if TYPE_CHECKING:
    import uvicorn

__all__ = ["add_parser", "listening", "make_server", "run"]

TOKEN_VARIABLE = "SAMPLE_PROFILER_TOKEN"

_LOOPBACK = "127.0.0.1"
_FEWEST_OF_TOKEN = 16
_BACKLOG = 100  # connections that are taken at once, on top of those that there are
_NICENESS = 19  # the runs come first

_EXAMPLES = f"""\
examples:
  sample-profiler serve train_dir                 prints the address to open, with its token
  sample-profiler serve train_dir --port 8000     at the same port every time
  ssh -L 8000:127.0.0.1:8000 machine              run on your own machine: the page of another one

It reads the runs' files alone, so runs that hang, were killed or have ended are there, too. Who has
the token may save, capture and end runs. A token of your own is better given as ${TOKEN_VARIABLE}:
other users see command lines.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "serve",
        help="show all runs of a folder in a browser, live, and act on those that go on",
        description="Show all runs of a folder in a browser, live: returns, throughput, accounts, verdicts. Needs "
        "pip install 'sample_profiler[web]'.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("train_dir", metavar="TRAIN_DIR", type=Path, help="the folder of the runs, or a run's")
    parser.add_argument("--host", default=_LOOPBACK, help=f"address to listen at; default: {_LOOPBACK}, this machine")
    parser.add_argument("--port", type=_as_port, default=0, help="default: 0, any that is free")
    parser.add_argument("--token", type=_as_token, help="to be known by who looks; default: drawn at each start")
    parser.set_defaults(run=run)


def _as_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to 65535")
    return int(text)


def _as_token(text: str) -> str:
    if not re.fullmatch(rf"[\w-]{{{_FEWEST_OF_TOKEN},}}", text, re.ASCII):
        # Not the text itself: it may be most of a secret.
        raise argparse.ArgumentTypeError(f"give {_FEWEST_OF_TOKEN} or more letters, digits, - and _")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status.

    Raises:
        UsageError: there is no such folder, it cannot be listened at that address, or Starlette, uvicorn or httptools
            is missing.
    """
    if not arguments.train_dir.is_dir():
        raise UsageError(f"{arguments.train_dir} is no folder; give the folder of runs, {{train_dir}}")
    token = arguments.token or _token_of_environment()
    if arguments.is_program:
        os.nice(_NICENESS)
    with listening(arguments.host, arguments.port) as listener:
        server, address = make_server(arguments.train_dir, arguments.host, listener, token)
        print(f"The runs in {printable(str(arguments.train_dir))}: {address}", flush=True)
        print("Ctrl+C ends this page; the runs go on.", flush=True)
        server.run([listener])
    return 0


def _token_of_environment() -> str | None:
    text = os.environ.get(TOKEN_VARIABLE)
    try:
        return _as_token(text) if text else None
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{TOKEN_VARIABLE}: {error}") from None


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen at an address.

    Raises:
        UsageError: that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it the body of an answer waits for the client to acknowledge its head: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listener.bind((host.strip("[]"), port))
            listener.listen()  # whoever opens the address as soon as it is printed is answered
        except (OSError, UnicodeError) as error:
            raise UsageError(f"nobody can listen at --host={host} --port={port}: {error}") from None
        yield listener


def make_server(train_dir: Path, host: str, listener: socket.socket, token: str | None) -> tuple[uvicorn.Server, str]:
    """Return a server, and the address to open, with its token.

    Args:
        train_dir: whose runs are shown.
        host: that it listens at.
        listener: at that host.
        token: to be known by who asks; None: one that nobody guesses.

    Raises:
        UsageError: Starlette, uvicorn or httptools is missing.
    """
    try:
        import uvicorn

        from sample_profiler.cli.serving.access import is_loopback, make_token
        from sample_profiler.cli.serving.actions import PATIENCE_S
        from sample_profiler.cli.serving.app import make_app
        from sample_profiler.cli.serving.connections import Connection, Server
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed: pip install 'sample_profiler[web]'") from error
    token = token or make_token()
    if not is_loopback(host):
        note(
            f"Warning: --host={host} lets other machines in, and what is said, the token with it, is not encrypted: "
            "whoever listens on the way can end runs. Rather leave --host out, and use ssh -L"
        )
    config = uvicorn.Config(
        make_app(train_dir, token, host, lambda: server.should_exit),
        access_log=False,  # it would have the token
        log_level="error",  # not a line for each request that is none, which anybody may send
        server_header=False,
        ws="none",
        http=Connection,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(PATIENCE_S + 1),
    )
    server = Server(config)
    shown = f"[{host.strip('[]')}]" if ":" in host else host
    return server, f"http://{shown}:{listener.getsockname()[1]}/?token={token}"
