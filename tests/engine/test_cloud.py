"""The machine type, from a metadata server of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from engine.cloud import machine_type
from tests.local_server import serving


class _Metadata(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path == "/computeMetadata/v1/instance/machine-type"
        allowed = self.headers.get("Metadata-Flavor") == "Google"
        self.send_response(200 if known and allowed else 403)
        self.end_headers()
        self.wfile.write(b"projects/123/machineTypes/c4-standard-24")

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def metadata() -> Iterator[str]:
    with serving(_Metadata) as url:
        yield url


def machine(root: Path, product: str) -> Path:
    folder = root / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "product_name").write_text(product)
    return root


def test_a_google_machine_says_its_type(tmp_path: Path, metadata: str) -> None:
    assert machine_type(machine(tmp_path, "Google Compute Engine\n"), metadata) == "c4-standard-24"


def test_other_machines_are_not_asked(tmp_path: Path, metadata: str) -> None:
    assert machine_type(machine(tmp_path, "Standard PC\n"), metadata) is None
    assert machine_type(tmp_path / "nothing", metadata) is None


def test_a_machine_that_does_not_answer_has_no_type(tmp_path: Path) -> None:
    root = machine(tmp_path, "Google Compute Engine\n")
    assert machine_type(root, "http://127.0.0.1:9") is None
