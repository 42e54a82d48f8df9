"""Each fact is published once, and it is said which of them ingest refuses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import grpc
import pytest
from coplace.v1.control_pb2 import ClusterDeclared, Partition
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import HOLDER_MANAGER
from coplace.v1.placement_service_pb2 import ListedJob
from structlog.testing import capture_logs

from coplace_client.calls import UnansweredError
from services.slurm.adapters import publisher as publisher_module
from services.slurm.adapters.publisher import ShownState, SlurmPublisher
from services.slurm.adapters.runs import RunsSeen
from services.slurm.model.facts import facts_of
from services.slurm.model.jobs import SlurmJob
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, TERMS, PlayedRegion, unanswered

# What no Slurm should show: each would be a job.
ODD: list[Any] = [
    {},
    {"job_id": 3},
    {**JOB, "job_id": 4, "submit_time": "today"},
    {**JOB, "job_id": 5, "submit_time": -1},
    {**JOB, **RUNS, "job_id": 6, "nodes": "n[1-"},
    {**JOB, "job_id": 7, "het_job_id": {"number": "x"}, "job_state": []},
]


class Refusing(PlayedRegion):
    """Refuses a call of many where one of them is of job 18, as ingest does for what is too big."""

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        if any("/18/" in event.id for event in events):
            raise unanswered(grpc.StatusCode.INVALID_ARGUMENT, "big")
        return super().publish_all(events)


class Away(PlayedRegion):
    """Does not answer while it is away."""

    is_away = False

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        if self.is_away:
            raise unanswered(grpc.StatusCode.UNAVAILABLE, "away")
        return super().publish_all(events)


class RefusingTheLast(PlayedRegion):
    """Refuses the last of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        self.calls.append([str(event.WhichOneof("payload")) for event in events])
        return {len(events) - 1: "it is bad"}


def problems(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    """What was noted."""
    return [each["problem"] for each in logs if each["log_level"] == "warning"]


def test_what_is_new_is_reported_and_what_is_refused_is_noted_by_its_id() -> None:
    region = RefusingTheLast()
    publisher = SlurmPublisher(region, TERMS)
    with capture_logs() as logs:
        found = [publisher.tell([SlurmJob(of)]) for of in (JOB, JOB, {**JOB, **RUNS})]
    assert found == [True, False, True]
    assert region.calls == [["job_submitted"], ["job_started"]]
    noted = problems(logs)
    assert len(noted) == 2
    assert "ingest refused north/coplace.v1.JobStarted/north/alpha/17/" in noted[1]
    assert noted[1].endswith(": it is bad")


def test_a_job_that_fails_is_set_aside_and_noted_once() -> None:
    region = Refusing()
    publisher = SlurmPublisher(region, TERMS)
    honest = [{**JOB, "job_id": number} for number in (16, 17, 18, 19)]
    with capture_logs() as logs:
        for _ in range(3):
            publisher.tell([SlurmJob(fields) for fields in [*ODD, *honest]])
    told = [event.job_submitted.job_id.split("/")[2] for event in region.told]
    assert [each for each in told if each in {"16", "17", "19"}] == ["16", "17", "19"]
    noted = problems(logs)
    assert len(noted) == len(set(noted))
    assert [line for line in noted if "job 6 " in line and "nodes" in line]
    assert [line for line in noted if "/18/" in line and "big" in line]
    assert publisher.states[ShownState.WAITS] == 5
    assert publisher.states[ShownState.ASIDE] == 5


def test_a_requeue_ends_the_run_before_which_is_charged() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    word = {"admin_comment": f"coplace grant=2 started freq_ghz=2.1 submit={SUBMIT_S}"}
    again = {**JOB, **word, "submit_time": SUBMIT_S + 62}
    for fields in ({**JOB, **RUNS, **word}, again, again, {**again, **RUNS, **word}):
        publisher.tell([SlurmJob(fields)])
    assert [event.WhichOneof("payload") for event in region.told] == [
        *("job_submitted", "job_started", "job_finished", "job_submitted", "job_started")
    ]
    ended, anew = region.told[2].job_finished, region.told[4].job_started
    assert (ended.job_id, ended.grant) == (region.told[1].job_started.job_id, 2)
    assert ended.ended_at_us - ended.started_at_us == 60_000_000
    assert (anew.job_id, anew.grant) == (region.told[3].job_submitted.job_id, 0)


def test_a_changed_limit_of_a_run_is_said_again_until_that_was_heard() -> None:
    region = Away()
    publisher = SlurmPublisher(region, TERMS)
    publisher.tell([SlurmJob({**JOB, **RUNS})])
    longer = SlurmJob({**JOB, **RUNS, "time_limit": 60, "end_time": SUBMIT_S + 3_602})
    region.is_away = True
    with pytest.raises(UnansweredError):
        publisher.tell([longer])
    region.is_away = False
    assert [publisher.tell([longer]), publisher.tell([longer])] == [True, False]
    assert [event.WhichOneof("payload") for event in region.told] == [
        *("job_submitted", "job_started", "job_limit_changed")
    ]
    assert region.told[-1].job_limit_changed.ends_by_us == (SUBMIT_S + 3_602) * 1_000_000


def test_partitions_are_declared_anew_and_nodes_in_other_places_are_noted_once() -> None:
    """What runs is known by the places of its nodes."""
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    first = ClusterDeclared(cluster="alpha", node_names=["n1", "n2"])
    down = ClusterDeclared(
        cluster="alpha", node_names=["n1", "n2"], partitions=[Partition(name="all", down=True)]
    )
    moved = ClusterDeclared(cluster="alpha", node_names=["n2", "n1"])
    with capture_logs() as logs:
        for found in (first, first, down, moved, moved, first):
            publisher.declare([found])
    assert [event.cluster_declared for event in region.told] == [first, down, first]
    [noted] = problems(logs)
    assert "restart this process when the cluster is idle" in noted


def test_a_run_is_on_the_cluster_that_its_nodes_are_of() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    big = Partition(name="big", nodes=["n[3-4]"])
    publisher.declare(
        [
            ClusterDeclared(cluster="gold", node_names=["n[1-2]"], node_model="gold-6254"),
            ClusterDeclared(
                cluster="rome", node_names=["n[3-4]"], node_model="rome-7742", partitions=[big]
            ),
        ]
    )
    ended = {**JOB, **RUNS, "nodes": "n3", "job_state": "COMPLETED", "partition": "big"}
    publisher.tell([SlurmJob(JOB), SlurmJob({**ended, "job_id": 18})])
    waits, asked, ran = (
        *(event.job_submitted for event in region.told[2:4]),
        region.told[4].job_finished,
    )
    assert (waits.reference_cluster, waits.home_cluster) == ("gold", "gold")
    assert asked.reference_cluster == "rome"
    assert (ran.cluster, ran.node_model) == ("rome", "rome-7742")


def test_an_array_is_submitted_once_and_its_tasks_start_and_end() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    waits = {**JOB, "array_job_id": 17, "array_task_string": "1-2", "array_max_tasks": 1}
    word = f"coplace grant=1 started freq_ghz=2.1 submit={SUBMIT_S}"
    task = {**JOB, "job_id": 18, "array_job_id": 17, "array_task_id": 1, "admin_comment": word}
    last = {**task, "job_id": 17, "array_task_id": 2, "admin_comment": ""}
    runs = {**task, **RUNS, "admin_comment": word}
    looks = [
        [waits],
        [waits, task],
        [{**waits, "array_task_string": "2"}, runs],
        [last, {**runs, "job_state": "COMPLETED"}],
        [{**last, **RUNS, "admin_comment": ""}],
    ]
    for look in looks:
        publisher.tell(map(SlurmJob, look))
    kinds = [str(event.WhichOneof("payload")) for event in region.told]
    told = [
        (kind, getattr(event, kind).job_id) for kind, event in zip(kinds, region.told, strict=True)
    ]
    array = f"north/alpha/17/{SUBMIT_S}"
    assert told == [
        ("job_submitted", array),
        ("job_started", f"{array}_1"),
        ("job_finished", f"{array}_1"),
        ("job_started", f"{array}_2"),
    ]
    assert region.told[0].job_submitted.array == "1-2"


def test_a_job_that_its_user_held_is_held_until_he_lets_it_in() -> None:
    region = PlayedRegion()
    held = {**JOB, "comment": "app_id=lu.C coplace held by its user"}
    publisher = SlurmPublisher(region, TERMS)
    publisher.tell([SlurmJob(held)])
    submitted, order = region.told
    assert submitted.job_submitted.held_because.startswith("held by its user")
    assert submitted.job_submitted.app_id == "lu.C"
    assert order.job_held.job_id == submitted.job_submitted.job_id
    publisher.tell([SlurmJob(held)])
    publisher.tell([SlurmJob(JOB)])
    [_, _, released] = region.told
    assert released.job_released.job_id == submitted.job_submitted.job_id


def test_a_changed_job_is_submitted_anew_and_one_whose_change_can_t_be_followed_is_held() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    first = {**JOB, "time_limit": 5}
    for shown in (first, {**first, "time_limit": 9}, {**first, "licenses": "a|b"}):
        publisher.tell([SlurmJob(shown)])
    before, after, held = region.told
    assert before.job_submitted.walltime_s == 300
    assert after.job_submitted.walltime_s == 540
    assert after.job_submitted.job_id == before.job_submitted.job_id
    assert 0 < after.job_submitted.changed_at_us == publisher.changed_at_us(held.job_held.job_id)
    assert "licenses" in held.job_held.reason


def test_a_changed_array_is_submitted_as_of_then_and_so_is_a_task_that_was_changed_alone() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    array = {**JOB, "array_job_id": JOB["job_id"], "array_task_string": "1-2", "time_limit": 5}
    fewer = {**array, "array_max_tasks": 1}
    publisher.tell([SlurmJob(array)])
    publisher.tell([SlurmJob(fewer)])
    task = {**fewer, "job_id": 18, "array_task_string": "", "array_task_id": 1, "time_limit": 9}
    rest = {**fewer, "array_task_string": "2"}
    publisher.tell([SlurmJob(task), SlurmJob(rest)])
    assert not publisher.tell([SlurmJob(task), SlurmJob(rest)])
    before, throttled, alone = (event.job_submitted for event in region.told)
    assert (before.array_at_most, throttled.array_at_most) == (0, 1)
    assert before.changed_at_us < throttled.changed_at_us < alone.changed_at_us
    assert (alone.job_id, alone.walltime_s) == (f"{before.job_id}_1", 540)
    assert publisher.changed_at_us(alone.job_id) == alone.changed_at_us
    assert publisher.changed_at_us(f"{before.job_id}_2") == throttled.changed_at_us


def test_a_task_that_is_shown_by_itself_since_it_was_released_was_not_changed() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    array = {**JOB, "array_job_id": JOB["job_id"], "array_task_string": "1-2"}
    behind = {"dependency": "aftercorr:9_*", "required_nodes": ""}
    publisher.tell([SlurmJob({**array, **behind})])
    kept = f"limit=5 requeue=1 sizes=1-1 submit={SUBMIT_S}"
    released = {
        "job_id": 18,
        "array_task_string": "",
        "array_task_id": 1,
        "admin_comment": f"coplace grant=1 released freq_ghz=2.1 {kept}",
        "dependency": "aftercorr:9_1",
        "required_nodes": "n2",
        "time_limit": 9,
    }
    rest = {**array, **behind, "array_task_string": "2"}
    publisher.tell([SlurmJob({**array, **released}), SlurmJob(rest)])
    assert [event.WhichOneof("payload") for event in region.told] == ["job_submitted"]


def test_a_job_that_coplace_can_t_follow_is_not_let_in_by_a_release_of_its_user() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    bad = {**JOB, "licenses": "a|b"}
    publisher.tell([SlurmJob({**bad, "comment": "coplace held by its user"})])
    publisher.tell([SlurmJob(bad)])
    [event] = region.told
    assert "can't follow" in event.job_submitted.held_because


@pytest.mark.parametrize("is_away", [False, True])
def test_a_job_that_its_user_makes_one_that_can_be_followed_is_let_in_as_it_is_now(
    is_away: bool,
) -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    publisher.tell([SlurmJob({**JOB, "licenses": "a|b"})])
    [held] = region.told
    if is_away:
        of = held.job_submitted
        known = ListedJob(job_id=of.job_id, reason=f"held: {of.held_because}")
        publisher = SlurmPublisher(region, TERMS, RunsSeen(SITE, lambda: [known]))
    for _ in range(2):
        publisher.tell([SlurmJob({**JOB, "licenses": "a"})])
    *_, released, changed = region.told
    assert list(released.job_released.holders) == [HOLDER_MANAGER]
    assert changed.job_submitted.licences == {"a": 1}
    assert changed.job_submitted.changed_at_us


def test_an_order_that_was_not_taken_is_published_again() -> None:
    region = Away()
    publisher = SlurmPublisher(region, TERMS)
    publisher.tell([SlurmJob(JOB)])
    region.is_away = True
    held = {**JOB, "comment": "coplace held by its user"}
    with pytest.raises(UnansweredError):
        publisher.tell([SlurmJob(held)])
    region.is_away = False
    publisher.tell([SlurmJob(held)])
    assert [event.WhichOneof("payload") for event in region.told] == ["job_submitted", "job_held"]


def test_a_job_that_waits_as_before_is_not_made_anew_unless_its_nodes_are_others() -> None:
    region, made = PlayedRegion(), []
    publisher = SlurmPublisher(region, TERMS)

    def counted(job: SlurmJob, *more: Any) -> Any:
        made.append(job.job_id)
        return facts_of(job, *more)

    alpha = ClusterDeclared(cluster="alpha", node_names=["n1"])
    nodes = [{"name": "n1", "cpus": 4, "partitions": ["all"]}]
    waits = {**JOB, "partition": "all"}
    awaits = {**waits, "job_id": 18, "dependency": "singleton"}
    with patch.object(publisher_module, "facts_of", counted):
        publisher.declare([alpha], nodes)
        for _ in range(4):
            publisher.tell([SlurmJob(waits), SlurmJob(awaits)])
        assert made == [17, 18, 17, 18, 18, 18]
        publisher.declare([alpha], nodes)
        publisher.tell([SlurmJob(waits)])
        assert len(made) == 6
        publisher.declare([alpha], [{**nodes[0], "cpus": 8}])
        publisher.tell([SlurmJob(waits)])
        publisher.tell([SlurmJob({**waits, "time_limit": 9})])
        assert made[6:] == [17, 17]
    submitted = [event.job_submitted for event in region.told if event.HasField("job_submitted")]
    assert [each.walltime_s for each in submitted] == [300, 300, 540]


def test_a_job_that_ended_and_was_published_is_not_made_anew() -> None:
    region, made = Away(), []
    publisher = SlurmPublisher(region, TERMS)

    def counted(job: SlurmJob, *more: Any) -> Any:
        made.append(job.job_id)
        return facts_of(job, *more)

    ended = {**JOB, **RUNS, "job_state": "COMPLETED"}
    with patch.object(publisher_module, "facts_of", counted):
        region.is_away = True
        with pytest.raises(UnansweredError):
            publisher.tell([SlurmJob(ended)])
        region.is_away = False
        for _ in range(3):
            publisher.tell([SlurmJob(ended), SlurmJob({**JOB, "job_id": 18})])
        publisher.tell([])
        publisher.tell([SlurmJob(ended)])
    assert made == [17, 17, 18, 18, 17]
    payloads = [event.WhichOneof("payload") for event in region.told]
    whole = ["job_submitted", "job_finished"]
    assert payloads == [*whole, "job_submitted", *whole]
