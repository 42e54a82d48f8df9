"""An identity provider of the tests' own: it signs tokens, publishes its keys over HTTPS, and lies
as a test says. As a process: `python -m tests.support.issuer FOLDER PORT`, which writes a token."""

import json
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from shared.authority.issuer import Issuer
from tests.support.certificates import certificate_authority, identity

AUDIENCE: Final = "coplace"
DISCOVERY: Final = "/.well-known/openid-configuration"
HOUR_S: Final = 3_600


def rsa_key(bits: int = 2_048) -> rsa.RSAPrivateKey:
    """Make a key pair."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


class LocalIssuer:
    """Keys by their ids, and what is answered at each path: an object, or bytes with a status."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.keys: dict[str, Any] = {
            "one": rsa_key(),
            "two": ec.generate_private_key(ec.SECP256R1()),
        }
        self.said: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.pause_s = 0.0
        self.asked: list[str] = []
        # What was posted, and what is answered to it, one after another; the last one again.
        self.posted: list[tuple[str, dict[str, str]]] = []
        self.replies: dict[str, list[Any]] = {}

    @property
    def declared(self) -> Issuer:
        """What the table of authority says of it."""
        return Issuer(self.url, AUDIENCE, ca=(self.folder / "ca.pem").read_text())

    @property
    def jwks(self) -> dict[str, Any]:
        """Its public keys."""
        return {"keys": [public(name, key) for name, key in self.keys.items()]}

    def claims(self, name: str = "ada", **changed: Any) -> dict[str, Any]:
        """What a token of somebody says; a claim of None is left out."""
        now_s = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": name, "iat": now_s, "exp": now_s + HOUR_S}
        return {key: value for key, value in (said | changed).items() if value is not None}

    def token(self, name: str = "ada", kid: str = "one", **changed: Any) -> str:
        """Sign a token."""
        return self.signed(self.claims(name, **changed), kid)

    def signed(
        self, claims: Mapping[str, Any], kid: str = "one", headers: Mapping[str, Any] | None = None
    ) -> str:
        """Sign claims by a key of its."""
        key = self.keys[kid]
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(dict(claims), key, algorithm, {"kid": kid, **(headers or {})})

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body."""
        self.asked.append(path)
        described = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        for name, place in (("device_authorization", "device"), ("token", "token")):
            described[f"{name}_endpoint"] = f"{self.url}/{place}"
        documents = {
            DISCOVERY: described | {"revocation_endpoint": f"{self.url}/revoke"},
            "/keys": self.jwks,
        } | self.said
        return _written(documents.get(path, (404, b"")))

    def reply(self, path: str, form: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body of what answers a form."""
        self.posted.append((path, form))
        replies = self.replies.get(path, [(404, b"")])
        return _written(replies.pop(0) if len(replies) > 1 else replies[0])


def _written(found: Any) -> tuple[int, bytes]:
    return found if isinstance(found, tuple) else (200, json.dumps(found).encode())


def refused(error: str, **more: str) -> tuple[int, bytes]:
    """How an issuer refuses a form."""
    return 400, json.dumps({"error": error, **more}).encode()


def public(name: str, key: Any) -> dict[str, Any]:
    """Return a public key as issuers publish it."""
    is_rsa = isinstance(key, rsa.RSAPrivateKey)
    found = (RSAAlgorithm if is_rsa else ECAlgorithm).to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": name, "use": "sig"}


@contextmanager
def running(issuer: LocalIssuer, port: int = 0) -> Iterator[LocalIssuer]:
    """Serve it over HTTPS by a certificate for localhost."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(*issuer.answer(self.path))

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._say(*issuer.reply(self.path, dict(parse_qsl(text))))

        def _say(self, status: int, body: bytes) -> None:
            time.sleep(issuer.pause_s)
            self.send_response(status)
            for name, value in {**issuer.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Be silent."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_of: object) -> None:
            """Clients hang up where they get too much."""

    files = issuer.folder / "issuer.pem", issuer.folder / "issuer.key"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server = Server(("127.0.0.1", port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer.url = f"https://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def made(folder: Path) -> LocalIssuer:
    """Make one with a certificate authority of its own."""
    identity(certificate_authority(folder), "issuer")
    return LocalIssuer(folder)


def main(folder: Path, port: int) -> None:
    """Serve until killed."""
    with running(made(folder), port) as issuer:
        (folder / "ada.jwt").write_text(issuer.token() + "\n")
        threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
