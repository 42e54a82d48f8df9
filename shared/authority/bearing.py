"""The way in for callers that show a token in place of a certificate."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import grpc
from grpc.aio import ServerInterceptor, ServicerContext

from shared.authority.callers import bear, caller, shows_certificate
from shared.authority.door import Door
from shared.authority.signed import UnverifiedTokenError
from shared.authority.tokens import RefusedTokenError
from shared.process.clock import now_us
from shared.process.grpc_calls import behind, ends_process
from shared.process.grpc_errors import RefusalReason, RefusedCallError
from shared.process.grpc_health import is_of_health

_SCHEME: Final = "bearer "
# A caller without a token has to learn where to get one.
_OPEN: Final = "/coplace.v1.IngestService/ShowIssuer"


class TokenGate(ServerInterceptor):
    """Lets no call in but of who shows a certificate, or a token that counts.

    Of what is refused, at most one a second and identity is put on record: a client without a token
    can try as often as the network lets him. What fails on our side is passed to `crash`."""

    def __init__(self, door: Door, crash: Callable[[Exception], object]) -> None:
        self._door = door
        self._require_counts = ends_process(self._look_at, crash)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the handler of a call behind the gate. Health, and at whom callers sign in, is
        answered to whoever asks."""
        handler = await continuation(details)
        if handler is None or is_of_health(details) or details.method == _OPEN:
            return handler
        return behind(handler, partial(self._passed, _token_of(details.invocation_metadata)))

    def identity(self, context: Any) -> str:
        """Return the one name in the certificate or of the token; empty where there is none."""
        return caller(context)

    @asynccontextmanager
    async def _passed(self, token: str, context: ServicerContext[Any, Any]) -> AsyncIterator[None]:
        if not shows_certificate(context):
            await self._require_counts(token, context)
            bear(lambda: self._door.holder(token, now_us()))
        yield

    async def _look_at(self, token: str, _context: ServicerContext[Any, Any]) -> None:
        try:
            self._door.holder(token, now_us())
        except UnverifiedTokenError as error:
            code, reason = grpc.StatusCode.UNAVAILABLE, RefusalReason.ISSUER_NOT_READ
            raise RefusedCallError(code, str(error), reason) from None
        except RefusedTokenError as error:
            await self._door.turn_away(error.who, str(error))
            code = grpc.StatusCode.UNAUTHENTICATED
            raise RefusedCallError(code, str(error), RefusalReason.CALLER_UNKNOWN) from None


def _token_of(metadata: Sequence[tuple[str, str | bytes]] | None) -> str:
    """Return what `authorization: Bearer TOKEN` shows; empty where nothing is."""
    shown = [str(value) for key, value in metadata or () if key == "authorization"]
    is_one = len(shown) == 1 and shown[0].lower().startswith(_SCHEME)
    return shown[0][len(_SCHEME) :].strip() if is_one else ""
