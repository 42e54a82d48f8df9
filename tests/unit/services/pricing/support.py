"""Facts about one job, and what pricing makes of them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message

from services.pricing.processor import PriceRule, PricingProcessor
from shared.catalogue.event import Event, Publish
from shared.domain.rounds import RoundSource
from shared.pricing.charge import audit
from shared.streams.stages.stage import AlreadyAppliedError, Round, Stage
from tests.support.messaging import START_US
from tests.unit.services.changelog import fold

HOUR_US = 3_600_000_000
JOB = "s/c/1/0"
BARRIERS = PriceRule(Decimal("0.0001"), grace_us=0, remember_us=10 * HOUR_US)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def submitted(attempt: int = 1, **changes: Any) -> JobSubmitted:
    values: dict[str, Any] = {
        "job_id": JOB,
        "user": "ada",
        "account": "physics",
        "nodes": 4,
        "walltime_s": 7200.0,
        "reference_cluster": "c",
        "submitted_at_us": START_US,
        "shareable": True,
    }
    return JobSubmitted(attempt=attempt, **(values | changes))


def started(attempt: int = 1) -> JobStarted:
    return JobStarted(
        job_id=JOB, attempt=attempt, cluster="c", nodes=["c-1,c-2"], started_at_us=START_US
    )


def beside(job_id: str) -> JobStarted:
    """The start of a job on the nodes of the first."""
    return JobStarted(job_id=job_id, attempt=1, cluster="c", started_at_us=START_US)


def neighbour(job_id: str) -> JobSubmitted:
    """The submission of a job that shares its nodes."""
    return submitted(job_id=job_id, user="eve", account="bio", nodes=1)


def finished(attempt: int = 1, start_us: int = START_US, **changes: Any) -> JobFinished:
    """An hour on four nodes of 24 cores."""
    values: dict[str, Any] = {
        "job_id": JOB,
        "outcome": JOB_OUTCOME_COMPLETED,
        "user": "ada",
        "account": "physics",
        "cluster": "c",
        "nodes": 4,
        "cores_per_node": 24,
        "submitted_at_us": START_US,
        "started_at_us": start_us,
        "ended_at_us": start_us + HOUR_US,
    }
    return JobFinished(attempt=attempt, **(values | changes))


def shutters(
    ipc_during: float = 1.25, beside: str = "b", ipc_after: float = 1.0, **changes: Any
) -> ShuttersMeasured:
    values: dict[str, Any] = {
        "job_id": JOB,
        "began_at_us": START_US,
        "ended_at_us": START_US + HOUR_US,
        "shutters": [Shutter(ipc_before=1.0, ipc_during=ipc_during, ipc_after=ipc_after)],
    }
    return ShuttersMeasured(attempt=1, co_runner_job_id=beside, **(values | changes))


def tariff(name: str = "t", version: int = 1, core: str = "1", **others: Any) -> TariffDeclared:
    values: dict[str, Any] = {
        "rates": [TariffRate(resource="core", su=core)],
        "model": PRICE_MODEL_FAIR,
        "from_us": START_US,
        "declared_at_us": START_US + version,
    }
    return TariffDeclared(name=name, version=version, **(values | others))


def stage(rule: PriceRule) -> Stage:
    """Pricing, its rounds closed by a clock."""
    return Stage(
        "pricing",
        ("jobs.events", "telemetry.shutters", "billing"),
        ("prices.charges",),
        lambda _number, restored: PricingProcessor(rule, restored),
        single=True,
        rounds=RoundSource.CLOCK,
        puts_barriers=False,
    )


class Driver:
    """Feeds a processor as a unit does, and keeps what a changelog would."""

    def __init__(self, rule: PriceRule = BARRIERS, state: Mapping[str, bytes] | None = None):
        self.rule = rule
        self.state = dict(state or {})
        self.charges: list[ChargeMade] = []
        self.standings: list[AccountStanding] = []
        self.restart()

    def restart(self) -> None:
        """Begin again from what was committed."""
        self.processor = PricingProcessor(self.rule, dict(self.state))

    def crash(self) -> None:
        """A kill behind a commit."""
        fold(self.state, self.processor.changes())
        self.restart()

    def take(self, *facts: Message) -> None:
        """Hand facts over; who is said to run beside a job does, from the start on."""
        for fact in facts:
            if isinstance(fact, ShuttersMeasured):
                with suppress(AlreadyAppliedError):
                    self.take(neighbour(fact.co_runner_job_id))
                self.take(beside(fact.co_runner_job_id))
            self._hear(self.processor.handle(self.event(fact)))

    def event(self, fact: Message) -> Event:
        """A fact on its way."""
        return Event(f"e{fact}", "test", START_US, JOB, fact, TRACE)

    def end_round(self, number: int, at_us: int) -> list[ChargeMade]:
        """What is charged when a round ends."""
        charges = self._hear(self.processor.end_round(Round(number, at_us)))
        fold(self.state, self.processor.changes())
        return charges

    def _hear(self, published: Iterable[Publish]) -> list[ChargeMade]:
        told = [publish.event.payload for publish in published]
        charges = [one for one in told if isinstance(one, ChargeMade)]
        for charge in charges:
            audit(charge)
        self.charges += charges
        self.standings += [one for one in told if isinstance(one, AccountStanding)]
        return charges
