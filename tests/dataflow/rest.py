"""A stand-in for Dataflow's REST endpoint: keeps what it is sent, answers as the service does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.local_server import serving


@dataclass
class Service:
    """`failures` are answered first, one a request: (status, message)."""

    url: str = ""
    launches: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.paths.append(self.path)
            if service.failures:
                status, message = service.failures.pop(0)
                self._answer(status, {"error": {"code": status, "message": message}})
            elif self.path.endswith("flexTemplates:launch"):
                service.launches.append(sent)
                name = sent["launchParameter"]["jobName"]
                self._answer(200, {"job": {"id": "2026-11-29_id", "name": name}})
            else:
                service.jobs.append(sent)
                self._answer(200, _created(sent))

        def do_GET(self) -> None:
            if "/messages" in self.path:
                self._answer(200, {"jobMessages": []})
            else:
                self._answer(200, _created(service.jobs[-1]))

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


def _created(job: dict[str, Any]) -> dict[str, Any]:
    kept = {key: job[key] for key in ("name", "type", "environment") if key in job}
    return {**kept, "id": "2026-11-29_id", "projectId": "p", "currentState": "JOB_STATE_DONE"}


@contextmanager
def service() -> Iterator[Service]:
    found = Service()
    with serving(_handler(found)) as url:
        found.url = url.replace("127.0.0.1", "localhost")  # Beam takes no address as an endpoint
        yield found
