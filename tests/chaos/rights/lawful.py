"""What users, sites, agents and operators do within their rights. To add a kind, write a function
of the region and give it a weight in LAWFUL."""

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared, NodesDrained, NodesResumed
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    Dependency,
    JobCancelled,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.tariffs_pb2 import (
    PAYER_OPERATOR,
    PRICE_MODEL_FAIR,
    TariffDeclared,
    TariffRate,
)
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples, Shutter, ShuttersMeasured

from shared.domain.node import node_name
from tests.chaos.clock import DAY_US, HOUR_US, SECOND_US, some_time_us
from tests.chaos.journal import Run
from tests.chaos.rights.cast import CLUSTERS, OPERATOR, SITES, USERS, User, accounts_of, agents_of
from tests.chaos.rights.region import Region

CORES: Final = 36
MODEL: Final = "gold"
_APPS: Final = ("app-0", "app-1", "app-2")
_CONDITIONS: Final = (DEPENDENCY_CONDITION_AFTER_OK, DEPENDENCY_CONDITION_AFTER_ANY)
RECENT: Final = 40


def cluster_of(name: str, site: str, nodes: int) -> ClusterDeclared:
    """A cluster as its site declares it; its binaries run at its site alone."""
    return ClusterDeclared(
        cluster=name,
        site=site,
        node_model=MODEL,
        nodes=nodes,
        cores_per_node=CORES,
        pstates_ghz=[2.0],
        idle_power_w=100.0,
        peak_bandwidth_gbps=150.0,
        architecture=site,
    )


def open_region(region: Region) -> None:
    """Sites declare their clusters, the operator a tariff that surcharges and bears failures."""
    tariff = TariffDeclared(
        name="year",
        version=1,
        from_us=region.clock.now_us - DAY_US,
        model=PRICE_MODEL_FAIR,
        rates=[TariffRate(resource="core", su="1")],
        node_failure=PAYER_OPERATOR,
        requeue=PAYER_OPERATOR,
        surcharge_share="1",
        declared_at_us=region.clock.now_us,
    )
    region.say(OPERATOR, "tariff", is_rightful=True, tariff_declared=tariff)
    for name, (site, nodes) in CLUSTERS.items():
        declared = cluster_of(name, site, nodes)
        region.journal.cores[name] = CORES
        region.clusters[name] = declared
        region.say(f"{site}/{name}", "declare", is_rightful=True, cluster_declared=declared)


def submission_of(region: Region, owner: User | str, job_id: str = "", **told: Any) -> JobSubmitted:
    """A job of a user, or of a site's own queue; it runs anywhere, or where its binaries do."""
    rng, now_us = region.rng, region.clock.now_us
    is_user = isinstance(owner, User)
    site = owner.site if isinstance(owner, User) else owner
    own = [name for name, (of, _) in CLUSTERS.items() if of == site]
    reference = rng.choice([*CLUSTERS] if is_user else own)
    queue = owner.portal if isinstance(owner, User) else f"{site}/{reference}"
    fields: dict[str, Any] = {
        "job_id": job_id or f"{queue}/{region.events}/{now_us // SECOND_US}",
        "attempt": 1,
        "app_id": rng.choice(_APPS),
        "user": owner.name if isinstance(owner, User) else f"{site}-{rng.choice('abc')}",
        "account": owner.account if isinstance(owner, User) else rng.choice(accounts_of(site)),
        "nodes": rng.choice([1, 1, 1, 2, 3]),
        "walltime_s": some_time_us(rng, 60 * SECOND_US, HOUR_US) / SECOND_US,
        "reference_cluster": reference,
        "shareable": rng.random() < 0.5,
        "submitted_at_us": now_us,
        "architectures": rng.choice([[], [], [CLUSTERS[reference][0]], [rng.choice(SITES)]]),
    }
    return JobSubmitted(**{**fields, **told})


def submit(region: Region) -> None:
    """A user hands a job to the portal; it may wait for another one of the same user."""
    user, rng = region.rng.choice(USERS), region.rng
    own = [job for job in _recent(region) if job.user == user.name]
    awaited = [rng.choice(own).job_id] if own and rng.random() < 0.15 else []
    depends_on = [Dependency(job_id=name, condition=rng.choice(_CONDITIONS)) for name in awaited]
    told = submission_of(region, user, depends_on=depends_on, priority=rng.choice([0, 0, -50]))
    region.say(user.name, "submit", is_rightful=True, delay_us=_soon(region), job_submitted=told)


def queue(region: Region) -> None:
    """A site publishes a job of its own queue, of any priority."""
    site = region.rng.choice(SITES)
    told = submission_of(region, site, priority=region.rng.choice([0, 0, 20, 100]))
    source = f"{site}/{told.reference_cluster}"
    region.say(source, "submit", is_rightful=True, delay_us=_soon(region), job_submitted=told)


def run_alone(region: Region) -> None:
    """A site's resource manager runs a job by itself, and publishes its submission last."""
    _run_alone(region, region.rng.choice(SITES))


def _run_alone(region: Region, site: str, cluster: str = "") -> None:
    shares = region.rng.random() < 0.3
    told = submission_of(region, site, nodes=1, walltime_s=600.0, shareable=shares)
    told.reference_cluster = cluster = cluster or told.reference_cluster
    told.job_id = f"{site}/{cluster}/own-{region.events}/{region.clock.now_us // SECOND_US}"
    names = [node_name(cluster, index) for index in range(CLUSTERS[cluster][1])]
    manager = region.managers.of(cluster)
    if manager.run_alone(told, names, CORES):
        delay_us = 4 * manager.temper.report_within_us + some_time_us(region.rng, 1000, HOUR_US)
        source = f"{site}/{cluster}"
        region.say(source, "submit", is_rightful=True, delay_us=delay_us, job_submitted=told)


def order(region: Region) -> None:
    """Who owns a job cancels, holds or releases it, or has it wait again."""
    job = _any(region)
    if job is None:
        return
    rng, now_us, job_id = region.rng, region.clock.now_us, job.job_id
    site = job_id.partition("/")[0]
    is_user = any(user.name == job.user for user in USERS)
    source = job.user if is_user and rng.random() < 0.7 else rng.choice([site, OPERATOR])
    kind = rng.choice(["cancel", "cancel", "hold", "release", "requeue"])
    payloads: dict[str, dict[str, Any]] = {
        "cancel": {"job_cancelled": JobCancelled(job_id=job_id, cancelled_at_us=now_us)},
        "hold": {"job_held": JobHeld(job_id=job_id, held_at_us=now_us)},
        "release": {"job_released": JobReleased(job_id=job_id, released_at_us=now_us)},
        "requeue": {
            "job_requeue_asked": JobRequeueAsked(job_id=job_id, attempt=1, asked_at_us=now_us)
        },
    }
    if kind in ("cancel", "requeue"):
        region.ordered.add(job_id)
    region.say(source, kind, is_rightful=True, delay_us=_soon(region), **payloads[kind])


def prioritize(region: Region) -> None:
    """A site lets a job of its own go before others."""
    job = _any(region)
    if job is not None:
        told = JobPrioritized(
            job_id=job.job_id,
            priority=region.rng.randint(-100, 100),
            prioritized_at_us=region.clock.now_us,
        )
        site = job.job_id.partition("/")[0]
        region.say(site, "prioritize", is_rightful=True, job_prioritized=told)


def suspend_or_resume(region: Region) -> None:
    """An operator has a run be suspended, or run on."""
    runs, now_us = [run for run in open_runs(region) if run.grant], region.clock.now_us
    if not runs:
        return
    job_id = region.rng.choice(runs).job_id
    region.ordered.add(job_id)
    if region.rng.random() < 0.4:
        told = JobSuspended(job_id=job_id, suspended_at_us=now_us)
        region.say(OPERATOR, "suspend", is_rightful=True, job_suspended=told)
    else:
        resumed = JobResumed(job_id=job_id, resumed_at_us=now_us)
        region.say(OPERATOR, "resume", is_rightful=True, job_resumed=resumed)


def drain_or_resume(region: Region) -> None:
    """A site takes a node of its own from the region, or gives all back."""
    rng, now_us = region.rng, region.clock.now_us
    name = rng.choice([*CLUSTERS])
    site, nodes = CLUSTERS[name]
    if rng.random() < 0.3:
        node = node_name(name, rng.randrange(nodes))
        drained = NodesDrained(cluster=name, nodes=[node], reason="a fan", drained_at_us=now_us)
        region.say(site, "drain", is_rightful=True, nodes_drained=drained)
    else:
        resumed = NodesResumed(cluster=name, resumed_at_us=now_us)
        region.say(site, "resume nodes", is_rightful=True, nodes_resumed=resumed)


def power_off_and_seize(region: Region) -> None:
    """The nodes of a cluster lose their power, and may run something else as soon as they have it
    again; the operator takes back what was granted there, at once or when he hears of it."""
    if region.managers.found:
        rng = region.rng
        name = rng.choice(sorted(region.managers.found))
        lost = region.managers.found[name].power_off()
        late_us = rng.choice([0, some_time_us(rng, 60 * SECOND_US, HOUR_US)])
        region.unheard.append((region.clock.now_us + late_us, lost))
        if name in CLUSTERS and rng.random() < 0.7:
            _run_alone(region, CLUSTERS[name][0], name)


def measure(region: Region) -> None:
    """A site's agents measured two jobs while they were together on a node."""
    pairs = [pair for pair in together(region) if pair[0].began_us < region.clock.now_us]
    if not pairs:
        return
    run, other = region.rng.choice(pairs)
    told = shutters(region, run, other.job_id, *overlap_us(run, other, region.clock.now_us))
    source = agents_of(region.sites[run.cluster])
    region.say(source, "measure", is_rightful=True, delay_us=_soon(region), shutters_measured=told)


def sample(region: Region) -> None:
    """A site's agents read a node's meter."""
    rng, now_us = region.rng, region.clock.now_us
    name = rng.choice([*CLUSTERS])
    site, nodes = CLUSTERS[name]
    told = NodeSamples(
        node=node_name(name, rng.randrange(nodes)),
        cluster=name,
        node_model=MODEL,
        samples=[NodeSample(time_us=now_us, power_w=rng.uniform(100, 400))],
    )
    region.say(agents_of(site), "sample", is_rightful=True, node_samples=told)


def shutters(
    region: Region, run: Run, co_runner: str, began_us: int, ended_us: int
) -> ShuttersMeasured:
    """What agents say of a run that was slowed down by a third or more."""
    ipc = region.rng.uniform(0.5, 2.0)
    during = ipc * region.rng.uniform(1.3, 3.0)
    return ShuttersMeasured(
        job_id=run.job_id,
        attempt=run.attempt,
        co_runner_job_id=co_runner,
        app_id=_APPS[0],
        co_runner_app_id=_APPS[1],
        node_model=MODEL,
        began_at_us=began_us,
        ended_at_us=ended_us,
        shutters=[Shutter(ipc_before=ipc, ipc_during=during, ipc_after=ipc)] * 4,
    )


def together(region: Region) -> list[tuple[Run, Run]]:
    """Recent runs that were on a node at one time."""
    runs = [run for run in region.journal.runs[-RECENT:] if run.grant]
    return [
        (run, other)
        for run, other in permutations(runs, 2)
        if run.cluster == other.cluster and {*run.nodes} & {*other.nodes} and run.overlaps(other)
    ]


def overlap_us(run: Run, other: Run, now_us: int) -> tuple[int, int]:
    """From when to when both ran."""
    ends = [each.ended_us or now_us for each in (run, other)]
    return max(run.began_us, other.began_us), min(ends)


def open_runs(region: Region) -> list[Run]:
    """What truly runs now."""
    return [run for run in region.journal.runs[-4 * RECENT :] if run.ended_us is None]


def _recent(region: Region) -> list[JobSubmitted]:
    return list(region.journal.submissions.values())[-RECENT:]


def _any(region: Region) -> JobSubmitted | None:
    jobs = [job for job in _recent(region) if job.job_id not in region.probes]
    return region.rng.choice(jobs) if jobs else None


def _soon(region: Region) -> int:
    return some_time_us(region.rng, 1000, 60 * SECOND_US)


LAWFUL: Final[Mapping[Callable[[Region], None], float]] = {
    submit: 25,
    queue: 12,
    run_alone: 3,
    order: 5,
    prioritize: 2,
    suspend_or_resume: 2,
    drain_or_resume: 1,
    power_off_and_seize: 0.3,
    measure: 8,
    sample: 2,
}
