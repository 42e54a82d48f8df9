"""The way in for callers that show a token in place of a certificate."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
from grpc.aio import ServerInterceptor, ServicerContext

from shared.authority.callers import bear, shows_certificate
from shared.authority.door import Door
from shared.authority.tokens import RefusedTokenError
from shared.process.clock import now_us
from shared.process.grpc_server import RefusedCallError, ends_process

_SCHEME: Final = "bearer "


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
        """Return the handler of a call behind the gate; one that streams answers writes them."""
        handler = await continuation(details)
        if handler is None:
            return None
        token = _token_of(details.invocation_metadata)
        if handler.stream_unary:
            return handler._replace(stream_unary=self._behind(handler.stream_unary, token))
        if handler.unary_stream:
            return handler._replace(unary_stream=self._behind(handler.unary_stream, token))
        assert handler.unary_unary, "a handler that streams both ways would pass by the gate"
        return handler._replace(unary_unary=self._behind(handler.unary_unary, token))

    def _behind(
        self, answer: Callable[[Any, Any], Awaitable[object]], token: str
    ) -> Callable[[Any, Any], Awaitable[object]]:
        async def let_in(request: Any, context: ServicerContext[Any, Any]) -> object:
            if not shows_certificate(context):
                await self._require_counts(token, context)
                bear(lambda: self._door.holder(token, now_us()))
            return await answer(request, context)

        return let_in

    async def _look_at(self, token: str, _context: ServicerContext[Any, Any]) -> None:
        try:
            self._door.holder(token, now_us())
        except RefusedTokenError as error:
            await self._door.turn_away(error.who, str(error))
            raise RefusedCallError(grpc.StatusCode.UNAUTHENTICATED, str(error)) from None


def _token_of(metadata: Sequence[tuple[str, str | bytes]] | None) -> str:
    """Return what `authorization: Bearer TOKEN` shows; empty where nothing is."""
    shown = [str(value) for key, value in metadata or () if key == "authorization"]
    is_one = len(shown) == 1 and shown[0].lower().startswith(_SCHEME)
    return shown[0][len(_SCHEME) :].strip() if is_one else ""
