"""What a report knows of a run is read from its topics."""

from collections.abc import Iterable

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JobActionDone,
    JobFinished,
    JobOutcome,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    Action,
    ActionKind,
    PlacementDecided,
)
from google.protobuf.message import Message

from lab.demo.history import History
from lab.demo.summary import action_figures
from shared.catalogue.event import Event


def declared(time_us: int, cluster: str, nodes: int) -> Event:
    message = ClusterDeclared(cluster=cluster, nodes=nodes)
    return Event(f"north/{cluster}/{time_us}", "north", time_us, cluster, message)


def said(message: Message, event_id: str) -> Event:
    return Event(event_id, "north", 0, "", message)


def asked(job: str, kind: ActionKind.ValueType) -> Event:
    action = Action(kind=kind, number=1)
    message = PlacementDecided(job_id=job, attempt=1, verdict=VERDICT_ACTION, action=action)
    return said(message, f"asked/{job}")


def ended(job: str, outcome: JobOutcome.ValueType) -> Event:
    message = JobFinished(job_id=job, attempt=1, outcome=outcome, ended_at_us=7)
    return said(message, f"ended/{job}")


def test_an_end_that_was_asked_for_is_done_by_the_finish_of_its_run() -> None:
    """Job late had completed by then, and job stopped is known by its manager's event."""
    stopped = JobActionDone(job_id="stopped", attempt=1, number=1, done_at_us=5)
    topics = {
        "jobs.events": [
            *(said(JobSubmitted(job_id=job), job) for job in ("ended", "late", "stopped")),
            ended("ended", JOB_OUTCOME_CANCELLED),
            ended("late", JOB_OUTCOME_COMPLETED),
            ended("stopped", JOB_OUTCOME_COMPLETED),
            said(stopped, "done/stopped"),
        ],
        "placement.decisions": [
            asked("ended", ACTION_KIND_END),
            asked("late", ACTION_KIND_END),
            asked("stopped", ACTION_KIND_SUSPEND),
        ],
    }
    history = History.read(lambda name: topics.get(name, []))
    found = [(decided.job_id, at_us) for decided, at_us in history.done_actions()]
    assert sorted(found) == [("ended", 7), ("stopped", 5)]
    assert action_figures(history).done == 2


def test_a_cluster_that_was_declared_again_is_there_once_as_declared_last() -> None:
    told = [declared(3, "p1", 48), declared(1, "p2", 8), declared(2, "p1", 64)]

    def topic(name: str) -> Iterable[Event]:
        return told if name == "commands" else []

    found = [(each.cluster, each.nodes) for each in History.read(topic).clusters]
    assert found == [("p1", 48), ("p2", 8)]
