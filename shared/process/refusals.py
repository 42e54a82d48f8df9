"""Why a server refuses this process: one line that names the peer and the setting."""

import ssl
from collections.abc import Iterator
from typing import Final

from coplace_client.errors import UnusableError
from coplace_client.tls import TlsFiles, tls_problem
from shared.process.settings import Settings

_MEND_ACL: Final = (
    "`coplace doctor` names what is missing, `coplace topics acls` prints what is needed"
)


class RefusedError(UnusableError):
    """A server and this process do not believe each other; the message names peer and setting."""


def redis_problem(settings: Settings, error: BaseException) -> str:
    """Return what an error of Redis's client means, empty where nobody answers at all."""
    from redis.exceptions import AuthenticationError, NoPermissionError

    url = settings.redis_url
    peer = f"Redis at {url.rpartition('@')[2] if '@' in url else url.partition('//')[2]}"
    user = settings.redis_username or "of COPLACE_REDIS_URL"
    if isinstance(error, NoPermissionError):
        return f"{peer} refuses user {user}: {error}: {_MEND_ACL}"
    if isinstance(error, AuthenticationError):
        setting = "PASSWORD_FILE" if settings.redis_password_file else "URL"
        return f"{peer} refuses user {user} with the password of COPLACE_REDIS_{setting}"
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return tls_problem(peer, TlsFiles.of(settings, "redis"), cause)
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def server_refusal(settings: Settings, error: BaseException) -> str:
    """Return why a server refuses what a process at work needs; empty for whatever else went
    wrong."""
    if isinstance(error, RefusedError):
        return str(error)
    if type(error).__module__.startswith("redis."):
        return redis_problem(settings, error)
    return acl_problem(settings, error)


def acl_problem(settings: Settings, error: BaseException) -> str:
    """Return what it means that Kafka's access control list refuses something, empty for other
    errors."""
    name = type(error).__name__
    if "AuthorizationFailed" not in name:
        return ""
    about = f" {error}" if str(error) else ""
    return (
        f"Kafka at {settings.kafka_bootstrap} does not allow COPLACE_KAFKA_SASL_USERNAME="
        f"{settings.kafka_sasl_username} that: {name}{about}: {_MEND_ACL}"
    )
