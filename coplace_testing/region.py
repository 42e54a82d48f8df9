"""A whole region in one process and in virtual time."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final, TypeVar

from coplace.v1.control_pb2 import ClusterDeclared, DeadLetter, PowerCapDeclared, RoundEnded
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import ExplainResponse
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message
from rich.console import Console

from cli import why
from cli.notes import TABLE_WIDTH
from cli.stages import PLANNER, SERVICES
from coplace_client.errors import RejectedError
from coplace_client.facts import PAYLOADS, fact
from coplace_testing.services import EmbeddedServices
from coplace_testing.topics import TopicReader
from services.placement.service import forecast_of, unknown
from services.placement.settings import PlacementSettings
from shared.catalogue.policy_declarations import declaration_of
from shared.catalogue.topics import DLQ_PREFIX
from shared.domain.rounds import RoundSource
from shared.placement.explain.start_estimates import StartEstimates
from shared.process.settings import Settings

M = TypeVar("M", bound=Message)

_BEGIN_US: Final = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
# As who speaks that gives no identity.
_SOURCE: Final = "test"
CLUSTERS: Final = (
    ClusterDeclared(
        cluster="alpha",
        site="north",
        node_model="gold-6254",
        nodes=16,
        cores_per_node=36,
        pstates_ghz=[1.2, 2.0, 3.1],
        idle_power_w=105,
        peak_bandwidth_gbps=281.6,
        processors_tdp_w=400,
    ),
    ClusterDeclared(
        cluster="beta",
        site="south",
        node_model="platinum-8168",
        nodes=16,
        cores_per_node=48,
        pstates_ghz=[1.2, 2.0, 2.7],
        idle_power_w=110,
        peak_bandwidth_gbps=256,
        processors_tdp_w=410,
    ),
)
"""Two sites with a cluster of 16 nodes each."""


class Region:
    """Runs ingest and all services of a region, from 2026-01-01 on, without a server.

    Rounds end every `round_s` of virtual time. `policy` has settings as `coplace policy set` takes
    them. Another `seed` has services take their turns in another order. Other settings are those of
    the environment (`COPLACE_*`). Raises RejectedError for what ingest refuses.
    """

    def __init__(
        self,
        clusters: Sequence[ClusterDeclared] = CLUSTERS,
        policy: Mapping[str, str] = MappingProxyType({}),
        caps: Sequence[PowerCapDeclared] = (),
        *,
        seed: int = 1,
        round_s: float = 10.0,
        planner: bool = False,
    ) -> None:
        settings = Settings(kafka_partitions=1, rounds=RoundSource.CLOCK)
        services = (*SERVICES, PLANNER) if planner else SERVICES
        self._services = EmbeddedServices(
            settings, services=services, turns=Random(seed), is_guarded=True
        )
        self._round_us = _whole_us("round_s", round_s)
        self._sent = 0
        self._read: dict[str, tuple[TopicReader, list[Message]]] = {}
        self._each_round: list[Callable[[], object]] = []
        self._now_us = _BEGIN_US
        self.send(*clusters, *caps)
        if policy:
            self.send(declaration_of(policy, (), "", self.now_us))
        self._services.run_until_quiet(self.now_us)

    @property
    def now_us(self) -> int:
        """Virtual time, us since 1970."""
        return self._now_us

    @property
    def now_s(self) -> float:
        """Virtual time, s since 1970."""
        return self._now_us / 1e6

    def send(self, *events: Message, identity: str = "") -> None:
        """Hand payloads or envelopes to ingest; raise RejectedError for the first refused."""
        for event in events:
            envelope = event if isinstance(event, Envelope) else self._envelope(event, identity)
            self._services.ingest.take(envelope, self.now_us, identity)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass: rounds end meanwhile, and one when it has passed."""
        until_us = self.now_us + _whole_us("seconds", seconds)
        while self.now_us < until_us:
            self._now_us = min(self._now_us + self._round_us, until_us)
            self._end_round()

    def each_round(self, act: Callable[[], object]) -> None:
        """Have something called at the end of each round from now on."""
        self._each_round.append(act)

    def decisions(self) -> list[PlacementDecided]:
        """Return all decisions since the beginning, in the order in which they were made."""
        return _only(PlacementDecided, self.messages("placement.decisions"))

    def charges(self) -> list[ChargeMade]:
        """Return all charges since the beginning; a later revision replaces an earlier one."""
        return _only(ChargeMade, self.messages("prices.charges"))

    def dead_letters(self) -> list[DeadLetter]:
        """Return all that services refused, topic by topic."""
        topics = self._services.codec.topics.specs
        found = (self.messages(DLQ_PREFIX + topic) for topic in topics)
        return [letter for letters in found for letter in _only(DeadLetter, letters)]

    def messages(self, topic: str) -> list[Message]:
        """Return the messages of a topic since the beginning, without ends of rounds."""
        reader, found = self._read.setdefault(topic, (self._services.reader(topic), []))
        found += (e.payload for e in reader.read() if not isinstance(e.payload, RoundEnded))
        return [*found]

    def explain(self, job_id: str) -> ExplainResponse:
        """Return what placement answers about a job; raise RejectedError for an unknown one."""
        queries = self._services.duty.queries
        answer = queries.answer(job_id) if queries else None
        if queries is None or answer is None:
            raise RejectedError("job_id", unknown(job_id))
        arrival = queries.arrival(job_id)
        if arrival is not None and answer.as_of_us:
            estimates = StartEstimates(queries.snapshot(), PlacementSettings().most_foreseen)
            found = forecast_of(estimates.of(arrival), answer.as_of_us / 1e6)
            answer.forecast.CopyFrom(found)
        return answer

    def why(self, job_id: str) -> str:
        """Return what `coplace why` prints about a job; raise RejectedError for an unknown one."""
        answer = self.explain(job_id)
        console = Console(width=TABLE_WIDTH)
        with console.capture() as capture:
            for table in why.tables(answer):
                console.print(table)
        return "\n".join((*why.lines(answer), capture.get()))

    def restart(self, service: str) -> None:
        """End the process of a service and start another; raise KeyError for an absent one."""
        self._services.restart(service, self.now_us)

    def _envelope(self, payload: Message, identity: str) -> Envelope:
        if payload.DESCRIPTOR.full_name not in PAYLOADS:
            problem = f"ingest takes no {payload.DESCRIPTOR.full_name}"
            raise RejectedError("payload", f"{problem}: it takes {', '.join(PAYLOADS)}")
        self._sent += 1
        return fact(identity or _SOURCE, payload, str(self._sent), self.now_us)

    def _end_round(self) -> None:
        self._services.run_until_quiet(self.now_us)
        self._services.close_rounds(self.now_us)
        self._services.run_until_quiet(self.now_us)
        for act in self._each_round:
            act()


def _only(kind: type[M], messages: Sequence[Message]) -> list[M]:
    return [message for message in messages if isinstance(message, kind)]


def _whole_us(name: str, seconds: float) -> int:
    found = round(seconds * 1e6)
    if found <= 0:
        raise ValueError(f"{name} must be at least 0.000001 s, got {seconds}")
    return found
