"""What users, operators and node agents do. To add a kind of event, write a function of the world
and give it a weight in EVENTS."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_USER,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LimitsDeclared,
    NodeClass,
    NodesDrained,
    NodesResumed,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    Dependency,
    JobCancelled,
    JobHeld,
    JobReleased,
    JobResumed,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.telemetry_pb2 import (
    NodeSample,
    NodeSamples,
    Shutter,
    ShuttersMeasured,
    SignatureMeasured,
)

from shared.domain.hostlist import expand
from shared.domain.node import node_name
from tests.chaos.asks import SITES, ask
from tests.chaos.clock import DAY_US, HOUR_US, SECOND_US, some_time_us
from tests.chaos.journal import Run
from tests.chaos.places import add_partitions, wishes
from tests.chaos.start_terms import put_start_terms
from tests.chaos.world import World

USERS: Final = ("ada", "bob", "cyd", "dan")
ACCOUNTS: Final = ("physics", "bio")
APPS: Final = tuple(f"app-{number}" for number in range(6))
MODELS: Final = {
    "gold": (36, (1.2, 2.0, 3.1)),
    "platinum": (48, (1.2, 2.7)),
    "epyc": (2, (2.5,)),
}
_ARCHITECTURES: Final = ("", "x86_64", "aarch64")


def publish(
    world: World, subject: str, sequence: object, delay_us: int = 0, **payload: Any
) -> None:
    """Send one fact; a tenth of them twice."""
    [fact] = payload.values()
    event_id = f"chaos/{fact.DESCRIPTOR.full_name}/{subject}/{sequence}"
    envelope = Envelope(id=event_id, source="chaos", time_us=world.clock.now_us, **payload)
    world.network.send(envelope, delay_us)
    if world.rng.random() < 0.1:
        world.network.send(envelope, delay_us + some_time_us(world.rng, 1000, HOUR_US))


def declare(world: World) -> None:
    """A cluster, or another shape of one."""
    rng = world.rng
    name = rng.choice(["alpha", "beta", "gamma", "delta"])
    if world.declared_us.get(name) == world.clock.now_us:
        return  # nobody could say which of the two is the later
    world.declared_us[name] = world.clock.now_us
    model = rng.choice(list(MODELS))
    cores, pstates_ghz = MODELS[model]
    nodes = rng.randint(1, 10)
    declared = ClusterDeclared(
        cluster=name,
        site="site",
        node_model=model,
        nodes=nodes,
        cores_per_node=cores,
        pstates_ghz=pstates_ghz,
        idle_power_w=100.0,
        peak_bandwidth_gbps=150.0,
        memory_gib_per_node=rng.choice([0.0, 64.0, 192.0]),
        architecture=rng.choice(_ARCHITECTURES),
        node_names=rng.choice([[], [f"{name}-n[01-{nodes:02d}]"]]),
        node_classes=_node_classes(rng, nodes),
        # Where meters are silent it counts, and where nothing says what a job draws.
        nameplate_power_w=450.0,
    )
    before = world.clusters.get(name)
    if before is not None:
        # A cluster keeps its nodes' model and names; what it has of them changes.
        for field in ("node_model", "cores_per_node", "pstates_ghz"):
            declared.ClearField(field)
        declared.node_model = before.node_model
        declared.cores_per_node = before.cores_per_node
        declared.pstates_ghz.extend(before.pstates_ghz)
        if bool(before.node_names) != bool(declared.node_names):
            del declared.node_names[:]
            if before.node_names:
                declared.node_names.append(f"{name}-n[01-{nodes:02d}]")
    if world.scale.has_places:
        add_partitions(declared, world.clock.now_us)
    if world.scale.asking:
        declared.site = SITES[name]
    world.clusters[name] = declared
    world.undeclared.discard(name)
    world.journal.cores[name] = declared.cores_per_node
    publish(world, name, world.clock.now_us, cluster_declared=declared)


def _node_classes(rng: Random, nodes: int) -> list[NodeClass]:
    """None, or some nodes with GPUs and others."""
    if nodes < 2 or rng.random() < 0.6:
        return []
    first = rng.randint(1, nodes - 1)
    classes = [NodeClass(nodes=first, memory_gib=192, resources={"gpu": rng.randint(1, 4)})]
    return [*classes, NodeClass(nodes=nodes - first, memory_gib=rng.choice([0.0, 64.0]))]


def _units(rng: Random) -> dict[str, Any]:
    """Whole nodes, or units of some cores, some of them with memory and GPUs."""
    if rng.random() < 0.6:
        return {"memory_gib": rng.choice([0.0, 0.0, 0.0, 100.0, 400.0])}
    gpus = rng.choice([0, 0, 0, 1, 2])
    return {
        "cores_per_unit": rng.choice([1, 1, 2, 2, 3, 64]),
        "memory_gib_per_unit": rng.choice([0.0, 0.0, 10.0, 40.0]),
        "resources_per_unit": {"gpu": gpus} if gpus else {},
        "units_per_node": rng.choice([0, 0, 1, 2]),
    }


def lose_or_return(world: World) -> None:
    """A cluster is out of reach, or back."""
    there = sorted(world.clusters.keys() - world.undeclared)
    if not there:
        return
    name, now_us = world.rng.choice(there), world.clock.now_us
    if name in world.lost:
        world.lost.discard(name)
        returned = ClusterReturned(cluster=name, returned_at_us=now_us)
        publish(world, name, now_us, cluster_returned=returned)
    else:
        world.lost.add(name)
        lost = ClusterLost(cluster=name, reason="the link is down", lost_at_us=now_us)
        publish(world, name, now_us, cluster_lost=lost)


def undeclare(world: World) -> None:
    """A cluster is taken out of the region; some are declared again."""
    there, now_us = sorted(world.clusters.keys() - world.undeclared), world.clock.now_us
    if len(there) > 1:
        name = world.rng.choice(there)
        if world.declared_us.get(name) == now_us:
            return
        world.declared_us[name] = now_us
        world.undeclared.add(name)
        world.lost.discard(name)
        told = ClusterUndeclared(cluster=name, reason="sold", undeclared_at_us=now_us)
        publish(world, name, now_us, cluster_undeclared=told)


def drain_or_resume(world: World) -> None:
    """Some nodes of a cluster, or all of it, take no jobs, for a time or until they are resumed."""
    there = sorted(world.clusters.keys() - world.undeclared)
    if not there:
        return
    rng, now_us = world.rng, world.clock.now_us
    declared = world.clusters[rng.choice(there)]
    names = _nodes_of(declared)
    nodes = rng.choice([[], rng.sample(names, rng.randint(1, len(names)))])
    if rng.random() < 0.4:
        resumed = NodesResumed(cluster=declared.cluster, nodes=nodes, resumed_at_us=now_us)
        publish(world, declared.cluster, _sequence(world), nodes_resumed=resumed)
    else:
        until_us = rng.choice([0, now_us + some_time_us(rng, SECOND_US, HOUR_US)])
        drained = NodesDrained(
            cluster=declared.cluster,
            nodes=nodes,
            reason="a fan is broken",
            until_us=until_us,
            drained_at_us=now_us,
        )
        publish(world, declared.cluster, _sequence(world), nodes_drained=drained)


def limit(world: World) -> None:
    """What a user or an account may have at once."""
    rng = world.rng
    subject = rng.choice([LIMIT_SUBJECT_USER, LIMIT_SUBJECT_ACCOUNT])
    name = rng.choice(USERS if subject == LIMIT_SUBJECT_USER else ACCOUNTS)
    declared = LimitsDeclared(
        subject=subject,
        name=name,
        most_running_jobs=rng.randint(0, 3),
        most_nodes=rng.randint(0, 8),
    )
    publish(world, f"{subject}/{name}", world.clock.now_us, limits_declared=declared)


def cap(world: World) -> None:
    """What a cluster, the site or the region may draw, in up to three steps; some caps are of
    nothing known, and some below what idles there."""
    rng, now_us = world.rng, world.clock.now_us
    scope = rng.choice([POWER_SCOPE_CLUSTER, POWER_SCOPE_SITE, POWER_SCOPE_REGION])
    name = rng.choice([*sorted(world.clusters), "nowhere"]) if scope == POWER_SCOPE_CLUSTER else ""
    name = "site" if scope == POWER_SCOPE_SITE else name
    covered = [c for c in world.clusters.values() if name in (c.cluster, c.site, "")]
    idle_w = sum(c.nodes * c.idle_power_w for c in covered)
    times_us = sorted({now_us, *(now_us + some_time_us(rng, SECOND_US, HOUR_US) for _ in "ab")})
    steps = [
        PowerCapStep(
            from_us=time_us,
            watts=None if rng.random() < 0.2 else max(1.0, idle_w + rng.uniform(-50, 3000)),
        )
        for time_us in times_us
    ]
    declared = PowerCapDeclared(
        scope=scope, name=name, steps=steps, reason="the grid is short", declared_at_us=now_us
    )
    publish(world, f"{scope}/{name}", now_us, power_cap_declared=declared)


def submit(world: World) -> None:
    """A job of any kind, sometimes published late."""
    rng = world.rng
    if not world.clusters:
        return declare(world)
    reference = rng.choice(sorted(world.clusters))
    number = len(world.journal.events) * 1000 + world.events % 1000
    late_us = rng.randrange(20 * DAY_US) if rng.random() < 0.05 else 0
    at_us = world.clock.now_us - late_us
    job_id = f"site/{reference}/{number}/{at_us // SECOND_US}"
    others = list(world.journal.submissions)[-20:]
    depends_on = [
        Dependency(
            job_id=rng.choice([*others, f"site/{reference}/nobody/1"]),
            condition=rng.choice([DEPENDENCY_CONDITION_AFTER_OK, DEPENDENCY_CONDITION_AFTER_ANY]),
        )
        for _ in range(rng.choice([0, 0, 0, 0, 0, 0, 1, 2]))
    ]
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        app_id=rng.choice([*APPS, ""]),
        user=rng.choice(USERS),
        account=rng.choice(ACCOUNTS),
        nodes=rng.choice([1, 1, 1, 2, 3, 4, 8, 12]),
        walltime_s=some_time_us(rng, SECOND_US, HOUR_US) / SECOND_US,
        reference_cluster=reference if rng.random() < 0.98 else "nowhere",
        shareable=rng.random() < 0.4,
        submitted_at_us=at_us,
        priority=rng.choice([0, 0, 0, -100, 100, rng.randint(-100, 100)]),
        depends_on=depends_on,
        **_units(rng),
        architectures=rng.choice([[], [], [], ["x86_64"], ["x86_64", "aarch64"]]),
    )
    if world.scale.timed:
        put_start_terms(world, submitted)
    if world.scale.has_places:
        asked = wishes(job_id, submitted.nodes, world.clusters[reference])
        submitted.MergeFrom(JobSubmitted(**asked))
    if world.scale.asking:
        ask(world, submitted)
    publish(world, job_id, 1, job_submitted=submitted)
    return None


def run_alone(world: World, on: str = "", meant_for: str = "") -> None:
    """A resource manager, any or that of a cluster, runs a job by itself, for a short time or, if
    it was `meant_for` another cluster, a long one, and publishes its submission last."""
    rng, now_us = world.rng, world.clock.now_us
    if not world.clusters:
        return
    declared = world.clusters[on or rng.choice(sorted(world.clusters))]
    job_id = f"site/{declared.cluster}/own-{world.events}/{now_us // SECOND_US}"
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        user=rng.choice(USERS),
        account=rng.choice(ACCOUNTS),
        nodes=1,
        walltime_s=some_time_us(rng, SECOND_US, (12 if meant_for else 1) * HOUR_US) / SECOND_US,
        reference_cluster=meant_for or declared.cluster,
        submitted_at_us=now_us,
    )
    manager = world.managers.of(declared.cluster)
    # The first node is there in whatever shape the cluster is declared anew.
    if manager.run_alone(submitted, _nodes_of(declared)[:1], declared.cores_per_node):
        delay_us = 4 * manager.temper.report_within_us + some_time_us(rng, 1000, HOUR_US)
        publish(world, job_id, 1, delay_us, job_submitted=submitted)


def tell_of_old(world: World) -> None:
    """A resource manager whose reports were held back for weeks reports a job that it ran by
    itself, all at once, of its submission last; and then again."""
    rng, now_us = world.rng, world.clock.now_us
    declared = [world.clusters[name] for name in sorted(world.clusters)]
    began_us = now_us - rng.randint(8 * DAY_US, 20 * DAY_US)
    if not declared or rng.random() < 0.5:
        return
    cluster = rng.choice(declared)
    job_id = f"site/{cluster.cluster}/old-{world.events}/{began_us // SECOND_US}"
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        user=rng.choice(USERS),
        account=rng.choice(ACCOUNTS),
        nodes=1,
        walltime_s=60.0,
        reference_cluster=cluster.cluster,
        submitted_at_us=began_us,
    )
    finished = world.managers.of(cluster.cluster).ran(
        submitted, _nodes_of(cluster)[0], cluster.cores_per_node
    )
    if finished is None:
        return
    for again_us in (0, HOUR_US, 2 * HOUR_US):
        publish(world, job_id, 1, again_us, job_finished=finished)
        publish(world, job_id, 1, again_us + SECOND_US, job_submitted=submitted)


def cancel(world: World) -> None:
    """Somebody wants a job ended."""
    job_id, now_us = some_job(world), world.clock.now_us
    if job_id:
        cancelled = JobCancelled(job_id=job_id, reason="not needed", cancelled_at_us=now_us)
        publish(world, job_id, now_us, job_cancelled=cancelled)


def hold_or_release(world: World) -> None:
    """Somebody wants that a job not start, or that it may."""
    job_id, now_us = some_job(world), world.clock.now_us
    if not job_id:
        return
    if world.rng.random() < 0.5:
        world.held.add(job_id)
        held = JobHeld(job_id=job_id, reason="wait for the licence", held_at_us=now_us)
        publish(world, job_id, now_us, job_held=held)
    else:
        world.held.discard(job_id)
        released = JobReleased(job_id=job_id, released_at_us=now_us)
        publish(world, job_id, now_us, job_released=released)


def suspend_or_resume(world: World) -> None:
    """An operator suspends a run, or lets one run on; some of them have ended by then."""
    now_us = world.clock.now_us
    runs = [run.job_id for run in world.journal.runs[-20:] if run.ended_us is None]
    if not runs:
        return
    job_id = world.rng.choice(runs)
    if world.rng.random() < 0.5:
        suspended = JobSuspended(job_id=job_id, reason="a fan fails", suspended_at_us=now_us)
        publish(world, job_id, _sequence(world), job_suspended=suspended)
    else:
        resumed = JobResumed(job_id=job_id, resumed_at_us=now_us)
        publish(world, job_id, _sequence(world), job_resumed=resumed)


def measure(world: World) -> None:
    """A signature of an application, or of a kernel of the learning phase."""
    rng = world.rng
    model = rng.choice(list(MODELS))
    app, (_, pstates_ghz) = rng.randrange(len(APPS)), MODELS[model]
    freq_ghz, is_kernel = rng.choice(pstates_ghz), rng.random() < 0.5
    factor = pstates_ghz[-1] / freq_ghz
    measured = SignatureMeasured(
        app_id=f"kernel-{app}" if is_kernel else APPS[app],
        node_model=model,
        freq_ghz=freq_ghz,
        time_s=(50 + app) * factor * rng.uniform(0.98, 1.02),
        power_w=(380 - 5 * app) / factor * rng.uniform(0.98, 1.02),
        cpi=0.4 + 0.5 * app,
        tpi=0.005 * app,
        mem_gbps=20.0 * app,
        tpi_scale="chaos",
        kernel=is_kernel,
    )
    publish(world, f"{app}/{model}", _sequence(world), signature_measured=measured)


def sample(world: World) -> None:
    """Readings of a node's meter."""
    if not world.clusters:
        return
    rng, now_us = world.rng, world.clock.now_us
    declared = world.clusters[rng.choice(sorted(world.clusters))]
    index = rng.randrange(declared.nodes)
    names = expand(",".join(declared.node_names)) if declared.node_names else []
    samples = [
        NodeSample(time_us=now_us - n * SECOND_US, power_w=rng.uniform(100, 400)) for n in range(3)
    ]
    node = names[index] if names else f"{declared.cluster}-{index:04d}"
    readings = NodeSamples(
        node=node, cluster=declared.cluster, node_model=declared.node_model, samples=samples
    )
    publish(world, node, _sequence(world), node_samples=readings)


def shutter(world: World) -> None:
    """What a run's slowdown was beside another job; some of it comes long after the charge."""
    rng, now_us = world.rng, world.clock.now_us
    runs = [r for r in world.journal.runs[-30:] if now_us - (r.ended_us or now_us) < HOUR_US]
    if not runs:
        return
    run = rng.choice(runs)
    began_us = rng.randint(run.began_us, now_us)
    ended_us = rng.randint(began_us, now_us)
    ipc = rng.uniform(0.5, 2.0)
    shutters = [
        Shutter(ipc_before=ipc, ipc_during=ipc * rng.uniform(1, 1.5), ipc_after=ipc)
        for _ in range(rng.randint(1, 4))
    ]
    measured = ShuttersMeasured(
        job_id=run.job_id,
        attempt=run.attempt,
        co_runner_job_id=rng.choice(_co_runners(world, run, began_us, ended_us)),
        app_id=APPS[0],
        co_runner_app_id=APPS[1],
        node_model="gold",
        began_at_us=began_us,
        ended_at_us=ended_us,
        shutters=shutters,
    )
    delay_us = some_time_us(rng, 1000, 600 * SECOND_US)
    publish(world, run.job_id, _sequence(world), delay_us, shutters_measured=measured)


def _co_runners(world: World, run: Run, began_us: int, ended_us: int) -> Sequence[str]:
    """Two that an agent may name: one that was beside a run all that time, if there is one, then
    others of the region, or such as nobody knows."""
    beside = [
        other.job_id
        for other in world.journal.runs[-30:]
        if other.job_id != run.job_id and other.was_beside(run, began_us, ended_us)
    ]
    others = [each for each in list(world.journal.submissions)[-3:] if each != run.job_id]
    return [*beside[:1], *others, "site/alpha/x/1", "site/alpha/y/1"][:2]


def _nodes_of(declared: ClusterDeclared) -> Sequence[str]:
    """What its nodes are called."""
    if declared.node_names:
        return expand(",".join(declared.node_names))
    return [node_name(declared.cluster, index) for index in range(declared.nodes)]


def some_job(world: World) -> str:
    """One of those that were submitted last; empty where none was."""
    jobs = list(world.journal.submissions)[-40:]
    return world.rng.choice(jobs) if jobs else ""


def _sequence(world: World) -> str:
    return f"{world.clock.now_us}-{world.events}"


EVENTS: Final[Mapping[Callable[[World], None], float]] = {
    submit: 30,
    run_alone: 3,
    tell_of_old: 2,
    measure: 12,
    shutter: 12,
    sample: 6,
    cancel: 3,
    hold_or_release: 5,
    suspend_or_resume: 4,
    declare: 2,
    lose_or_return: 2,
    undeclare: 1,
    drain_or_resume: 3,
    limit: 2,
    cap: 3,
}
