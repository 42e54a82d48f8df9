"""Who calls: whom the certificate of a gRPC call names, or for whom its token stands."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from shared.authority.tokens import RefusedTokenError

# Of the call that this task answers: who its token stands for now.
_HOLDER: Final[ContextVar[Callable[[], str] | None]] = ContextVar("holder", default=None)


def shows_certificate(context: ServicerContext[Any, Any]) -> bool:
    """Whether the caller showed one, which TLS has believed."""
    return "x509_pem_cert" in context.auth_context()


def bear(holder: Callable[[], str]) -> None:
    """Whom the token of this call stands for, asked anew each time: it may be a long stream. It
    raises RefusedTokenError once the token does not count any more."""
    _HOLDER.set(holder)


def callers(context: ServicerContext[Any, Any]) -> Sequence[str]:
    """Whom the client certificate names, or the token; nobody where none was shown. Raises
    RejectedError for a certificate that names nobody, who could else say anything, and for a token
    that does not count any more."""
    try:
        if holder := _HOLDER.get():
            return [holder()]
    except RefusedTokenError as error:
        raise RejectedError("source", f"cannot be told: {error}") from None
    names = [name.decode() for name in context.auth_context().get("x509_common_name", ())]
    if shows_certificate(context) and not all(names or [""]):
        raise RejectedError("source", "cannot be told: the client certificate has no common name")
    return names


def caller(context: ServicerContext[Any, Any]) -> str:
    """The one whom the certificate or token names; empty where that is nobody, or several."""
    try:
        names = callers(context)
    except RejectedError:
        return ""
    return names[0] if len(names) == 1 else ""
