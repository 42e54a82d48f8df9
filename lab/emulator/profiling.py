"""What is known before the first job: the clusters, the learning phase, profiling runs."""

from collections.abc import Iterator

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples
from google.protobuf.message import Message

from lab.emulator.facts import (
    COMMANDS,
    EPOCH_US,
    NODES,
    SIGNATURES,
    signature,
    source,
)
from lab.emulator.machine import Machine
from lab.emulator.scales import TpiScale
from lab.emulator.truth.kernels import KERNELS, kernel_profile
from lab.emulator.truth.laws import Behaviour, behaviour
from lab.emulator.truth.noise import Noise
from lab.workloads.table1 import APPS, AppProfile
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster

FIRST_NODE = 0  # profiling runs use one node of each cluster
SAMPLE_PERIOD_US = 60_000_000


def observe(
    nominal: AppProfile, machine: Machine, freq_ghz: float, noise: Noise, *subject: str
) -> Behaviour:
    """Return one run as it really goes: the law with the noise of the run that `subject` names."""
    mean = behaviour(nominal, machine.model, freq_ghz)
    run = noise.run(*subject)
    return Behaviour(
        time_s=mean.time_s * run.time,
        power_w=mean.power_w * run.power,
        cpi=mean.cpi * run.cpi,
        mem_gbps=mean.mem_gbps / run.time,
        tpi=mean.tpi * run.tpi,
    )


def profiling_events(machine: Machine, scale: TpiScale, noise: Noise) -> Iterator[Publish]:
    """Yield what a cluster's operator declares and what profiling it measures."""
    yield _declaration(machine.cluster)
    yield from _kernel_runs(machine, scale, noise)
    yield from _app_runs(machine, scale, noise)


def _declaration(cluster: Cluster) -> Publish:
    payload = ClusterDeclared(
        cluster=cluster.name,
        site=cluster.site,
        node_model=cluster.node_model,
        nodes=cluster.nodes,
        cores_per_node=cluster.cores_per_node,
        pstates_ghz=cluster.pstates_ghz,
        idle_power_w=cluster.idle_power_w,
        peak_bandwidth_gbps=cluster.peak_bandwidth_gbps,
        nameplate_power_w=cluster.nameplate_power_w,
        memory_gib_per_node=cluster.memory_gib_per_node,
        architecture=cluster.architecture,
        node_names=cluster.node_names,
        node_classes=[
            NodeClass(
                nodes=c.nodes,
                memory_gib=c.memory_gib,
                resources=dict(c.resources),
                tdp_w=dict(c.tdp_w),
            )
            for c in cluster.declared_classes
        ],
    )
    return _of_cluster(COMMANDS, cluster, cluster.name, cluster.name, payload)


def _kernel_runs(machine: Machine, scale: TpiScale, noise: Noise) -> Iterator[Publish]:
    """The learning phase: every kernel at every P-state, where coefficients are learned here."""
    if not scale.learned_here:
        return
    for name, kernel in KERNELS.items():
        nominal = kernel_profile(kernel, machine.model)
        for freq_ghz in machine.cluster.pstates_ghz:
            seen = _profiled(name, nominal, machine, freq_ghz, noise)
            payload = signature(name, machine.cluster, freq_ghz, seen, scale)
            payload.kernel = True
            yield _signature(name, machine.cluster, freq_ghz, payload)


def _app_runs(machine: Machine, scale: TpiScale, noise: Noise) -> Iterator[Publish]:
    """Each application once at the nominal P-state, and what the node's meter showed."""
    cluster = machine.cluster
    samples = []
    for number, app in enumerate(APPS.values()):
        nominal = app.on[cluster.node_model]
        seen = _profiled(app.app_id, nominal, machine, cluster.nominal_ghz, noise)
        payload = signature(app.app_id, cluster, cluster.nominal_ghz, seen, scale)
        yield _signature(app.app_id, cluster, cluster.nominal_ghz, payload)
        time_us = EPOCH_US - (len(APPS) - number) * SAMPLE_PERIOD_US
        samples.append(NodeSample(time_us=time_us, power_w=seen.power_w))
    node = machine.node_names[FIRST_NODE]
    readings = NodeSamples(
        node=node, cluster=cluster.name, node_model=cluster.node_model, samples=samples
    )
    yield _of_cluster(NODES, cluster, "profiling", node, readings)


def _profiled(
    app_id: str, nominal: AppProfile, machine: Machine, freq_ghz: float, noise: Noise
) -> Behaviour:
    node = machine.node_names[FIRST_NODE]
    seen = observe(nominal, machine, freq_ghz, noise, app_id, node, f"{freq_ghz:.1f}")
    factor = float(machine.power_factors([FIRST_NODE])[0])
    return seen._replace(power_w=seen.power_w * factor)


def _signature(app_id: str, cluster: Cluster, freq_ghz: float, payload: Message) -> Publish:
    subject = f"{app_id}@{freq_ghz:.1f}"
    key = f"{app_id}|{cluster.node_model}"
    return _of_cluster(SIGNATURES, cluster, subject, key, payload)


def _of_cluster(topic: str, cluster: Cluster, subject: str, key: str, payload: Message) -> Publish:
    event = Event(
        id=f"{source(cluster)}/{payload.DESCRIPTOR.full_name}/{subject}/1",
        source=source(cluster),
        time_us=EPOCH_US,
        key=key,
        payload=payload,
    )
    return Publish(topic, event)
