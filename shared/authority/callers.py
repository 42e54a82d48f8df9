"""Callers: the identity in the certificate of a gRPC call, or of its token."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from shared.authority.issuer import require_no_origin
from shared.authority.tokens import RefusedTokenError

# Of the call that this task answers: whom its token identifies now.
_HOLDER: Final[ContextVar[Callable[[], str] | None]] = ContextVar("holder", default=None)


def shows_certificate(context: ServicerContext[Any, Any]) -> bool:
    """Return whether the caller showed a certificate, which TLS has believed."""
    return "x509_pem_cert" in context.auth_context()


def bear(holder: Callable[[], str]) -> None:
    """Set the identity of this call's token, asked anew each time: it may be a long stream. It
    raises RefusedTokenError once the token is not valid any more."""
    _HOLDER.set(holder)


def callers(context: ServicerContext[Any, Any]) -> Sequence[str]:
    """Return the names in the client certificate, or of the token; none where none was shown.
    Raises RejectedError for a certificate without a name, with which anything could be said, for
    one with a name that only an issuer gives, and for a token that is not valid any more."""
    try:
        if holder := _HOLDER.get():
            return [holder()]
    except RefusedTokenError as error:
        raise RejectedError("source", f"is unknown: {error}") from None
    names = [name.decode() for name in context.auth_context().get("x509_common_name", ())]
    if shows_certificate(context) and not all(names or [""]):
        raise RejectedError("source", "is unknown: the client certificate has no common name")
    for name in names:
        require_no_origin("source", name)
    return names


def caller(context: ServicerContext[Any, Any]) -> str:
    """Return the one name in the certificate or of the token; empty where there is none, or
    several."""
    try:
        names = callers(context)
    except RejectedError:
        return ""
    return names[0] if len(names) == 1 else ""
