"""A region for tests: two clusters, eight applications, models, and the events of jobs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

import numpy as np
from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LicencesDeclared,
    LimitsDeclared,
    LimitSubject,
    ManagerAlive,
    NodesDrained,
    NodesResumed,
    PowerCapDeclared,
    PowerCapStep,
    PowerScope,
    ReservationDeclared,
    ReservationRemoved,
)
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureAt, SignatureUpdated
from coplace.v1.jobs_pb2 import (
    HOLDER_UNSPECIFIED,
    JOB_OUTCOME_COMPLETED,
    Dependency,
    DependencyCondition,
    Holder,
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobOutcome,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobsReordered,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.placement_pb2 import VERDICT_START, Candidate, PlacementDecided, Verdict
from coplace.v1.placement_service_pb2 import ExplainResponse
from coplace.v1.plans_pb2 import PlanItem, PlanProposed
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
)
from google.protobuf.message import Message

from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_declarations import declaration_of
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.models import degradation
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import Processor, Round
from tests.support.typed import untyped

M = TypeVar(
    "M",
    CoefficientsPublished,
    PowerModelPublished,
    PowerHistoryUpdated,
    DegradationModelPublished,
    NodePowerPublished,
)

T0_US = 1_767_225_600_000_000
APPS = tuple(f"app-{number}" for number in range(8))
MODELS = {"p1": "platinum-8168", "p2": "gold-6254"}
CORES = {"p1": 48, "p2": 36}
# What a node draws at most, and what is expected of a job of which nothing is known.
MOST_NODE_W = 333.0
PSTATES = {
    "p1": tuple(step / 10 for step in range(12, 28)),
    "p2": tuple(step / 10 for step in range(12, 32)),
}


def event(event_id: str, payload: Message, time_us: int = T0_US, traceparent: str = "") -> Event:
    return Event(event_id, "test", time_us, "region", payload, traceparent)


def declared(cluster: str, /, nodes: int = 512, time_us: int = T0_US, **changes: Any) -> Event:
    """A cluster, or one like it of another name."""
    values: dict[str, Any] = {
        "cluster": cluster,
        "site": "site",
        "node_model": MODELS[cluster],
        "nodes": nodes,
        "cores_per_node": CORES[cluster],
        "pstates_ghz": PSTATES[cluster],
        "idle_power_w": 100.0,
        "peak_bandwidth_gbps": 200.0,
        "nameplate_power_w": MOST_NODE_W,
    }
    payload = ClusterDeclared(**(values | changes))
    return event(f"declared/{payload.cluster}/{time_us}", payload, time_us)


def signature(app: int, cluster: str, time_us: int = T0_US, **changes: Any) -> Event:
    """App 0 uses no bandwidth, app 7 two thirds of it; p2 is slower, but not for app 7."""
    slower = 1.0 if cluster == "p1" else (0.8 if app == 7 else 1.2)
    values = {
        "freq_ghz": PSTATES[cluster][-1],
        "time_s": (50 + app) * slower,
        "power_w": 380.0 - 5 * app,
        "cpi": 0.4 + 0.5 * app,
        "tpi": 0.005 * app,
        "mem_gbps": 20.0 * app,
        "count": 1,
    }
    payload = SignatureUpdated(
        app_id=APPS[app],
        node_model=MODELS[cluster],
        tpi_scale="test",
        at=[SignatureAt(**(values | changes))],
    )
    return event(f"signature/{app}/{cluster}/{time_us}", payload, time_us)


def coefficients(cluster: str, sd: float | None = None) -> Event:
    """Power falls with the clock, cycles per instruction hold, of which a part is memory's.

    `sd` is the relative standard deviation of both at every other P-state.
    """
    ghz = np.array(PSTATES[cluster])
    ratio = ghz[np.newaxis, :] / ghz[:, np.newaxis]
    flat = {
        "a": 0.3 + 0.7 * ratio**2,
        "b": np.zeros_like(ratio),
        "c": np.zeros_like(ratio),
        "d": np.ones_like(ratio),
        "e": 100.0 * (ratio - 1) * 0.1,
        "f": np.zeros_like(ratio),
        "available": np.ones_like(ratio, dtype=np.bool_),
    }
    payload = CoefficientsPublished(
        node_model=MODELS[cluster],
        version=f"coefficients-{MODELS[cluster]}@0",
        tpi_scale="test",
        pstates_ghz=PSTATES[cluster],
        **{name: matrix.ravel().tolist() for name, matrix in flat.items()},
    )
    if sd is not None:
        others = (sd * (1 - np.eye(len(ghz)))).ravel().tolist()
        payload.time_sd.extend(others)
        payload.power_sd.extend(others)
    return event(f"coefficients/{cluster}", sealed(payload))


def power(**changes: Any) -> Event:
    values: dict[str, Any] = {
        "version": "power@0",
        "fallback_power_w": dict.fromkeys(MODELS.values(), MOST_NODE_W),
    }
    return event("power", sealed(PowerModelPublished(**(values | changes))))


def pair_model(weights: tuple[float, ...] = degradation.PRIOR_WEIGHTS) -> Event:
    payload = DegradationModelPublished(
        version="degradation@0", features=degradation.FEATURES, weights=weights
    )
    return event("degradation", sealed(payload))


def sealed(model: M) -> M:
    model.sha256 = model_sha256(model)
    return model


def models(nodes: int = 512) -> Iterator[Event]:
    """All that a region knows before its first job."""
    for cluster in MODELS:
        yield declared(cluster, nodes)
        yield coefficients(cluster)
        yield from (signature(app, cluster) for app in range(len(APPS)))
    yield power()
    yield pair_model()


def submitted(job_id: str, time_us: int = T0_US, traceparent: str = "", **changes: Any) -> Event:
    values: dict[str, Any] = {
        "job_id": job_id,
        "attempt": 1,
        "app_id": APPS[0],
        "user": "ada",
        "account": "physics",
        "nodes": 1,
        "walltime_s": 3600.0,
        "reference_cluster": "p1",
        "submitted_at_us": time_us,
    }
    payload = JobSubmitted(**(values | changes))
    return event(f"submitted/{job_id}/{payload.attempt}", payload, time_us, traceparent)


def started(decided: PlacementDecided, **changes: Any) -> Event:
    """The resource manager obeyed."""
    values: dict[str, Any] = {
        "job_id": decided.job_id,
        "attempt": decided.attempt,
        "cluster": decided.cluster,
        "nodes": [f"{decided.cluster}-{index:04d}" for index in decided.node_indices],
        "started_at_us": decided.decided_at_us,
        "grant": decided.grant,
    }
    payload = JobStarted(**(values | changes))
    return event(f"started/{decided.job_id}/{decided.attempt}", payload, payload.started_at_us)


def declined(decided: PlacementDecided, time_us: int = T0_US, **refused: Any) -> Event:
    """The resource manager gives a start back that it did not obey."""
    payload = JobDeclined(
        job_id=decided.job_id,
        attempt=decided.attempt,
        grant=decided.grant,
        declined_at_us=time_us,
        **refused,
    )
    return event(f"declined/{decided.job_id}/{decided.grant}", payload, time_us)


def done(decided: PlacementDecided, time_us: int) -> Event:
    """The resource manager did what it was asked to do to a job that runs."""
    payload = JobActionDone(
        job_id=decided.job_id,
        attempt=decided.attempt,
        grant=decided.grant,
        number=decided.action.number,
        done_at_us=time_us,
        freq_ghz=decided.action.freq_ghz,
    )
    return event(f"done/{decided.job_id}/{decided.action.number}/{time_us}", payload, time_us)


def refused(decided: PlacementDecided, time_us: int) -> Event:
    """It will not do that."""
    payload = JobActionRefused(
        job_id=decided.job_id,
        attempt=decided.attempt,
        grant=decided.grant,
        number=decided.action.number,
        reason="no frequency control",
        refused_at_us=time_us,
    )
    return event(f"refused/{decided.job_id}/{decided.action.number}", payload, time_us)


def suspended(job_id: str, time_us: int, reason: str = "maintenance") -> Event:
    payload = JobSuspended(job_id=job_id, reason=reason, suspended_at_us=time_us)
    return event(f"suspended/{job_id}/{time_us}", payload, time_us)


def unsuspended(job_id: str, time_us: int) -> Event:
    payload = JobResumed(job_id=job_id, resumed_at_us=time_us)
    return event(f"unsuspended/{job_id}/{time_us}", payload, time_us)


def seized(job_id: str, time_us: int, attempt: int = 1, grant: int = 0) -> Event:
    payload = JobSeized(
        job_id=job_id, attempt=attempt, grant=grant, reason="p1 burnt down", seized_at_us=time_us
    )
    return event(f"seized/{job_id}/{time_us}", payload, time_us)


def finished(
    job_id: str,
    time_us: int,
    attempt: int = 1,
    outcome: JobOutcome.ValueType = JOB_OUTCOME_COMPLETED,
    grant: int = 0,
    cluster: str = "",
    started_at_us: int = 0,
    **more: Any,
) -> Event:
    """Where no cluster is named, `feed` takes the one that holds the run."""
    payload = JobFinished(
        job_id=job_id,
        attempt=attempt,
        outcome=outcome,
        cluster=cluster,
        user="ada",
        account="physics",
        nodes=1,
        cores_per_node=1,
        submitted_at_us=min(T0_US, time_us),
        started_at_us=started_at_us,
        ended_at_us=time_us,
        grant=grant,
        **more,
    )
    return event(f"finished/{job_id}/{attempt}", payload, time_us)


def requeued(job_id: str, time_us: int, attempt: int = 2, **changes: Any) -> Event:
    payload = JobRequeued(job_id=job_id, attempt=attempt, requeued_at_us=time_us, **changes)
    return event(f"requeued/{job_id}/{attempt}", payload, time_us)


def requeue_asked(job_id: str, time_us: int, attempt: int = 1, reason: str = "why") -> Event:
    payload = JobRequeueAsked(job_id=job_id, attempt=attempt, reason=reason, asked_at_us=time_us)
    return event(f"requeue-asked/{job_id}/{time_us}", payload, time_us)


def cancelled(job_id: str, time_us: int, reason: str = "") -> Event:
    payload = JobCancelled(job_id=job_id, reason=reason, cancelled_at_us=time_us)
    return event(f"cancelled/{job_id}/{time_us}", payload, time_us)


def held(
    job_id: str,
    time_us: int,
    reason: str = "",
    holder: Holder.ValueType = HOLDER_UNSPECIFIED,
) -> Event:
    payload = JobHeld(job_id=job_id, reason=reason, held_at_us=time_us, holder=holder)
    return event(f"held/{job_id}/{time_us}", payload, time_us)


def prioritized(job_id: str, priority: int, time_us: int) -> Event:
    """Somebody gave a job another priority."""
    payload = JobPrioritized(job_id=job_id, priority=priority, prioritized_at_us=time_us)
    return event(f"prioritized/{job_id}/{time_us}", payload, time_us)


def reordered(
    time_us: int,
    priorities: Mapping[str, int],
    *clusters: str,
    manager: str = "slurm of north",
) -> Event:
    """The resource manager of these clusters, p1 without any, ordered its queue anew."""
    payload = JobsReordered(
        manager=manager,
        clusters=clusters or ("p1",),
        job_ids=priorities.keys(),
        manager_priorities=priorities.values(),
        reordered_at_us=time_us,
    )
    return event(f"reordered/{manager}/{time_us}", payload, time_us)


def released(job_id: str, time_us: int, *holders: Holder.ValueType) -> Event:
    payload = JobReleased(job_id=job_id, released_at_us=time_us, holders=holders)
    return event(f"released/{job_id}/{time_us}", payload, time_us)


def lost(cluster: str, time_us: int, reason: str = "") -> Event:
    payload = ClusterLost(cluster=cluster, reason=reason, lost_at_us=time_us)
    return event(f"lost/{cluster}/{time_us}", payload, time_us)


def returned(cluster: str, time_us: int) -> Event:
    payload = ClusterReturned(cluster=cluster, returned_at_us=time_us)
    return event(f"returned/{cluster}/{time_us}", payload, time_us)


def alive(
    time_us: int, *clusters: str, silent_after_s: float = 90.0, manager: str = "slurm of north"
) -> Event:
    """A resource manager says that it is there."""
    payload = ManagerAlive(
        manager=manager, clusters=clusters, silent_after_s=silent_after_s, alive_at_us=time_us
    )
    return event(f"alive/{manager}/{time_us}", payload, time_us)


def undeclared(cluster: str, time_us: int, why: str = "sold") -> Event:
    payload = ClusterUndeclared(cluster=cluster, reason=why, undeclared_at_us=time_us)
    return event(f"undeclared/{cluster}/{time_us}", payload, time_us)


def drained(cluster: str, time_us: int, *nodes: str, until_us: int = 0, why: str = "fan") -> Event:
    payload = NodesDrained(
        cluster=cluster, nodes=nodes, reason=why, until_us=until_us, drained_at_us=time_us
    )
    return event(f"drained/{cluster}/{time_us}", payload, time_us)


def resumed(cluster: str, time_us: int, *nodes: str) -> Event:
    payload = NodesResumed(cluster=cluster, nodes=nodes, resumed_at_us=time_us)
    return event(f"resumed/{cluster}/{time_us}", payload, time_us)


def reserved(
    name: str, from_s: float, until_s: float, time_us: int = T0_US, **changes: Any
) -> Event:
    """Nodes of p1 kept from a time until another, in seconds after T0."""
    whole: dict[str, Any] = {
        "cluster": "p1",
        "from_us": T0_US + round(from_s * 1e6),
        "until_us": T0_US + round(until_s * 1e6),
        "declared_at_us": time_us,
    }
    payload = ReservationDeclared(name=name, **(whole | changes))
    return event(f"reserved/{name}/{time_us}", payload, time_us)


def unreserved(name: str, time_us: int, cluster: str = "p1") -> Event:
    payload = ReservationRemoved(cluster=cluster, name=name, removed_at_us=time_us)
    return event(f"unreserved/{name}/{time_us}", payload, time_us)


def licences(
    name: str, count: int | None, place: str = "", time_us: int = T0_US, **changes: Any
) -> Event:
    """So many licences of a cluster, of the site, or of the region where no place is named."""
    scope = LICENCE_SCOPE_CLUSTER if place in MODELS else LICENCE_SCOPE_SITE
    whole: dict[str, Any] = {
        "scope": scope if place else LICENCE_SCOPE_REGION,
        "declared_at_us": time_us,
    }
    payload = LicencesDeclared(name=name, place=place, count=count, **(whole | changes))
    return event(f"licences/{place}/{name}/{time_us}", payload, time_us)


def limits(subject: LimitSubject.ValueType, name: str, time_us: int = T0_US, **most: Any) -> Event:
    payload = LimitsDeclared(subject=subject, name=name, **most)
    return event(f"limits/{name}/{payload.each}/{payload.site}/{time_us}", payload, time_us)


def capped(
    scope: PowerScope.ValueType,
    name: str,
    *steps: tuple[int, float | None],
    time_us: int = T0_US,
    reason: str = "",
) -> Event:
    """A cap from times on, in seconds after T0."""
    found = [PowerCapStep(from_us=T0_US + s * 1_000_000, watts=watts) for s, watts in steps]
    payload = PowerCapDeclared(
        scope=scope, name=name, steps=found, reason=reason, declared_at_us=time_us
    )
    return event(f"capped/{scope}/{name}/{time_us}", payload, time_us)


def policy(
    time_us: int = T0_US, reset: Collection[str] = (), reason: str = "", **settings: Any
) -> Event:
    """A declaration of settings, as they are written, and of those to reset."""
    values = {name: str(value) for name, value in settings.items()}
    payload = declaration_of(values, reset, reason, time_us)
    return event(f"policy/{time_us}", payload, time_us)


def item(job_id: str, cluster: str, /, **changes: Any) -> PlanItem:
    """A job as it may run there at the nominal P-state, for as long and with as much as need be."""
    values: dict[str, Any] = {
        "job_id": job_id,
        "attempt": 1,
        "cluster": cluster,
        "freq_ghz": PSTATES[cluster][-1],
        "walltime_s": 30 * 86_400.0,
        "draw_w": 1e9,
    }
    return PlanItem(**(values | changes))


def proposed(number: int, *items: PlanItem, valid_s: float = 3600.0, **changes: Any) -> Event:
    """A plan that was made after a round of `round_of`."""
    values: dict[str, Any] = {
        "round": number,
        "based_at_us": end_us(number),
        "valid_until_us": end_us(number) + round(valid_s * 1e6),
        "items": items,
    }
    payload = PlanProposed(**(values | changes))
    return event(f"planner/{payload.based_at_us}", payload, payload.based_at_us)


def after(condition: DependencyCondition.ValueType, *job_ids: str) -> list[Dependency]:
    return [Dependency(job_id=job_id, condition=condition) for job_id in job_ids]


def end_us(number: int) -> int:
    """When a round of `round_of` ends."""
    return T0_US + (number + 1) * 30_000_000


def placement(nodes: int = 4, policy: Policy = Policy.PRIORITY_INC_V, **rules: Any) -> Placement:
    """A region whose two clusters have so many nodes."""
    processor = Placement({}, PolicySettings(policy, **rules), 7.0)
    feed(processor, models(nodes))
    return processor


def feed(processor: Processor, events: Iterable[Event]) -> None:
    for one in events:
        assert list(processor.handle(of_holder(processor, one))) == []


def of_holder(processor: Processor, one: Event) -> Event:
    """An end that names no cluster is that of the resource manager which holds the run."""
    is_end = isinstance(one.payload, JobFinished | JobRequeued) and not one.payload.cluster
    if not is_end or not isinstance(processor, Placement):
        return one
    ended: Any = type(one.payload)()
    ended.CopyFrom(one.payload)
    known = processor.queries.answer(ended.job_id)
    ended.cluster = (known.allocation.cluster if known else "") or "p1"
    return replace(one, payload=ended)


def round_of(processor: Processor, number: int, *events: Event) -> list[PlacementDecided]:
    """What is decided at the end of a round of 30 s that brings these events: in types too what it
    says in words."""
    feed(processor, events)
    found = decisions(processor.end_round(Round(number, T0_US + (number + 1) * 30_000_000)))
    assert [problem for decided in found for problem in untyped(decided)] == []
    return found


def decisions(published: Iterable[Publish]) -> list[PlacementDecided]:
    """The payloads of what placement publishes."""
    return [p.event.payload for p in published if isinstance(p.event.payload, PlacementDecided)]


def starts(decided: Iterable[PlacementDecided]) -> list[str]:
    """The jobs that start."""
    return [each.job_id for each in decided if each.verdict == VERDICT_START]


Word = Literal[
    "start", "queued", "held", "withdrawn", "rejected", "cancelled", "action", "unspecified"
]


def verdict(decided: PlacementDecided) -> Word:
    """In a word what is decided."""
    return cast("Word", Verdict.Name(decided.verdict).removeprefix("VERDICT_").lower())


def verdicts(decided: Iterable[PlacementDecided]) -> list[tuple[str, Word]]:
    """Job by job."""
    return [(each.job_id, verdict(each)) for each in decided]


def answered(processor: Placement, job_id: str) -> ExplainResponse:
    """What is reported of a job that is known."""
    answer = processor.queries.answer(job_id)
    assert answer is not None
    return answer


def on(told: PlacementDecided | ExplainResponse, cluster: str) -> Candidate:
    """The choice of a job on a cluster."""
    weighed = told.candidates if isinstance(told, PlacementDecided) else told.clusters
    found = (each if isinstance(each, Candidate) else each.candidate for each in weighed)
    return next(each for each in found if each.cluster == cluster)


def saved(*changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The state after changes, one behind the other."""
    found = {key: value for each in changes for key, value in each.items()}
    return {key: value for key, value in found.items() if value is not None}


class Twins:
    """Two placements that get the same events, one of which is killed again and again."""

    def __init__(self, begin: Callable[[], Placement]) -> None:
        self.lived, self.killed = begin(), begin()
        self._rules, self._state = self.killed.layers.state.models.rules.now, dict[str, bytes]()

    def kill(self) -> None:
        self._state = saved(self._state, self.killed.changes())
        self.killed = Placement(self._state, self._rules, 7.0)

    def tell(self, *events: Event) -> None:
        feed(self.lived, events)
        feed(self.killed, events)

    def round_of(self, number: int, *events: Event) -> list[PlacementDecided]:
        """What both decide."""
        decided = round_of(self.lived, number, *events)
        assert round_of(self.killed, number, *events) == decided
        return decided


def committed_w(processor: Placement) -> float:
    """What counts under the cap of p1."""
    return next(s for s in processor.queries.power().standings if s.name == "p1").committed_w


def started_on(decided: Iterable[PlacementDecided]) -> dict[str, str]:
    """The cluster of each job that starts."""
    return {each.job_id: each.cluster for each in decided if each.verdict == VERDICT_START}
