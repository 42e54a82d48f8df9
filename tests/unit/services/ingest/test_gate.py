"""What ingest puts on record of declarations and orders."""

import asyncio
from typing import Any, cast

import pytest
from coplace.v1.authority_pb2 import (
    AUTHORITY_ROLE_OPERATOR,
    AUTHORITY_ROLE_RESOURCE_MANAGER,
    AUTHORITY_ROLE_USER,
    AuthorityDeclared,
    RoleBinding,
)
from coplace.v1.control_pb2 import NodesDrained
from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    HOLDER_PLACEMENT,
    HOLDER_UNSPECIFIED,
    HOLDER_USER,
    JobCancelled,
    JobHeld,
    JobReleased,
    JobSubmitted,
)
from coplace.v1.tariffs_pb2 import TariffDeclared
from google.protobuf.message import Message
from opentelemetry.metrics import NoOpMeter

from services.ingest.gate import Gate, NotAllowedError
from services.ingest.region import KnownRegion
from shared.authority.door import Door
from shared.authority.rules import About
from shared.authority.table import TableInForce
from shared.catalogue.event import Event, Publish
from tests.unit.services.ingest.envelopes import NOW_US
from tests.unit.shared.authority.test_bearing import Audit

DAY_US = 86_400_000_000


class Region:
    """Of which nothing is known."""

    def __init__(self) -> None:
        self.known = KnownRegion(DAY_US, 32)

    async def ready(self) -> None:
        """All is read."""

    async def caught_up(self, about: About) -> None:
        """Nothing more is known of it."""


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


@pytest.mark.parametrize(
    ("who", "payload", "said"),
    [
        ("ada", JobHeld(job_id="north/1"), [HOLDER_USER]),
        ("ada", JobReleased(job_id="north/1"), [HOLDER_USER, HOLDER_MANAGER, HOLDER_PLACEMENT]),
        ("ada", JobReleased(job_id="north/1", holders=[HOLDER_USER]), [HOLDER_USER]),
        ("olga", JobHeld(job_id="north/1"), [HOLDER_UNSPECIFIED]),
        ("olga", JobReleased(job_id="north/1"), []),
        ("both", JobReleased(job_id="north/1"), []),
        ("slurm", JobReleased(job_id="north/1"), []),
    ],
)
def test_a_user_holds_and_releases_as_a_user(
    who: str, payload: JobHeld | JobReleased, said: list[int]
) -> None:
    table, region = TableInForce(), Region()
    bindings = [
        *(RoleBinding(who=w, role=AUTHORITY_ROLE_USER, users=["ada"]) for w in ("ada", "both")),
        RoleBinding(who="both", role=AUTHORITY_ROLE_OPERATOR, sites=["*"]),
        RoleBinding(who="olga", role=AUTHORITY_ROLE_OPERATOR, sites=["*"], accounts=["*"]),
        RoleBinding(who="slurm", role=AUTHORITY_ROLE_RESOURCE_MANAGER, sites=["north"]),
    ]
    declared = AuthorityDeclared(version=1, bindings=bindings, declared_at_us=NOW_US)
    table.fold(Event("root/1", "olga", NOW_US, "", declared))
    submitted = JobSubmitted(job_id="north/1", user="ada", account="physics")
    region.known.fold(Event("n/1", "slurm", NOW_US, "", submitted))
    gate = Gate(
        Door("ingest", table, Audit(), NoOpMeter("test")), cast(Any, None), cast(Any, region)
    )
    action = "job_held" if isinstance(payload, JobHeld) else "job_released"
    publish = Publish("jobs.events", Event(f"{who}/1", who, NOW_US, "", payload))

    async def admitted() -> Publish:
        found = await gate.as_said_by(who, action, publish)
        await asyncio.gather(*await gate.admit(who, action, found))
        return found

    found = asyncio.run(admitted()).event.payload
    assert isinstance(found, JobHeld | JobReleased)
    holders = [found.holder] if isinstance(found, JobHeld) else list(found.holders)
    assert holders == said


def test_whoever_may_not_is_refused_whatever_it_leaves_out() -> None:
    table = TableInForce()
    binding = RoleBinding(who="bob", role=AUTHORITY_ROLE_USER)
    root = RoleBinding(who="root", role=AUTHORITY_ROLE_OPERATOR, sites=["*"], accounts=["*"])
    declared = AuthorityDeclared(version=1, bindings=[root, binding], declared_at_us=NOW_US)
    table.fold(Event("root/1", "root", NOW_US, "", declared))
    door = Door("ingest", table, Audit(), NoOpMeter("test"))
    gate = Gate(door, cast(Any, None), cast(Any, Region()))
    publish = Publish("jobs.events", Event("bob/1", "bob", NOW_US, "", JobHeld(job_id="north/1")))

    async def admitted() -> None:
        await gate.admit("bob", "job_held", await gate.as_said_by("bob", "job_held", publish))

    with pytest.raises(NotAllowedError, match="outside its scope"):
        asyncio.run(admitted())
