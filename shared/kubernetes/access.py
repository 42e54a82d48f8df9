"""How an API server is reached: by a kubeconfig, or as the pod that this process is in.

The generated clients know each kind of object; these take more memory than all Workloads.
"""

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coplace_client.errors import UnusableError
from shared.kubernetes.objects import time_us
from shared.process.user_files import read_yaml

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_READ_EVERY_S: Final = 60.0
# Before a token expires: it has to arrive too.
_EARLY_S: Final = 60.0
_PLUGIN_S: Final = 60.0
_NEVER_US: Final = 1 << 62
_SAID: Final = 400


class AccessError(UnusableError):
    """There is no way to an API server, or none now."""


class Credentials(Protocol):
    """Who this process is to an API server."""

    async def authorization(self) -> str:
        """Return the header, empty where there is none. Raises AccessError."""

    def refused(self) -> None:
        """Take note that the API server did not accept them."""


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """Where an API server is, and how to be let in."""

    server: str
    tls: ssl.SSLContext
    credentials: Credentials
    server_name: str | None = None
    proxy: str | None = None


class FixedCredentials:
    """A header that stays as it is."""

    def __init__(self, header: str = "") -> None:
        self._header = header

    async def authorization(self) -> str:
        """Return the header."""
        return self._header

    def refused(self) -> None:
        """Do nothing: there are no others."""


class FileCredentials:
    """A token in a file, which somebody writes anew before it expires."""

    def __init__(self, file: Path, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._file, self._monotonic_s = file, monotonic_s
        self._token, self._until_s = "", 0.0

    async def authorization(self) -> str:
        """Return the token as it was a minute ago at most. Raises AccessError."""
        if self._monotonic_s() >= self._until_s:
            try:
                self._token = self._file.read_text().strip()
            except OSError as error:
                raise AccessError(f"{self._file} cannot be read: {error.strerror}") from error
            self._until_s = self._monotonic_s() + _READ_EVERY_S
        return f"Bearer {self._token}"

    def refused(self) -> None:
        """Read it again."""
        self._until_s = 0.0


class _Named(BaseModel):
    name: str


class _OfKubeconfig(BaseModel):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))


class _ServerEntry(_OfKubeconfig):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Variable(BaseModel):
    name: str
    value: str


class _Exec(BaseModel):
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    api_version: str = Field(alias="apiVersion")
    install_hint: str = Field("", alias="installHint")


class _User(_OfKubeconfig):
    token: str = ""
    token_file: str = Field("", alias="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: _Named | None = None


class _Context(BaseModel):
    cluster: str
    user: str
    namespace: str = ""


class _NamedApiServer(_Named):
    cluster: _ServerEntry


class _NamedUser(_Named):
    user: _User | None = None


class _NamedContext(_Named):
    context: _Context


class _Kubeconfig(_OfKubeconfig):
    clusters: list[_NamedApiServer]
    users: list[_NamedUser] = []
    contexts: list[_NamedContext]
    current_context: str = ""


_Entry = TypeVar("_Entry", bound=_Named)


class PluginCredentials:
    """What a command of the kubeconfig says, until it expires or is refused."""

    def __init__(self, asked: _Exec, folder: Path, tls: ssl.SSLContext) -> None:
        command = asked.command
        found = str(folder / command) if os.sep in command else command
        self._words = [found, *(asked.args or ())]
        self._asked, self._tls = asked, tls
        self._header, self._until_us = "", 0
        self._running = asyncio.Lock()

    async def authorization(self) -> str:
        """Return its token; runs it where that has expired. Raises AccessError."""
        async with self._running:
            if not self._until_us or time.time_ns() // 1000 >= self._until_us:
                self._take(await self._run())
        return self._header

    def refused(self) -> None:
        """Run it again."""
        self._until_us = 0

    async def _run(self) -> bytes:
        asked = {"interactive": False}
        told = {"apiVersion": self._asked.api_version, "kind": "ExecCredential", "spec": asked}
        own = {each.name: each.value for each in self._asked.env or ()}
        environment = {**os.environ, **own, "KUBERNETES_EXEC_INFO": orjson.dumps(told).decode()}
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        words = self._words
        try:
            running = await asyncio.create_subprocess_exec(
                *words, env=environment, stdin=nothing, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            hint = self._asked.install_hint or error.strerror
            raise AccessError(f"{words[0]} does not run: {hint}") from error
        try:
            said, complained = await asyncio.wait_for(running.communicate(), _PLUGIN_S)
        except TimeoutError as error:
            raise AccessError(f"{words[0]} has not answered in {_PLUGIN_S:.0f} s") from error
        finally:
            if running.returncode is None:
                running.kill()
        if running.returncode:
            why = complained.decode(errors="replace").strip()[:_SAID]
            raise AccessError(f"{words[0]} ended with {running.returncode}: {why}")
        return said

    def _take(self, said: bytes) -> None:
        try:
            status = orjson.loads(said)["status"]
            token, expires = str(status.get("token") or ""), status.get("expirationTimestamp")
            certificate = status.get("clientCertificateData"), status.get("clientKeyData")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise AccessError(f"{self._words[0]} said no ExecCredential") from error
        if all(certificate):
            _show(self._tls, *(str(each).encode() for each in certificate))
        elif not token:
            raise AccessError(f"{self._words[0]} said neither token nor certificate")
        self._header = f"Bearer {token}" if token else ""
        expires_us = time_us(expires)
        self._until_us = expires_us - round(_EARLY_S * 1e6) if expires_us else _NEVER_US


def as_pod(folder: Path = _ACCOUNT, environment: Mapping[str, str] = os.environ) -> ApiAccess:
    """Return how the pod that this process is in reaches its API server. Raises AccessError."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{it}", "") for it in ("HOST", "PORT"))
    if not host or not port or not (folder / "token").is_file():
        raise AccessError("this process is in no pod with a service account")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    tls = _trusting(str(folder / "ca.crt"), "")
    return ApiAccess(server, tls, FileCredentials(folder / "token"))


def by_kubeconfig(path: Path, context: str = "") -> ApiAccess:
    """Return how a context of a kubeconfig reaches its API server; "": its current one. Raises
    AccessError."""
    found = _kubeconfig(path)
    chosen = _named(found.contexts, context or found.current_context, path, "context").context
    cluster = _named(found.clusters, chosen.cluster, path, "cluster").cluster
    user = _named(found.users, chosen.user, path, "user").user or _User()
    tls = _tls(cluster, path.parent)
    return ApiAccess(
        cluster.server.rstrip("/"),
        tls,
        _credentials(user, path, tls),
        cluster.tls_server_name,
        cluster.proxy_url,
    )


def namespace_of(path: Path, context: str = "") -> tuple[str, str]:
    """Return a context of a kubeconfig, the current one where none is named, and its namespace.
    Raises AccessError."""
    found = _kubeconfig(path)
    name = context or found.current_context
    return name, _named(found.contexts, name, path, "context").context.namespace or "default"


def _kubeconfig(path: Path) -> _Kubeconfig:
    try:
        return _Kubeconfig.model_validate(read_yaml(path) or {})
    except OSError as error:
        raise AccessError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AccessError(f"{path}: {where}: {first['msg']}") from None


def _named(entries: list[_Entry], name: str, path: Path, what: str) -> _Entry:
    for each in entries:
        if each.name == name:
            return each
    raise AccessError(f"{path} has no {what} {name!r}")


def _tls(cluster: _ServerEntry, folder: Path) -> ssl.SSLContext:
    if cluster.insecure_skip_tls_verify:
        return trusting_all()
    file = cluster.certificate_authority
    authority = _decoded(cluster.certificate_authority_data, "certificate-authority-data")
    return _trusting(str(folder / file) if file else "", authority.decode(errors="replace"))


def trusting_all() -> ssl.SSLContext:
    """Return what takes any API server for the one that is meant."""
    found = ssl.create_default_context()
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    return found


def _trusting(file: str, authority: str) -> ssl.SSLContext:
    """Data goes before a file; without either the system's authorities are trusted."""
    try:
        if authority:
            return ssl.create_default_context(cadata=authority)
        return ssl.create_default_context(cafile=file or None)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        raise AccessError(f"its certificate authority {file} is not usable: {error}") from error


def _credentials(user: _User, path: Path, tls: ssl.SSLContext) -> Credentials:
    folder = path.parent
    shown = _decoded(user.client_certificate_data, "client-certificate-data") or _read(
        folder, user.client_certificate
    )
    if shown:
        key = _decoded(user.client_key_data, "client-key-data") or _read(folder, user.client_key)
        _show(tls, shown, key)
    if user.exec:
        return PluginCredentials(user.exec, folder, tls)
    if user.token_file:
        return FileCredentials(folder / user.token_file)
    if user.token:
        return FixedCredentials(f"Bearer {user.token}")
    if user.username:
        basic = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return FixedCredentials(f"Basic {basic}")
    if user.auth_provider:
        name = user.auth_provider.name
        raise AccessError(f"{path}: auth-provider {name} is not known: use exec or tokenFile")
    return FixedCredentials()


def _show(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show a certificate to the API server. Only files can be loaded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + b"\n" + key)
        try:
            tls.load_cert_chain(file)
        except OSError as error:
            raise AccessError(f"the client's certificate is not usable: {error}") from error


def _read(folder: Path, file: str) -> bytes:
    if not file:
        return b""
    try:
        return (folder / file).read_bytes()
    except OSError as error:
        raise AccessError(f"{folder / file} cannot be read: {error.strerror}") from error


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AccessError(f"{what} is not base64") from error
