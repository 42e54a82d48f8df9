"""Who is signed in: kept for its owner alone, renewed by one program at a time.

A login belongs to the authority that signs the certificates of a region's services: nothing else
can prove to be the region, so the token is shown to nobody else.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cli.installation.record import state_dir
from cli.login.device_grant import (
    Provider,
    SignInEndedError,
    SignInError,
    TokenGrant,
    renewed,
    revoke,
)
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.files import write_whole
from shared.authority.issuer import Issuer

_TOKEN: Final = "token"
_RECORD: Final = "login.json"
_LOCK: Final = ".lock"
# A token that expires within this is renewed.
_AHEAD_S: Final = 30.0
_TRY_AGAIN_S: Final = 30.0
_MOST_AUTHORITY: Final = 1_048_576
_TOKEN_FILE: Final = "COPLACE_GRPC_TOKEN_FILE"
_SOURCE: Final = "COPLACE_SOURCE"
# A caller who shows one of these is identified by it.
_IDENTIFIED: Final = (_TOKEN_FILE, "COPLACE_GRPC_CERT_FILE")


@dataclass(frozen=True, slots=True)
class LoginRecord:
    """How a token was given, whom it names, when it expires, in seconds since 1970, and what
    renews it; empty where nothing does."""

    provider: Provider
    who: str
    expires_at_s: float
    refresh_token: str

    @property
    def renews(self) -> bool:
        """Return whether the token can be renewed."""
        return bool(self.refresh_token)

    @property
    def is_due(self) -> bool:
        """Return whether the token expires about now."""
        return time.time() >= self.expires_at_s - _AHEAD_S


class Session:
    """The login of this user in the region whose services' certificates an authority signs."""

    def __init__(self, authority: Path) -> None:
        try:
            with authority.open("rb") as file:
                name = hashlib.sha256(file.read(_MOST_AUTHORITY)).hexdigest()[:32]
        except OSError as error:
            raise UnusableError(f"COPLACE_GRPC_CA_FILE={authority}: {error.strerror}") from None
        self.folder = state_dir() / "logins" / name

    @property
    def token_file(self) -> Path:
        """Return the file of the token."""
        return self.folder / _TOKEN

    @property
    def is_signed_in(self) -> bool:
        """Return whether there is a login."""
        return (self.folder / _RECORD).exists()

    def record(self) -> LoginRecord:
        """Return the login. Raises UnusableError where it cannot be read."""
        try:
            found: Any = json.loads((self.folder / _RECORD).read_text())
            provider = found.pop("provider")
            issuer = Issuer(**provider.pop("issuer"))
            return LoginRecord(Provider(issuer, **provider), **found)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RejectedError) as error:
            problem = f"{self.folder / _RECORD} is no login ({type(error).__name__})"
            raise UnusableError(f"{problem}: run `coplace login` again") from None

    def keep(self, provider: Provider, tokens: TokenGrant) -> LoginRecord:
        """Keep a login, readable for its owner alone."""
        found = LoginRecord(
            provider, tokens.who, time.time() + tokens.expires_in_s, tokens.refresh_token
        )
        with self._locked():
            self._write(found, tokens.access_token)
        return found

    def renew(self) -> LoginRecord:
        """Renew a token that expires, unless another program just did. Raises SignInEndedError
        where the provider renews it no more: then nobody is signed in. Raises SignInError where it
        does not answer."""
        with self._locked():
            found = self.record()
            if not found.is_due:
                return found
            try:
                if not found.renews:
                    raise SignInEndedError(
                        f"{found.provider.issuer.url}: the login of {found.who} has expired: run "
                        "`coplace login` again"
                    )
                tokens = asyncio.run(renewed(found.provider, found.refresh_token))
            except SignInEndedError:
                self._delete()
                raise
            fresh = LoginRecord(
                *(found.provider, tokens.who, time.time() + tokens.expires_in_s),
                tokens.refresh_token,
            )
            self._write(fresh, tokens.access_token)
            return fresh

    def forget(self) -> str:
        """Delete the login, and have the provider renew nothing by it: what it said against that,
        empty where nothing."""
        with self._locked():
            found = self.record() if self.is_signed_in else None
            self._delete()
        if found is None or not found.renews or not found.provider.revocation_url:
            return ""
        try:
            asyncio.run(revoke(found.provider, found.refresh_token))
        except SignInError as error:
            return str(error)
        return ""

    def _write(self, found: LoginRecord, token: str) -> None:
        for name, text in ((_RECORD, json.dumps(asdict(found))), (_TOKEN, f"{token}\n")):
            with write_whole(self.folder / name) as fresh:
                fresh.touch(mode=0o600)
                fresh.write_text(text)

    def _delete(self) -> None:
        for name in (_TOKEN, _RECORD):
            (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """A provider may give each refresh token once: two programs must not show the same."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def signed_in() -> Iterator[str]:
    """Show, within it, the token of the login where nothing else identifies the caller, and keep it
    valid. Yields what is wrong with the login, empty where nothing is."""
    authority = os.environ.get("COPLACE_GRPC_CA_FILE", "")
    if not authority or any(os.environ.get(name) for name in _IDENTIFIED):
        yield ""
        return
    session = _session_of(Path(authority))
    if session is None:
        yield ""
        return
    problem, who, ended = "", "", threading.Event()
    try:
        found = session.record()
        who = found.who
        session.renew()
    except UnusableError as error:
        problem = str(error)
    if not session.token_file.exists():
        yield problem
        return
    threading.Thread(target=_keep_valid, args=(session, ended), daemon=True).start()
    shown = {_TOKEN_FILE: str(session.token_file)}
    if who and not os.environ.get(_SOURCE):
        shown[_SOURCE] = who
    os.environ.update(shown)
    try:
        yield problem
    finally:
        ended.set()
        for name in shown:
            os.environ.pop(name, None)


def _session_of(authority: Path) -> Session | None:
    """The login with this authority, None where there is none. A file that cannot be read is said
    by what connects."""
    with suppress(UnusableError):
        found = Session(authority)
        return found if found.is_signed_in else None
    return None


def _keep_valid(session: Session, ended: threading.Event) -> None:
    """Renew the token as long as a command runs: it is read anew at each call."""
    while session.is_signed_in:
        with suppress(UnusableError):
            pause_s = session.record().expires_at_s - _AHEAD_S - time.time()
            if ended.wait(max(pause_s, 1.0)):
                return
            session.renew()
            continue
        if ended.wait(_TRY_AGAIN_S):
            return
