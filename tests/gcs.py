"""Cloud Storage for tests: the emulator, and a proxy before it that misbehaves on request."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from gcp_storage_emulator.server import create_server
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.local_server import serving

PROJECT = "onepass-test"


@dataclass
class Fault:
    """What to do to a request: `status` answers it at once; `cut_after` closes the connection
    after that many bytes of the body; `flip_byte` changes one byte of the body; `replace`
    puts other text into it."""

    status: int | None = None
    cut_after: int | None = None
    flip_byte: int | None = None
    replace: tuple[str, str] | None = None


Rule = Callable[[str, str, int], Fault | None]  # (method, path, number of the request) -> fault


@dataclass
class FaultyProxy:
    """Forwards to `upstream`; `rule` decides which requests go wrong. Keeps what it saw."""

    upstream: str
    rule: Rule = lambda method, path, number: None
    seen: list[str] = field(default_factory=list)
    url: str = ""

    def paths(self, part: str) -> list[str]:
        return [line for line in self.seen if part in line]


def _handler(proxy: FaultyProxy) -> type[BaseHTTPRequestHandler]:
    target = urlsplit(proxy.upstream)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _forward(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            with lock:
                proxy.seen.append(f"{self.command} {self.path} {self.headers.get('range', '')}")
                fault = proxy.rule(self.command, self.path, len(proxy.seen)) or Fault()
            if fault.status:
                self.send_response(fault.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(target.hostname or "", target.port)
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            response = connection.getresponse()
            data = bytearray(response.read())
            if (
                "json" in (response.getheader("Content-Type") or "")
                and "alt=media" not in self.path
            ):
                data = data.replace(proxy.upstream.encode(), proxy.url.encode())  # media links
            if fault.replace:
                data = data.replace(*(text.encode() for text in fault.replace))
            if fault.flip_byte is not None:
                data[fault.flip_byte] ^= 0xFF
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("server", "date", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(bytes(data[: fault.cut_after]))
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(upstream)
    with serving(_handler(proxy)) as proxy.url:
        yield proxy


def client_for(url: str) -> storage.Client:
    """The real client, talking to `url` without credentials."""
    return storage.Client(
        project=PROJECT,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": url},
    )


@contextmanager
def emulator() -> Iterator[str]:
    """A running emulator; yields its URL."""
    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    port = server._api._httpd.server_address[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="session")
def gcs_url() -> Iterator[str]:
    with emulator() as url:
        yield url


@pytest.fixture
def bucket(gcs_url: str, request: pytest.FixtureRequest) -> storage.Bucket:
    """An empty bucket of the test's own."""
    name = f"b{abs(hash(request.node.nodeid)):x}"[:20]
    return client_for(gcs_url).create_bucket(name)


def beam_uses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's own Cloud Storage client talks to `url`, here and in child processes, without looking
    for credentials."""
    from apache_beam.internal.gcp import auth

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    anonymous = str(Path(__file__).with_name("anonymous"))
    monkeypatch.setenv("PYTHONPATH", anonymous, prepend=os.pathsep)
    monkeypatch.setattr(auth._Credentials, "_credentials_init", True)
    monkeypatch.setattr(auth._Credentials, "_credentials", None)
