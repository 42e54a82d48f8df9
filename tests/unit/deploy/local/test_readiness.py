import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deploy.local.ports import free_ports
from deploy.local.readiness import is_ready, waits_for


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 503)
        self.end_headers()
        self.wfile.write(b"" if self.path == "/readyz" else b"waiting for Kafka partitions\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@pytest.fixture
def http_url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_http_is_ready_when_it_answers_200_and_else_says_what_it_waits_for(http_url: str) -> None:
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    waits = {f"{http_url}/readyz": "", f"{http_url}/busy": "Kafka partitions", nobody: "an answer"}
    for url, waited_for in waits.items():
        assert (is_ready(url), waits_for(url)) == (not waited_for, waited_for)


def test_tcp_is_ready_when_it_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert is_ready(url)
    assert not is_ready(url)


@pytest.mark.parametrize("scheme", ["redis", "kafka"])
def test_nothing_is_ready_where_nothing_listens(scheme: str) -> None:
    assert not is_ready(f"{scheme}://127.0.0.1:{free_ports(1)[0]}")


def test_an_unknown_scheme_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"ftp://x.*http, kafka, kafka\+ssl, redis, rediss, tcp"):
        is_ready("ftp://x")
