"""What ingest knows of clusters and jobs, and what payloads name of it."""

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_START, PlacementDecided
from google.protobuf.message import Message

from services.ingest.payloads import KINDS
from services.ingest.region import FOLDED, KnownRegion
from shared.authority.binding import Binding, Role, SitedCluster
from shared.authority.naming import about_of
from shared.authority.rules import RULES, About, judged
from shared.catalogue.event import Event
from shared.catalogue.topics import load_topics

_DAY_US = 86_400_000_000
_NOW_US = 1_767_225_600_000_000


def told(region: KnownRegion, payload: Message, time_us: int = _NOW_US) -> None:
    region.fold(Event("id", "source", time_us, "key", payload))


@pytest.fixture
def region() -> KnownRegion:
    """Site north has alpha; job south/1 is bob's, and was granted to alpha."""
    found = KnownRegion(30 * _DAY_US)
    told(found, ClusterDeclared(cluster="alpha", site="north", node_model="m0"))
    told(found, ClusterDeclared(cluster="sigma", site="south", node_model="m1"))
    told(found, JobSubmitted(job_id="south/1", user="bob", account="biology"))
    told(found, PlacementDecided(job_id="south/1", verdict=VERDICT_START, cluster="alpha"))
    return found


def test_a_job_is_who_submitted_it_first(region: KnownRegion) -> None:
    told(region, JobSubmitted(job_id="south/1", attempt=2, user="eve", account="physics"))
    job = region.job("south/1")
    assert (job.user, job.account) == ("bob", "biology")
    assert job.granted == (SitedCluster("alpha", "north"),)


def test_every_start_is_a_grant_and_nothing_else_is(region: KnownRegion) -> None:
    told(region, PlacementDecided(job_id="south/1", verdict=VERDICT_QUEUED, cluster="sigma"))
    assert [each.name for each in region.job("south/1").granted] == ["alpha"]
    told(region, PlacementDecided(job_id="south/1", verdict=VERDICT_START, cluster="sigma"))
    assert [each.name for each in region.job("south/1").granted] == ["alpha", "sigma"]


def test_jobs_are_forgotten_in_time_and_clusters_never(region: KnownRegion) -> None:
    told(region, JobSubmitted(job_id="n", user="a", account="b"), _NOW_US + 31 * _DAY_US)
    assert region.job("south/1").granted == ()
    assert region.cluster("alpha").site == "north"


def test_topics_hold_what_is_folded() -> None:
    for topic, kinds in FOLDED.items():
        assert set(kinds) <= set(load_topics()[topic].messages)


def test_a_new_name_of_a_cluster_is_of_the_site_that_declares_it(region: KnownRegion) -> None:
    new = about_of(ClusterDeclared(cluster="new", site="north"), region)
    taken = about_of(ClusterDeclared(cluster="sigma", site="north"), region)
    north = [Binding("north", Role.RESOURCE_MANAGER, sites=("north",))]
    assert judged(north, "cluster_declared", new).is_allowed
    assert not judged(north, "cluster_declared", taken).is_allowed


# Fields of payloads by which something of somebody's is named, and what they may hold.
_NAMING = {
    "cluster": "sigma",
    "reference_cluster": "sigma",
    "site": "south",
    "account": "biology",
    "user": "bob",
    "job_id": "south/2",
}
NORTH = [
    Binding("n", Role.RESOURCE_MANAGER, sites=("north",), accounts=("physics",)),
    Binding("n", Role.OPERATOR, sites=("north",), accounts=("physics",), users=("ada",)),
    Binding("n", Role.AGENT, sites=("north",)),
]
_OWN = {
    "cluster": "alpha",
    "reference_cluster": "alpha",
    "site": "north",
    "account": "physics",
    "user": "ada",
    "job_id": "north/1",
    "node_model": "m0",
}


def own(kind: str) -> Message:
    """A payload that names things of north."""
    payload: Message = getattr(Envelope(), kind)
    for name, value in _OWN.items():
        if name in payload.DESCRIPTOR.fields_by_name:
            setattr(payload, name, value)
    return payload


NAMED = [
    (kind, name)
    for kind in KINDS
    for name in _NAMING
    if name in getattr(Envelope(), kind).DESCRIPTOR.fields_by_name
]


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_no_field_names_a_thing_of_others_unasked(
    region: KnownRegion, kind: str, name: str
) -> None:
    """Of each payload that is right one field after the other is the neighbour's."""
    payload = own(kind)
    assert judged(NORTH, kind, about_of(payload, region)).is_allowed
    setattr(payload, name, _NAMING[name])
    is_allowed = judged(NORTH, kind, about_of(payload, region)).is_allowed
    # A resource manager submits for any user of its accounts, and says who ran its own job.
    assert is_allowed == (name == "user" and kind in ("job_submitted", "job_finished"))


def test_each_rule_that_asks_of_a_thing_is_asked_of_it(region: KnownRegion) -> None:
    """A payload that is about a job or a cluster is never taken to be about nothing."""
    for kind in KINDS:
        about = about_of(own(kind), region)
        fields = getattr(Envelope(), kind).DESCRIPTOR.fields_by_name
        assert kind in RULES
        assert bool(about.clusters) == bool({"cluster", "reference_cluster"} & set(fields))
        assert (about.job is not None) == ("job_id" in fields)
    assert about_of(own("policy_declared"), region) == About()
