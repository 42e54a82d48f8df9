"""What ingest puts on record of declarations and orders."""

import asyncio
from typing import Any, cast

import pytest
from coplace.v1.control_pb2 import NodesDrained
from coplace.v1.jobs_pb2 import JobCancelled, JobSubmitted
from coplace.v1.tariffs_pb2 import TariffDeclared
from google.protobuf.message import Message
from opentelemetry.metrics import NoOpMeter

from services.ingest.gate import Gate
from services.ingest.region import KnownRegion
from shared.authority.door import Door
from shared.authority.table import TableInForce
from shared.catalogue.event import Event, Publish
from tests.unit.services.ingest.envelopes import NOW_US
from tests.unit.shared.authority.test_bearing import Audit


class Region:
    """Of which nothing is known."""

    known = KnownRegion(1, 32)


@pytest.mark.parametrize(("certified", "recorded"), [("", "ada@login1"), ("olga", "olga")])
@pytest.mark.parametrize(
    ("topic", "payload", "is_kept"),
    [
        ("commands", NodesDrained(cluster="p1"), True),
        ("billing", TariffDeclared(name="t"), True),
        ("jobs.events", JobCancelled(job_id="j"), True),
        ("jobs.events", JobSubmitted(job_id="j"), False),
    ],
    ids=["a drain", "a tariff", "a cancellation", "a submission"],
)
def test_without_a_table_the_record_says_who_calls_themselves_what(
    certified: str, recorded: str, topic: str, payload: Message, is_kept: bool
) -> None:
    audit = Audit()
    door = Door("ingest", TableInForce(), audit, NoOpMeter("test"))
    gate = Gate(door, cast(Any, None), cast(Any, Region()))
    event = Event("ada@login1/x/1", "ada@login1", NOW_US, "", payload)

    async def admitted() -> None:
        await asyncio.gather(*await gate.admit(certified, "said", Publish(topic, event)))

    asyncio.run(admitted())
    assert [(each.who, each.refused) for each in audit.records] == [(recorded, False)] * is_kept
