"""What is known before the first job: the clusters, the learning phase, profiling runs."""

from collections.abc import Iterator
from types import MappingProxyType

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.control_pb2 import Partition as PartitionMessage
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
from lab.emulator.imported import ImportedSignatures
from lab.emulator.machine import Machine
from lab.emulator.scales import TpiScale
from lab.emulator.truth.kernels import KERNELS
from lab.emulator.truth.laws import TRANSACTION_BYTES, Behaviour
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.table1 import APPS
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.partition import Partition

FIRST_NODE = 0  # profiling runs use one node of each cluster
SAMPLE_PERIOD_US = 60_000_000


def observe(mean: Behaviour, noise: Noise, *subject: str) -> Behaviour:
    """Return one run as it really goes: the mean run with the noise that `subject` names."""
    run = noise.run(*subject)
    return Behaviour(
        time_s=mean.time_s * run.time,
        power_w=mean.power_w * run.power,
        cpi=mean.cpi * run.cpi,
        mem_gbps=mean.mem_gbps / run.time,
        tpi=mean.tpi * run.tpi,
    )


def profiling_events(
    machine: Machine,
    scale: TpiScale,
    truth: EmulatedTruth,
    noise: Noise,
    imported: ImportedSignatures = MappingProxyType({}),
) -> Iterator[Publish]:
    """Yield what a cluster's operator declares and what profiling it measures: no application of
    which something was imported."""
    yield _declaration(machine.cluster)
    yield from _kernel_runs(machine, scale, truth, noise)
    yield from _imported(machine.cluster, scale, imported)
    yield from _app_runs(machine, scale, truth, noise, imported)


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
        processors_tdp_w=cluster.processors_tdp_w,
        memory_gib_per_node=cluster.memory_gib_per_node,
        architecture=cluster.architecture,
        node_names=cluster.node_names,
        node_classes=[
            NodeClass(
                nodes=c.nodes,
                memory_gib=c.memory_gib,
                resources=dict(c.resources),
                tdp_w=dict(c.tdp_w),
                features=c.features,
            )
            for c in cluster.declared_classes
        ],
        partitions=map(_partition, cluster.partitions),
    )
    return _of_cluster(COMMANDS, cluster, cluster.name, cluster.name, payload)


def _partition(partition: Partition) -> PartitionMessage:
    return PartitionMessage(
        name=partition.name,
        nodes=fold(partition.nodes),
        most_walltime_s=partition.most_walltime_s,
        most_nodes=partition.most_nodes,
        exclusive=partition.exclusive,
        down=partition.down,
        default=partition.default,
        accounts=partition.accounts,
        users=partition.users,
    )


def _kernel_runs(
    machine: Machine, scale: TpiScale, truth: EmulatedTruth, noise: Noise
) -> Iterator[Publish]:
    """The learning phase: every kernel at every P-state, where coefficients are learned here."""
    if not scale.learned_here:
        return
    for name in KERNELS:
        for freq_ghz in machine.cluster.pstates_ghz:
            mean = truth.kernel(name, machine.model, freq_ghz)
            seen = _profiled(name, mean, machine, freq_ghz, noise)
            payload = signature(name, machine.cluster, freq_ghz, seen, scale)
            payload.kernel = True
            yield _signature(name, machine.cluster, freq_ghz, payload)


def _imported(cluster: Cluster, scale: TpiScale, imported: ImportedSignatures) -> Iterator[Publish]:
    """What was imported for the nodes of a cluster. EAR counts the bytes of transactions."""
    for (app_id, node_model), signatures in imported.items():
        for each in signatures if node_model == cluster.node_model else ():
            tpi = each.tpi / TRANSACTION_BYTES
            seen = Behaviour(each.time_s, each.power_w, each.cpi, each.mem_gbps, tpi)
            payload = signature(app_id, cluster, each.freq_ghz, seen, scale)
            yield _signature(app_id, cluster, each.freq_ghz, payload)


def _app_runs(
    machine: Machine,
    scale: TpiScale,
    truth: EmulatedTruth,
    noise: Noise,
    imported: ImportedSignatures,
) -> Iterator[Publish]:
    """Each application once at the nominal P-state, and what the node's meter showed."""
    cluster = machine.cluster
    samples = []
    for number, app_id in enumerate(APPS):
        if (app_id, cluster.node_model) in imported:
            continue
        mean = truth.application(app_id, machine.model, cluster.nominal_ghz)
        seen = _profiled(app_id, mean, machine, cluster.nominal_ghz, noise)
        payload = signature(app_id, cluster, cluster.nominal_ghz, seen, scale)
        yield _signature(app_id, cluster, cluster.nominal_ghz, payload)
        time_us = EPOCH_US - (len(APPS) - number) * SAMPLE_PERIOD_US
        samples.append(NodeSample(time_us=time_us, power_w=seen.power_w))
    node = machine.node_names[FIRST_NODE]
    readings = NodeSamples(
        node=node, cluster=cluster.name, node_model=cluster.node_model, samples=samples
    )
    yield _of_cluster(NODES, cluster, "profiling", node, readings)


def _profiled(
    app_id: str, mean: Behaviour, machine: Machine, freq_ghz: float, noise: Noise
) -> Behaviour:
    node = machine.node_names[FIRST_NODE]
    seen = observe(mean, noise, app_id, node, f"{freq_ghz:.1f}")
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
