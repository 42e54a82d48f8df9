"""Whatever somebody writes to the topics that ingest fills, every stage goes on and so does its
successor."""

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coplace_testing.services import INGEST_TOPICS
from services.ingest.payloads import KINDS
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.support.hostile_run import STAGES
from tests.support.messaging import CODEC, TOPICS, barriers
from tests.unit.services.ingest.envelopes import broken, envelope

# One job fills it, so that the others wait for the end of its limit.
SMALL = envelope("clusterDeclared", nodes=4, nodeClasses=[{"nodes": 4, "resources": {"gpu": 1}}])


def record(found: Envelope, event_id: str) -> NewRecord:
    """The record of an envelope that ingest was not asked about."""
    name = str(found.WhichOneof("payload"))
    payload, topic = getattr(found, name), KINDS[name].topic
    key = TOPICS.spec(topic).key_of(payload)
    return CODEC.encode(Publish(topic, Event(event_id, "test", found.time_us, key, payload)))


def play(log: InMemoryLog, number: int) -> None:
    """One round, by workers that have just started."""
    log.append(barriers(number, *INGEST_TOPICS))
    runtime = EmbeddedRuntime(log, STAGES, codec=CODEC)
    runtime.run_until_quiet()
    runtime.leave()


@settings(max_examples=8)
@example([envelope("jobSubmitted", walltimeS=1e300), envelope("signatureMeasured", nodeModel="?")])
@example([envelope("jobSubmitted"), envelope("jobStarted", nodes=["alpha-99999999999"])])
@example([envelope("jobSubmitted"), envelope("jobStarted", nodes=[], startedAtUs=2**63 - 1)])
@example([envelope("clusterDeclared", nodes=2**32 - 1)])
@example([envelope("clusterDeclared", pstatesGhz=["NaN"])])
@example([envelope("clusterLost", lostAtUs=-(2**63)), envelope("clusterLost", cluster="beta")])
@example([envelope("jobSubmitted", memoryGib=1e300), envelope("jobSubmitted", priority=2**31 - 1)])
@given(st.lists(broken(), min_size=1, max_size=8))
def test_every_stage_goes_on_and_restarts(found: list[Envelope]) -> None:
    log = InMemoryLog()
    log.append([record(SMALL, "small")])
    play(log, 0)
    log.append([record(one, f"broken/{number}") for number, one in enumerate(found)])
    play(log, 1)
    late = [envelope("jobSubmitted", jobId=job_id) for job_id in ("early", "late")]
    log.append([record(one, f"late/{number}") for number, one in enumerate(late)])
    play(log, 2)
    play(log, 3)
    events = [
        CODEC.decode(r) for p in TOPICS.partitions("placement.decisions") for r in log.read(p)
    ]
    decided = [e.payload for e in events if isinstance(e.payload, PlacementDecided)]
    assert "late" in {each.job_id for each in decided}
