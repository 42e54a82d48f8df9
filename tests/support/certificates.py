"""Certificates of a certificate authority of the tests' own, made by openssl."""

import subprocess
from pathlib import Path
from typing import Final

from shared.process.settings import Settings

_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments: str | Path) -> None:
    """Run openssl."""
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def certificate_authority(folder: Path) -> Path:
    """Make one in a folder, and return that."""
    folder.mkdir(exist_ok=True)
    files = ("-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    openssl("req", "-x509", *_NEW_KEY, *files, "-days", "2", "-subj", "/CN=authority")
    return folder


def identity(authority: Path, name: str, subject: str = "") -> Settings:
    """The settings of a process that has a certificate for `name`."""
    key, request, cert = (authority / f"{name}.{end}" for end in ("key", "csr", "pem"))
    alternative = authority / f"{name}.ext"
    alternative.write_text("subjectAltName=DNS:localhost")
    openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", subject or f"/CN={name}")
    signer = ("-CA", authority / "ca.pem", "-CAkey", authority / "ca.key", "-CAcreateserial")
    files = ("-in", request, "-out", cert, "-extfile", alternative)
    openssl("x509", "-req", *files, *signer, "-days", "2")
    return Settings(grpc_ca_file=authority / "ca.pem", grpc_cert_file=cert, grpc_key_file=key)
