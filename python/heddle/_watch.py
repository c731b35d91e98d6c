"""The report page of a run while it trains, in a browser: served on this machine alone, under an address that only
those know who were told it. `heddle report --follow` writes the page, which renews itself until the run has ended.
"""
from __future__ import annotations

import hmac
import http.server
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from typing import Any

from . import _program
from ._library import FileError, UsageError

_WAITING = (b"<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=1><title>heddle</title>"
            b"<p>Waiting for the run's first results.")
_LAST_S = 30.0  # for which the last page is served, unless it was fetched before


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close = False, False  # the interpreter's end waits for pages that are being sent
    allow_reuse_address = False


def _handler(path: pathlib.Path, token: str, is_last: threading.Event,
             saw_last: threading.Event) -> type[http.server.BaseHTTPRequestHandler]:
    """What serves the file; it knows no Watch, which may be gone before the last answer is."""

    class Handler(http.server.BaseHTTPRequestHandler):
        """One page, for those who know its address."""

        server_version, sys_version, protocol_version = "heddle", "", "HTTP/1.0"
        timeout = 10  # seconds, for which a browser may say or take nothing

        def do_GET(self) -> None:  # pylint: disable=invalid-name
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            known = hmac.compare_digest(self.path.encode("utf-8", "replace"), f"/{token}/".encode())
            if host not in ("127.0.0.1", "localhost") or not known:
                self.send_error(404)
                return
            last = is_last.is_set()
            try:
                page = path.read_bytes()
            except OSError:
                page = _WAITING
            self.send_response(200)
            for name, value in (("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(page))),
                                ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
                                ("X-Content-Type-Options", "nosniff")):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page)
            if last:
                saw_last.set()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    return Handler


class Watch:
    """A page that is served until its run has ended: `url`, close(), wait(). Shown in a notebook, it is the page."""

    def __init__(self, folder: Any, port: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="heddle-watch-")
        self._page = pathlib.Path(self._folder.name) / "page.html"
        self._is_last, self._saw_last = threading.Event(), threading.Event()
        token = secrets.token_urlsafe(24)
        self._server = _Server(("127.0.0.1", port), _handler(self._page, token, self._is_last, self._saw_last))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/{token}/"
        self._program = subprocess.Popen(
            [_program.path(), "report", os.fspath(folder), "--output", os.fspath(self._page), "--follow"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._ended = threading.Event()
        for work in (self._server.serve_forever, self._until_the_end):
            threading.Thread(target=work, name="heddle-watch", daemon=True).start()
        self._end = weakref.finalize(self, _stop, self._program, self._server, self._folder)

    def __repr__(self) -> str:
        return f"Watch({'closed' if self._ended.is_set() else self.url})"

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="600" style="border:0"></iframe>'

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; the run goes on. Calling it twice is allowed."""
        self._ended.set()
        self._end()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the run has ended and its last page was fetched; whether it has."""
        return self._ended.wait(timeout)

    def _until_the_end(self) -> None:
        """After the run's end the last page is fetched once more, by the page itself."""
        failed = self._program.communicate()[1]
        self._is_last.set()
        if self._program.returncode and not self._ended.is_set() and failed:
            print(failed.strip().splitlines()[-1], file=sys.stderr)
        self._saw_last.wait(_LAST_S)
        self._ended.set()
        self._end()


def _stop(program: Any, server: Any, folder: Any) -> None:
    if program.poll() is None:
        program.terminate()
    server.shutdown()
    server.server_close()
    folder.cleanup()


def watch(run: Any, *, port: int = 0) -> Watch:
    """Serves the report page of a run while it trains, and returns where: open `url` in a browser of this machine, or
    let a notebook show the result. `run` is a Session, a Run or a folder; `port` 0 is a free one. It ends with the run.

    >>> import heddle
    >>> with heddle.Session("simplenet", "digits", max_steps=3, out=folder) as session:
    ...     with heddle.watch(session) as page:
    ...         url = page.url
    >>> url.startswith("http://127.0.0.1:")
    True
    """
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise UsageError(f"port expects a number from 0 to 65535, found {port!r}")
    folder = run.report["out"] if hasattr(run, "step") else getattr(run, "folder", run)
    if not os.path.isdir(folder):
        raise FileError(f"expected a Session, a Run or the folder of a run, found {folder!r}; start the run first")
    try:
        return Watch(folder, port)
    except OSError as error:
        raise FileError(f"port {port}: expected one that is free, found {error.strerror}; leave it out") from error


def main(words: list[str]) -> int:
    """python -m heddle watch RUN [--port N]: until the run has ended, or Ctrl-C."""
    port, folder = 0, None
    try:
        rest = iter(words)
        for word in rest:
            if word == "--port":
                number = next(rest, "")
                if not number.isdecimal():
                    raise UsageError(f"--port expects a number from 0 to 65535, found {number!r}")
                port = int(number)
            elif folder is None and not word.startswith("-"):
                folder = word
            else:
                raise UsageError(f"expected the folder of a run, and --port N, found {word!r}; see help(heddle.watch)")
        if folder is None:
            raise UsageError("expected the folder of a run, found none; name one")
        page = watch(folder, port=port)
    except (FileError, UsageError) as error:
        print(f"heddle: {error}", file=sys.stderr)
        return 2
    print(page.url, flush=True)
    try:
        while not page.wait(0.5):  # short, so that Ctrl-C is heard
            pass
    except KeyboardInterrupt:
        pass
    page.close()
    return 0
