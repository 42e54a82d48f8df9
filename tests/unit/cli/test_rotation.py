"""A rotation that dies at any of its steps is continued, and until then everybody is believed.

Kafka and Redis are models of what they do with the files of real certificates; real ones are
changed the same in `tests/integration/test_rotation.py`."""

import shutil
import ssl
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from cli.rotation import Rotation, has_begun
from cli.security import Security
from deploy.local.credentials import Credentials, Identity
from deploy.local.kafka.broker import KAFKA
from deploy.local.redis_server import REDIS

_SERVING: Final = ("ingest", "placement", "energy-api", "watch", "rest")
_NAMES: Final = (KAFKA, REDIS, *_SERVING, "operator", "simulation")


class DeathError(Exception):
    """The process died here."""


class Templates:
    """Credentials that were made once, since each certificate takes openssl a moment."""

    def __init__(self, folder: Path) -> None:
        self.folders = [folder / name for name in ("first", "second")]
        for each in self.folders:
            Security(each.parent, "").make(Credentials(each))


class FromTemplates(Security):
    """Finds the credentials that it has to make."""

    def __init__(self, folder: Path, templates: Templates) -> None:
        super().__init__(folder, "")
        self._left = list(templates.folders)
        self.make(self.credentials)

    def make(self, credentials: Credentials) -> None:
        """What is there already stays."""
        shutil.copytree(
            self._left[0] if len(self._left) == 1 else self._left.pop(0), credentials.folder
        )


class Servers:
    """What Kafka and Redis believe and show; `step` is called before and after each change."""

    def __init__(self, security: Security, step: Callable[[], object]) -> None:
        self._kept = security.credentials
        self._step = step
        users = security.access.principals
        self.kafka_passwords = {user: self._kept.password(user) for user in users}
        self.redis_passwords = {user: {self._kept.password(user)} for user in users}
        self.believed = authorities(self._kept)
        self.shown = {name: signer(self._kept.identity(name)) for name in (KAFKA, REDIS)}

    def reload_kafka(self) -> None:
        """Refused, as by a real one, where what it was and what it is to be do not believe each
        other: it speaks to itself."""
        self._step()
        believed, shown = authorities(self._kept), signer(self._kept.identity(KAFKA))
        assert shown in believed & self.believed
        assert self.shown[KAFKA] in believed
        self.believed, self.shown[KAFKA] = believed, shown
        self._step()

    def require_kafka(self, authority: Credentials, shown: Identity) -> None:
        """It changes at once what it should."""
        self._step()
        assert self.shown[KAFKA] in authorities(authority)
        assert signer(shown) in self.believed

    def set_kafka_passwords(self, credentials: Credentials) -> None:
        """One of each."""
        self._step()
        for user in filter(credentials.has_password, self.kafka_passwords):
            self.kafka_passwords[user] = credentials.password(user)
        self._step()

    def require_passwords(self) -> None:
        """Everybody's."""
        assert self.kafka_passwords == {u: self._kept.password(u) for u in self.kafka_passwords}

    def set_redis_passwords(self, *believed: Credentials) -> None:
        """Each of theirs."""
        self._step()
        for user in self.redis_passwords:
            having = [one for one in believed if one.has_password(user)]
            self.redis_passwords[user] = {one.password(user) for one in having}
        self._step()

    def reload_redis(self) -> None:
        """Its certificate."""
        self._step()
        self.shown[REDIS] = signer(self._kept.identity(REDIS))
        self._step()

    def require_all_works(self, *, told_passwords: bool) -> None:
        """Whoever connects by the files as they are believes and is believed; Kafka may have been
        given passwords that are in no file yet."""
        believed = authorities(self._kept)
        assert set(self.shown.values()) <= believed
        for name in _NAMES:
            assert signer(self._kept.identity(name)) in believed, name
        assert signer(self._kept.identity(KAFKA)) in self.believed
        for user, known in self.kafka_passwords.items():
            password = self._kept.password(user)
            assert password in self.redis_passwords[user]
            assert password == known or told_passwords


# By what is in the files: there are a few, which are asked about thousands of times.
_AUTHORITIES: Final = dict[str, set[str]]()
_SIGNERS: Final = dict[tuple[str, str], str]()


def authorities(credentials: Credentials) -> set[str]:
    """Who signs what is believed."""
    text = credentials.authority.read_text()
    if text not in _AUTHORITIES:
        found = ssl.create_default_context(cafile=credentials.authority).get_ca_certs()
        _AUTHORITIES[text] = {str(each["subject"]) for each in found}
    return _AUTHORITIES[text]


def signer(identity: Identity) -> str:
    """Who signed it. Raises where it is no certificate with its own key."""
    texts = identity.certificate.read_text(), identity.key.read_text()
    if texts not in _SIGNERS:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(identity.certificate, identity.key)
        decoded = ssl._ssl._test_decode_cert(str(identity.certificate))  # type: ignore[attr-defined]
        _SIGNERS[texts] = str(decoded["issuer"])
    return _SIGNERS[texts]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))


class Death:
    """Comes at the step of a number, which is any replaced file, and any word with a server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self._left = at
        replace = Path.replace

        def step_and_replace(path: Path, target: Path) -> Path:
            self.step()
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", step_and_replace)

    @property
    def came(self) -> bool:
        """Whether there was such a step."""
        return self._left == 0

    def step(self) -> None:
        """One of them."""
        if self._left:
            self._left -= 1
            if self.came:
                raise DeathError


def test_a_rotation_changes_everything_once(templates: Templates, tmp_path: Path) -> None:
    security = FromTemplates(tmp_path, templates)
    servers = Servers(security, bool)
    before = {file.name: file.read_text() for file in security.credentials.folder.iterdir()}
    told: list[str] = []
    Rotation(security, servers).run(told.append)
    after = {file.name: file.read_text() for file in security.credentials.folder.iterdir()}
    assert set(after) == set(before)
    assert not [name for name in before if before[name] == after[name]]
    assert len(told) == 5


def test_the_old_authority_is_believed_until_others_have_what_is_new(
    templates: Templates, tmp_path: Path
) -> None:
    security = FromTemplates(tmp_path, templates)
    old = authorities(security.credentials)
    servers = Servers(security, bool)
    for _ in range(2):
        Rotation(security, servers).run(str, keep_old=True)
        assert has_begun(security)
        assert old < servers.believed == authorities(security.credentials)
    Rotation(security, servers).run(str)
    assert not has_begun(security)
    assert not old & servers.believed


@pytest.mark.parametrize("first", [1, 2])
def test_a_death_at_any_step_stops_nobody_and_the_next_call_goes_on(
    first: int, templates: Templates, tmp_path: Path
) -> None:
    for steps in count(first, 2):
        folder = tmp_path / str(steps)
        with pytest.MonkeyPatch.context() as patched:
            security = FromTemplates(folder, templates)
            death = Death(patched, steps)
            servers = Servers(security, death.step)
            old = dict(servers.kafka_passwords), set(servers.believed)
            try:
                Rotation(security, servers).run(str)
            except DeathError:
                servers.require_all_works(told_passwords=has_begun(security))
                Rotation(security, servers).run(str)
        servers.require_all_works(told_passwords=False)
        passwords, believed = old
        assert not believed & servers.believed
        assert not set(passwords.values()) & set().union(*servers.redis_passwords.values())
        assert all(passwords[user] != new for user, new in servers.kafka_passwords.items())
        assert not has_begun(security)
        assert not list(security.credentials.folder.glob("next*"))
        shutil.rmtree(folder)
        if not death.came:
            break
    assert steps > 40
