"""An API server is reached as a kubeconfig says, or as the pod that asks."""

import asyncio
import base64
import json
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from shared.kubernetes.access import AccessError, ApiAccess, FileCredentials, as_pod, by_kubeconfig

SERVER: Final = "https://10.0.0.1:6443"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A certificate and its key."""
    folder = tmp_path_factory.mktemp("pair")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "crt")]
    subprocess.run([*words, *files], check=True, capture_output=True)
    return (folder / "crt").read_bytes(), (folder / "key").read_bytes()


def written(folder: Path, user: Any = None, **cluster: Any) -> Path:
    """A kubeconfig of one cluster and one user."""
    told = {
        "clusters": [{"name": "c", "cluster": {"server": f"{SERVER}/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
        "preferences": {},
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(told))
    return path


def shown(access: ApiAccess) -> str:
    return asyncio.run(access.credentials.authorization())


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def plugin(folder: Path, **status: Any) -> dict[str, Any]:
    """A command that says this status, and notes that it ran."""
    (folder / "said").write_text(json.dumps({"kind": "ExecCredential", "status": status}))
    return command(folder, f"echo $WHO $1 >>{folder}/ran; cat {folder}/said")


def command(folder: Path, script: str) -> dict[str, Any]:
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    told = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}
    environment = [{"name": "WHO", "value": "us"}]
    return {"exec": {**told, "args": ["token"], "env": environment}}


@pytest.mark.parametrize(
    ("user", "header"),
    [
        (None, ""),
        ({"token": "t"}, "Bearer t"),
        ({"token": "t", "tokenFile": "file"}, "Bearer of the file"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
    ],
)
def test_a_user_shows_what_the_kubeconfig_has(tmp_path: Path, user: Any, header: str) -> None:
    (tmp_path / "file").write_text("of the file\n")
    access = by_kubeconfig(written(tmp_path, user, **{"tls-server-name": "name"}))
    assert (access.server, access.server_name, shown(access)) == (SERVER, "name", header)


@pytest.mark.parametrize("is_data", [True, False])
def test_only_the_authority_of_the_kubeconfig_is_trusted(
    tmp_path: Path, pair: tuple[bytes, bytes], *, is_data: bool
) -> None:
    (tmp_path / "ca.crt").write_bytes(pair[0])
    cluster = {"certificate-authority": "ca.crt"}
    if is_data:
        cluster = {"certificate-authority-data": text_of(pair[0])}
    tls = by_kubeconfig(written(tmp_path, **cluster)).tls
    assert len(tls.get_ca_certs()) == 1
    assert tls.verify_mode == ssl.CERT_REQUIRED
    assert tls.check_hostname


def test_a_server_is_taken_unseen_only_where_the_kubeconfig_says_so(tmp_path: Path) -> None:
    assert by_kubeconfig(written(tmp_path)).tls.verify_mode == ssl.CERT_REQUIRED
    path = written(tmp_path, **{"insecure-skip-tls-verify": True})
    assert by_kubeconfig(path).tls.verify_mode == ssl.CERT_NONE


def test_a_certificate_that_is_none_is_said_at_the_start(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    (tmp_path / "key").write_bytes(pair[1])
    by_kubeconfig(
        written(tmp_path, {"client-certificate-data": text_of(pair[0]), "client-key": "key"})
    )
    wrong = {"client-certificate-data": text_of(b"no certificate"), "client-key": "key"}
    with pytest.raises(AccessError, match="certificate is not usable"):
        by_kubeconfig(written(tmp_path, wrong))


@pytest.mark.parametrize(
    ("user", "cluster", "context", "problem"),
    [
        ({}, {}, "two", "has no context 'two'"),
        ({"auth-provider": {"name": "gcp"}}, {}, "", "auth-provider gcp is not known"),
        ({}, {"server": 7}, "", "clusters.0.cluster.server"),
        ({}, {"certificate-authority": "none.crt"}, "", "authority .* is not usable"),
        ({}, {"certificate-authority-data": "?"}, "", "is not base64"),
        ({"client-certificate": "none"}, {}, "", "none cannot be read"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, user: Any, cluster: dict[str, Any], context: str, problem: str
) -> None:
    with pytest.raises(AccessError, match=problem):
        by_kubeconfig(written(tmp_path, user, **cluster), context)


def test_a_kubeconfig_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="cannot be read"):
        by_kubeconfig(tmp_path / "none")


@pytest.mark.parametrize(
    ("expires", "is_refused", "runs"),
    [
        *(("", False, 1), ("2100-01-01T00:00:00Z", False, 1)),
        *(("2020-01-01T00:00:00Z", False, 2), ("", True, 2)),
    ],
)
def test_a_plugin_runs_again_once_its_token_expired_or_was_refused(
    tmp_path: Path, expires: str, runs: int, *, is_refused: bool
) -> None:
    user = plugin(tmp_path, token="t", **({"expirationTimestamp": expires} if expires else {}))
    access = by_kubeconfig(written(tmp_path, user))
    assert shown(access) == "Bearer t"
    if is_refused:
        access.credentials.refused()
    assert shown(access) == "Bearer t"
    assert (tmp_path / "ran").read_text() == "us token\n" * runs


def test_a_plugin_may_say_a_certificate(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    certificate, key = (each.decode() for each in pair)
    user = plugin(tmp_path, clientCertificateData=certificate, clientKeyData=key)
    assert shown(by_kubeconfig(written(tmp_path, user))) == ""
    user = plugin(tmp_path, clientCertificateData="none", clientKeyData=key)
    with pytest.raises(AccessError, match="certificate is not usable"):
        shown(by_kubeconfig(written(tmp_path, user)))


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo '{\"status\": {}}'", "neither token nor certificate"),
        ("echo welcome", "said no ExecCredential"),
        ("echo log in first >&2; exit 3", "ended with 3: log in first"),
    ],
)
def test_a_plugin_that_says_nothing_is_said(tmp_path: Path, script: str, problem: str) -> None:
    with pytest.raises(AccessError, match=problem):
        shown(by_kubeconfig(written(tmp_path, command(tmp_path, script))))


def test_a_plugin_that_is_not_there_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, command(tmp_path, ""))
    (tmp_path / "plugin").unlink()
    with pytest.raises(AccessError, match="plugin does not run"):
        shown(by_kubeconfig(path))


def test_a_pod_shows_the_token_of_its_account(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(pair[0])
    there = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = as_pod(tmp_path, there)
    assert (access.server, shown(access)) == ("https://[fd00::1]:443", "Bearer t")
    with pytest.raises(AccessError, match="in no pod"):
        as_pod(tmp_path, {})


def test_a_token_in_a_file_is_read_again_after_a_minute_or_once_refused(tmp_path: Path) -> None:
    now_s, file = [100.0], tmp_path / "token"
    file.write_text("a")
    credentials = FileCredentials(file, lambda: now_s[0])
    heard = [asyncio.run(credentials.authorization())]
    for text, after_s, is_refused in (("b", 59, False), ("c", 2, False), ("d", 1, True)):
        file.write_text(text)
        now_s[0] += after_s
        if is_refused:
            credentials.refused()
        heard.append(asyncio.run(credentials.authorization()))
    assert heard == ["Bearer a", "Bearer a", "Bearer c", "Bearer d"]
