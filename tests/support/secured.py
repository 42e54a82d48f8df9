"""Kafka and Redis of tests that speak TLS and ask who somebody is."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.security import Security
from deploy.local.credentials import Credentials, Identity
from deploy.local.servers import LocalServers
from shared.process.settings import Settings

CLIENTS = {"north": "resource-manager", "finance": "billing", "slurm-a": "slurm"}
# When certificates of `dated` begin and end: over, and not begun.
PAST = ("20200101000000Z", "20210101000000Z")
FUTURE = ("20400101000000Z", "20410101000000Z")
_SIGNER = """
[ca]
default_ca = ca
[ca]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = leaf
unique_subject = no
[any]
commonName = supplied
[leaf]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = DNS:localhost,IP:127.0.0.1
"""


class Secured:
    """Kafka and Redis with every principal, and the topics of a deployment."""

    def __init__(self, servers: LocalServers, security: Security) -> None:
        self.servers = servers
        self.security = security
        self.access = security.access

    def settings(self, name: str) -> Settings:
        """Those of a principal."""
        with pytest.MonkeyPatch.context() as environment:
            for variable, value in self.environment(name).items():
                environment.setenv(variable, value)
            return Settings()

    def environment(self, name: str) -> dict[str, str]:
        """Of a principal's process."""
        return {
            **self.security.environment(name),
            "COPLACE_KAFKA_BOOTSTRAP": self.servers.kafka_bootstrap,
            "COPLACE_REDIS_URL": self.servers.redis_url,
            "COPLACE_KAFKA_PARTITIONS": "1",
        }


def dated(credentials: Credentials, name: str, dates: tuple[str, str], folder: Path) -> Identity:
    """A certificate of the authority with these dates, in files that a broker reads too."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Identity(folder / f"{name}.pem", folder / f"{name}.key")
    (folder / "index.txt").touch()
    config, request = folder / "ca.cnf", folder / "request.pem"
    config.write_text(_SIGNER.format(folder=folder))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl("req", *curve, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
    signer = ("-cert", credentials.authority, "-keyfile", credentials.folder / "ca.key")
    begin, end = dates
    files = ("-config", config, "-in", request, "-out", made.certificate, "-notext", "-batch")
    _openssl("ca", *files, *signer, "-startdate", begin, "-enddate", end)
    return made


def stranger(folder: Path) -> Credentials:
    """The credentials of an authority that nobody here knows."""
    found = Credentials(folder)
    shutil.rmtree(folder, ignore_errors=True)
    found.create()
    found.certify("stranger", "operator", serves=True)
    return found


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
