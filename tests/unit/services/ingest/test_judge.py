"""Who may hand ingest something is judged by the table and the region as they are known."""

import pytest
from coplace.v1.authority_pb2 import AUTHORITY_ROLE_OPERATOR, AuthorityDeclared, RoleBinding
from coplace.v1.control_pb2 import NodesDrained
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.ingest.judge import DECLARE, Judge
from services.ingest.region import KnownRegion
from shared.authority.rules import About
from shared.authority.table import TableInForce
from shared.catalogue.event import Event, Publish
from tests.unit.services.ingest.envelopes import NOW_US

DAY_US = 86_400_000_000


def event_of(payload: Message, source: str = "root") -> Event:
    return Event(f"{source}/1", source, NOW_US, "", payload)


def table(version: int = 1, who: str = "root") -> AuthorityDeclared:
    binding = RoleBinding(who=who, role=AUTHORITY_ROLE_OPERATOR, sites=["*"], accounts=["*"])
    return AuthorityDeclared(version=version, bindings=[binding], declared_at_us=NOW_US)


@pytest.fixture
def in_force() -> TableInForce:
    return TableInForce()


@pytest.fixture
def judge(in_force: TableInForce) -> Judge:
    return Judge(in_force, KnownRegion(DAY_US, 32))


def test_a_first_table_is_declared_by_whoever_is_known_by_name(judge: Judge) -> None:
    publish = Publish("authority", event_of(table()))
    request, verdict = judge.judge("root", DECLARE, publish)
    assert (request.about, verdict.is_allowed) == (About(is_region=True), True)
    _, verdict = judge.judge("", DECLARE, publish)
    assert not verdict.is_allowed
    assert "nobody is known by name here" in verdict.reason


@pytest.mark.parametrize(
    ("declared", "field"),
    [(table(2), "authority_declared.version"), (table(who="a"), "authority_declared.bindings")],
)
def test_a_table_that_would_not_count_is_rejected(
    judge: Judge, declared: AuthorityDeclared, field: str
) -> None:
    with pytest.raises(RejectedError) as rejected:
        judge.judge("root", DECLARE, Publish("authority", event_of(declared)))
    assert rejected.value.field == field


def test_the_table_in_force_judges_what_an_event_is_about(
    judge: Judge, in_force: TableInForce
) -> None:
    in_force.fold(event_of(table()))
    drained = NodesDrained(cluster="alpha", drained_at_us=NOW_US)
    publish = Publish("commands", event_of(drained))
    request, verdict = judge.judge("root", "nodes_drained", publish)
    assert verdict.is_allowed
    assert [cluster.name for cluster in request.about.clusters] == ["alpha"]
    request, verdict = judge.judge("eve", "nodes_drained", publish)
    assert not verdict.is_allowed
    assert request.refusal(verdict.reason).startswith("'eve' may not nodes_drained cluster 'alpha'")
