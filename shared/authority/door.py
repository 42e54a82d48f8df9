"""Where somebody says or asks something: who it is, whether it may, and the record of it."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import uuid4

import structlog
from coplace.v1.authority_pb2 import AccessAudited
from grpc.aio import ServicerContext
from opentelemetry.metrics import Meter, Observation

from shared.authority.callers import caller
from shared.authority.rules import About, AccessVerdict
from shared.authority.signed import SignedTokens, is_signed
from shared.authority.table import TableInForce
from shared.authority.tokens import RefusedTokenError
from shared.catalogue.event import Event, Publish
from shared.process.clock import now_us

AUDIT: Final = "audit"
# What is refused before it is looked at: the action of these in the audit.
TOKEN: Final = "token"
# The longest text that an answer or a record repeats.
_MOST_TEXT: Final = 1_024
_NO_TABLE: Final = (
    "NO TABLE OF AUTHORITY IS DECLARED: every client of this port may publish and ask everything "
    "(`coplace authority set`, docs/how-to/authority.md)"
)

_SIGN_IN: Final = "run `coplace login`, or have an operator issue a token: `coplace tokens issue`"

log = structlog.get_logger(__name__)


class AuditSink(Protocol):
    """Where records of the audit go."""

    async def send(self, publish: Publish) -> Awaitable[object]:
        """Hand a record over; what is returned is done when the broker has it."""
        ...


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Who wants to say or ask what."""

    who: str
    action: str
    about: About
    event_id: str = ""

    def refusal(self, reason: str) -> str:
        """Return what the caller is answered where they may not."""
        return f"{self.who!r} may not {self.action} {self.about}: {reason}"[:_MOST_TEXT]


class Door:
    """One process's way in. While no table is declared it refuses nothing, and says so."""

    def __init__(self, name: str, table: TableInForce, sink: AuditSink, meter: Meter) -> None:
        self.name = name
        self.table = table
        self.signed = SignedTokens(lambda: table.issuer)
        self._sink = sink
        self._refused = meter.create_counter(
            "authority_refused", description="What was refused since the caller may not, by action"
        )
        self._refused.add(0)
        self._allowed = meter.create_counter(
            "authority_allowed", description="What the table in force allows, by action"
        )
        self._allowed.add(0)
        self._turned_away: dict[str, int] = {}
        meter.create_observable_gauge(
            "authority_table_version",
            [lambda _options: [Observation(table.version)]],
            description="Version of the table in force; 0: everybody may publish and ask all",
        )

    def announce(self) -> None:
        """Log at the start whether access is restricted."""
        if self.table.now is None:
            log.warning(_NO_TABLE, door=self.name)
        else:
            log.info("authority", door=self.name, version=self.table.version)

    @property
    def is_open(self) -> bool:
        """Return whether everybody may publish and ask everything."""
        return self.table.now is None

    def holder(self, token: str, at_us: int) -> str:
        """Return the identity of a token, by the table or by its issuer's signature. Raises
        RefusedTokenError where it is not valid."""
        if not token and self.table.issuer:
            raise RefusedTokenError("", "a caller without a token has no name here", _SIGN_IN)
        if is_signed(token):
            return self.signed.holder(token, at_us)
        return self.table.tokens.holder(token, at_us)

    async def turn_away(self, who: str, reason: str) -> None:
        """Count who is not let in at all, and put the first of each second on record."""
        self._refused.add(1, {"action": TOKEN})
        second = now_us() // 1_000_000
        if self._turned_away.get(who) != second:
            self._turned_away[who] = second
            attempt = AccessRequest(who, TOKEN, About())
            await (await self.record(attempt, AccessVerdict(False, reason)))

    async def answer(
        self, context: ServicerContext[Any, Any], action: str, about: About
    ) -> AccessVerdict:
        """Return whether the caller may ask. A refusal is on record before it is answered."""
        if self.table.now is None:
            return AccessVerdict(True, _NO_TABLE)
        attempt = AccessRequest(caller(context), action, about)
        verdict = self.judge(attempt)
        if not verdict.is_allowed:
            await (await self.record(attempt, verdict))
        return verdict

    def judge(self, attempt: AccessRequest) -> AccessVerdict:
        """Return whether an identity may, and count it. Its reason is for the caller."""
        if self.table.now is None:
            return AccessVerdict(True, _NO_TABLE)
        verdict = self.table.now.may(attempt.who, attempt.action, attempt.about)
        return self.counted(attempt, verdict)

    def counted(self, attempt: AccessRequest, verdict: AccessVerdict) -> AccessVerdict:
        """Count a verdict, and put a refusal into words."""
        counter = self._allowed if verdict.is_allowed else self._refused
        counter.add(1, {"action": attempt.action})
        if verdict.is_allowed:
            return verdict
        return AccessVerdict(False, attempt.refusal(verdict.reason))

    async def record(self, attempt: AccessRequest, verdict: AccessVerdict) -> Awaitable[object]:
        """Put what was decided on record; what is returned is done when the broker has it."""
        at_us = now_us()
        found = AccessAudited(
            who=_short(attempt.who),
            action=attempt.action,
            about=_short(str(attempt.about)),
            refused=not verdict.is_allowed,
            reason=_short(verdict.reason),
            event_id=_short(attempt.event_id),
            door=self.name,
            version=self.table.version,
            at_us=at_us,
        )
        event_id = f"{self.name}/{found.DESCRIPTOR.full_name}/{uuid4().hex}"
        return await self._sink.send(
            Publish(AUDIT, Event(event_id, self.name, at_us, found.who, found))
        )


def _short(text: str) -> str:
    """Return what a record can hold: printable, and not longer than a caller needs."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:_MOST_TEXT])
