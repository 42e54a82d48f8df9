"""What ingest knows of clusters and jobs, and what payloads name of it."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared, ClusterUndeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobLimitChanged,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_START, PlacementDecided
from coplace.v1.telemetry_pb2 import ShuttersMeasured
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
    found = KnownRegion(30 * _DAY_US, 2)
    told(found, ClusterDeclared(cluster="alpha", site="north", node_model="m0"))
    told(found, ClusterDeclared(cluster="sigma", site="south", node_model="m1"))
    told(found, JobSubmitted(job_id="south/1", user="bob", account="biology"))
    told(found, _start("south/1", "alpha"))
    return found


def _start(job_id: str, cluster: str, grant: int = 1, attempt: int = 1) -> PlacementDecided:
    return PlacementDecided(
        job_id=job_id, attempt=attempt, verdict=VERDICT_START, cluster=cluster, grant=grant
    )


def test_a_job_is_who_submitted_it_first(region: KnownRegion) -> None:
    told(region, JobSubmitted(job_id="south/1", attempt=2, user="eve", account="physics"))
    job = region.job("south/1")
    assert (job.user, job.account) == ("bob", "biology")
    assert job.held_on == (SitedCluster("alpha", "north"),)


def test_who_got_the_newest_grant_holds_the_job_until_it_declines(region: KnownRegion) -> None:
    queued = PlacementDecided(job_id="south/1", verdict=VERDICT_QUEUED, cluster="sigma")
    told(region, queued)
    assert [each.name for each in region.job("south/1").held_on] == ["alpha"]
    told(region, _start("south/1", "sigma", grant=2))
    assert [each.name for each in region.job("south/1").held_on] == ["sigma"]
    told(region, JobDeclined(job_id="south/1", attempt=1, grant=2))
    assert [each.name for each in region.job("south/1").held_on] == ["alpha"]
    assert region.job("south/1").newest_grant == 2


def test_jobs_are_forgotten_in_time_and_clusters_never(region: KnownRegion) -> None:
    told(region, JobSubmitted(job_id="n", user="a", account="b"), _NOW_US + 31 * _DAY_US)
    assert region.job("south/1").runs == ()
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


ADA = [Binding("ada", Role.USER, accounts=("physics",), jobs=("north/portal/*",))]
NORTH_MANAGER = [Binding("north", Role.RESOURCE_MANAGER, sites=("north",), accounts=("north-*",))]
SOUTH_MANAGER = [Binding("south", Role.RESOURCE_MANAGER, sites=("south",), accounts=("south-*",))]
OF_PORTAL, LENT, DECLINED = "north/portal/1", "north/alpha/2", "south/sigma/3"


@pytest.fixture
def busy() -> KnownRegion:
    """Ada's job of the portal runs on alpha, one of north on sigma, and one of south that north
    declined on sigma too."""
    found = KnownRegion(30 * _DAY_US, 2)
    told(found, ClusterDeclared(cluster="alpha", site="north", node_model="m0"))
    told(found, ClusterDeclared(cluster="sigma", site="south", node_model="m1"))
    for job_id, user, account in (
        (OF_PORTAL, "ada", "physics"),
        (LENT, "ann", "north-x"),
        (DECLINED, "sue", "south-y"),
    ):
        told(found, JobSubmitted(job_id=job_id, attempt=1, user=user, account=account))
    told(found, _start(OF_PORTAL, "alpha"))
    told(found, _start(LENT, "sigma"))
    told(found, _start(DECLINED, "alpha"))
    told(found, JobDeclined(job_id=DECLINED, attempt=1, grant=1))
    told(found, _start(DECLINED, "sigma", grant=2))
    return found


def may(who: list[Binding], kind: str, payload: Message, region: KnownRegion) -> bool:
    return judged(who, kind, about_of(payload, region)).is_allowed


def submission(job_id: str, user: str, **of: Any) -> JobSubmitted:
    return JobSubmitted(
        job_id=job_id,
        user=user,
        account="physics",
        reference_cluster="alpha",
        **{"attempt": 1, **of},
    )


def finish(job_id: str, cluster: str, grant: int, *, started_at_us: int = 1) -> JobFinished:
    user, account = {LENT: ("ann", "north-x"), DECLINED: ("sue", "south-y")}[job_id]
    return JobFinished(
        job_id=job_id,
        attempt=1,
        cluster=cluster,
        user=user,
        account=account,
        grant=grant,
        started_at_us=started_at_us,
    )


def test_a_user_submits_a_first_attempt_without_priority_and_of_nobody_else(
    busy: KnownRegion,
) -> None:
    new = "north/portal/9"
    assert may(ADA, "job_submitted", submission(new, "ada"), busy)
    assert may(ADA, "job_submitted", submission(new, "ada", priority=-5), busy)
    assert not may(ADA, "job_submitted", submission(new, "ada", priority=1), busy)
    assert not may(ADA, "job_submitted", submission(OF_PORTAL, "ada", attempt=2), busy)
    assert may(ADA, "job_submitted", submission(OF_PORTAL, "ada"), busy)


def test_a_user_of_a_portal_submits_no_attempt_of_anothers_job(busy: KnownRegion) -> None:
    ben = [Binding("ben", Role.USER, accounts=("physics",), jobs=("north/portal/*",))]
    assert not may(ben, "job_submitted", submission(OF_PORTAL, "ben"), busy)
    assert not may(ben, "job_cancelled", JobCancelled(job_id=OF_PORTAL), busy)


@pytest.mark.parametrize("grant", [0, 1])
def test_the_owner_of_a_job_says_nothing_of_its_run_at_another_site(
    busy: KnownRegion, grant: int
) -> None:
    facts: dict[str, Message] = {
        "job_requeued": JobRequeued(job_id=LENT, attempt=2, grant=grant),
        "job_started": JobStarted(job_id=LENT, attempt=1, cluster="alpha", grant=grant),
        "job_finished": finish(LENT, "alpha", grant),
        "job_declined": JobDeclined(job_id=LENT, attempt=1, grant=grant),
        "job_action_done": JobActionDone(job_id=LENT, attempt=1, grant=grant),
        "job_limit_changed": JobLimitChanged(job_id=LENT, attempt=1, grant=grant),
    }
    assert not [kind for kind, fact in facts.items() if may(NORTH_MANAGER, kind, fact, busy)]
    assert may(NORTH_MANAGER, "job_cancelled", JobCancelled(job_id=LENT), busy)
    of_holder = JobRequeued(job_id=LENT, attempt=2, cluster="sigma", grant=grant)
    assert may(SOUTH_MANAGER, "job_requeued", of_holder, busy)


@pytest.mark.parametrize("grant", [0, 1, 2, 3])
def test_a_site_that_declined_reports_no_end_of_the_run_that_goes_on_elsewhere(
    busy: KnownRegion, grant: int
) -> None:
    assert not may(NORTH_MANAGER, "job_finished", finish(DECLINED, "alpha", grant), busy)
    is_holders = may(SOUTH_MANAGER, "job_finished", finish(DECLINED, "sigma", grant), busy)
    assert is_holders == (grant in (0, 2))


def test_a_job_that_left_the_queue_of_its_owner_is_reported_though_another_site_has_it(
    busy: KnownRegion,
) -> None:
    left = finish(LENT, "alpha", 0, started_at_us=0)
    assert may(NORTH_MANAGER, "job_finished", left, busy)


@pytest.mark.parametrize("attempt", [2, 3])
def test_nobody_but_the_holder_begins_another_attempt(busy: KnownRegion, attempt: int) -> None:
    """As of the owner of the job, of an attempt that nobody has heard of."""
    later = finish(LENT, "alpha", 0)
    later.attempt = attempt
    assert not may(NORTH_MANAGER, "job_finished", later, busy)
    requeue = JobRequeued(job_id=LENT, attempt=attempt + 1)
    assert not may(NORTH_MANAGER, "job_requeued", requeue, busy)
    assert may(SOUTH_MANAGER, "job_requeued", requeue, busy)


def test_a_grant_of_one_attempt_gives_no_right_to_another(busy: KnownRegion) -> None:
    stale = finish(DECLINED, "sigma", 2)
    stale.attempt = 2
    assert not may(SOUTH_MANAGER, "job_finished", stale, busy)


def test_a_decline_may_be_said_again(busy: KnownRegion) -> None:
    again = JobDeclined(job_id=DECLINED, attempt=1, grant=1)
    assert may(NORTH_MANAGER, "job_declined", again, busy)
    assert not may(SOUTH_MANAGER, "job_declined", again, busy)


def test_a_run_that_nobody_granted_is_held_where_it_is(busy: KnownRegion) -> None:
    by_hand = "north/alpha/7"
    started = JobStarted(job_id=by_hand, attempt=1, cluster="alpha")
    assert may(NORTH_MANAGER, "job_started", started, busy)
    assert not may(SOUTH_MANAGER, "job_started", started, busy)
    told(busy, started)
    requeue = JobRequeued(job_id=by_hand, attempt=2, cluster="alpha")
    assert may(NORTH_MANAGER, "job_requeued", requeue, busy)
    requeue.cluster = "sigma"
    assert not may(SOUTH_MANAGER, "job_requeued", requeue, busy)


def test_an_agent_names_no_co_runner_of_another_site(busy: KnownRegion) -> None:
    agents = [Binding("a", Role.AGENT, sites=("north",))]
    for beside, allowed in ((LENT, False), (OF_PORTAL, True)):
        pair = ShuttersMeasured(job_id=OF_PORTAL, attempt=1, co_runner_job_id=beside)
        assert may(agents, "shutters_measured", pair, busy) == allowed


def test_a_site_declares_as_many_clusters_as_the_region_lets_it(busy: KnownRegion) -> None:
    def another(name: str) -> ClusterDeclared:
        return ClusterDeclared(cluster=name, site="north")

    operator = [Binding("op", Role.OPERATOR, sites=("*",))]
    of_north = [Binding("n", Role.OPERATOR, sites=("north",)), *NORTH_MANAGER]
    assert may(of_north, "cluster_declared", another("beta"), busy)
    told(busy, another("beta"))
    assert not may(of_north, "cluster_declared", another("gamma"), busy)
    assert may(of_north, "cluster_declared", another("alpha"), busy)
    assert may(operator, "cluster_declared", another("gamma"), busy)
    told(busy, ClusterUndeclared(cluster="beta"))
    assert may(of_north, "cluster_declared", another("gamma"), busy)
