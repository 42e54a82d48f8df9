"""The keys of the declared issuer, fetched beside the calls and never by one."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from shared.authority.issuer import Issuer
from shared.authority.issuer_calls import (
    CALL_ERRORS,
    OK,
    IssuerFailedError,
    ask_issuer,
    discovered,
    endpoint,
)
from shared.authority.signed import Keys, SignedTokens

_LOOK_S: Final = 0.5
# Keys that the issuer withdrew count until then at most.
_EVERY_S: Final = 300.0
# At most so often because a token names a key that is not known, or since a fetch failed.
_AGAIN_S: Final = 30.0
_FIRST_AGAIN_S: Final = 5.0
_WITHIN_S: Final = 10.0

log = structlog.get_logger(__name__)


class KeysSchedule:
    """When the keys of an issuer are fetched, by the seconds of a clock that never jumps."""

    def __init__(self) -> None:
        self._issuer: Issuer | None = None
        self._tried_s = 0.0
        self._is_read = False

    def is_due(self, issuer: Issuer, now_s: float, *, wanted: bool) -> bool:
        """Return whether to fetch now, of an issuer that tokens perhaps want newer keys of."""
        if issuer != self._issuer:
            return True
        if not self._is_read:
            return now_s >= self._tried_s + _FIRST_AGAIN_S
        return now_s >= self._tried_s + (_AGAIN_S if wanted else _EVERY_S)

    def tried(self, issuer: Issuer, now_s: float, *, succeeded: bool) -> None:
        """Take in that a fetch has ended."""
        self._is_read = succeeded or (self._is_read and issuer == self._issuer)
        self._issuer, self._tried_s = issuer, now_s


@asynccontextmanager
async def issuer_followed(
    signed: SignedTokens, crash: Callable[[Exception], object]
) -> AsyncIterator[None]:
    """Keep the keys of the issuer that is declared, whichever that is meanwhile."""
    running = asyncio.create_task(_run(signed, crash))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _run(signed: SignedTokens, crash: Callable[[Exception], object]) -> None:
    schedule = KeysSchedule()
    try:
        while True:
            issuer = signed.issuer()
            if issuer and schedule.is_due(issuer, time.monotonic(), wanted=signed.wants_keys):
                succeeded = await _refresh(signed, issuer)
                schedule.tried(issuer, time.monotonic(), succeeded=succeeded)
            await asyncio.sleep(_LOOK_S)
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        crash(error)


async def _refresh(signed: SignedTokens, issuer: Issuer) -> bool:
    """Take the newest keys; those that are known go on where the issuer does not answer."""
    try:
        keys = await fetch_keys(issuer)
    except IssuerFailedError as error:
        kept = signed.has_keys_of(issuer)
        log.warning("no keys of the issuer", issuer=issuer.url, problem=str(error), kept=kept)
        return False
    signed.take(issuer, keys)
    log.info("keys of the issuer", issuer=issuer.url, keys=len(keys.of))
    return True


async def fetch_keys(issuer: Issuer) -> Keys:
    """Return the keys that an issuer publishes. Raises IssuerFailedError."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            address = endpoint(await discovered(issuer), "jwks_uri", "its keys are")
            found = await ask_issuer(issuer, address)
            if found.status != OK:
                raise ValueError(f"status {found.status} of {address[:80]}")
            return Keys(found.document)
    except TimeoutError:
        raise IssuerFailedError(f"no answer within {_WITHIN_S:g} s") from None
    except CALL_ERRORS as error:
        raise IssuerFailedError(str(error)[:200] or type(error).__name__) from error
