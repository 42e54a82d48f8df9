"""Events as domain types, where more than one service reads them.

All raise RejectedError, which names the field.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.control_pb2 import Partition as PartitionMessage
from coplace.v1.energy_pb2 import SignatureUpdated
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    DependencyCondition,
    JobFinished,
    JobSubmitted,
)
from coplace.v1.jobs_pb2 import Part as PartMessage

from coplace_client.bounds import LENGTHS
from coplace_client.errors import RejectedError
from coplace_client.millicores import exact_cores, millicores
from coplace_client.signature import Signature
from shared.domain.cluster import Cluster, NodeClass
from shared.domain.job import Condition, Dependency, Job
from shared.domain.partition import Partition
from shared.domain.parts import JobPart, asked_in_all
from shared.domain.resources import design_powers_of, resources_of

# `coefficients-{node_model}@{round}` and the like: a job that waits keeps those it was evaluated
# by.
MOST_VERSION: Final = 320
_CONDITIONS: Final[Mapping[DependencyCondition.ValueType, Condition]] = {
    DEPENDENCY_CONDITION_AFTER_OK: Condition.AFTER_OK,
    DEPENDENCY_CONDITION_AFTER_ANY: Condition.AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER: Condition.AFTER,
    DEPENDENCY_CONDITION_AFTER_NOT_OK: Condition.AFTER_NOT_OK,
    DEPENDENCY_CONDITION_SINGLETON: Condition.SINGLETON,
    DEPENDENCY_CONDITION_AFTER_CORR: Condition.AFTER_CORR,
}
# An array keeps a set of tasks for each.
_MOST_OF_TASKS: Final = 4
CONDITION_MESSAGES: Final = {condition: message for message, condition in _CONDITIONS.items()}


def cluster_of(message: ClusterDeclared) -> Cluster:
    """Return the cluster as declared."""
    return Cluster(
        name=message.cluster,
        site=message.site,
        node_model=message.node_model,
        nodes=message.nodes,
        cores_per_node=message.cores_per_node,
        pstates_ghz=tuple(message.pstates_ghz),
        idle_power_w=message.idle_power_w,
        peak_bandwidth_gbps=message.peak_bandwidth_gbps,
        memory_gib_per_node=message.memory_gib_per_node,
        architecture=message.architecture,
        node_names=tuple(message.node_names),
        declared_classes=tuple(
            NodeClass(
                each.nodes,
                each.memory_gib,
                resources_of(each.resources),
                design_powers_of(each.tdp_w),
                tuple(each.features),
                each.millicores_per_node,
            )
            for each in message.node_classes
        ),
        nameplate_power_w=message.nameplate_power_w,
        processors_tdp_w=message.processors_tdp_w,
        partitions=tuple(map(_partition_of, message.partitions)),
        shares_unpredicted=message.shares_unpredicted,
    )


def _partition_of(message: PartitionMessage) -> Partition:
    return Partition(
        name=message.name,
        nodes=tuple(message.nodes),
        most_walltime_s=message.most_walltime_s,
        most_nodes=message.most_nodes,
        exclusive=message.exclusive,
        down=message.down,
        default=message.default,
        accounts=tuple(message.accounts),
        users=tuple(message.users),
    )


def job_of(message: JobSubmitted) -> Job:
    """Return the attempt that was submitted."""
    return Job(
        job_id=message.job_id,
        attempt=message.attempt,
        app_id=message.app_id,
        user=message.user,
        account=message.account,
        nodes=message.nodes,
        walltime_s=message.walltime_s,
        reference_cluster=message.reference_cluster,
        shareable=message.shareable,
        submit_s=message.submitted_at_us / 1e6,
        priority=message.priority,
        memory_gib=message.memory_gib,
        architectures=tuple(message.architectures),
        cores_per_unit=message.cores_per_unit,
        memory_gib_per_unit=message.memory_gib_per_unit,
        resources_per_unit=resources_of(message.resources_per_unit),
        licences=resources_of(message.licences),
        units_per_node=message.units_per_node,
        begin_s=message.begin_at_us / 1e6,
        deadline_s=message.deadline_at_us / 1e6,
        depends_on_any=message.depends_on_any,
        job_name=message.job_name,
        sequence=message.sequence,
        partitions=tuple(message.partitions),
        features=message.features,
        nodes_wanted=tuple(message.nodes_wanted),
        nodes_excluded=tuple(message.nodes_excluded),
        clusters=tuple(message.clusters),
        home_cluster=message.home_cluster,
        qos=message.qos,
        reservation=message.reservation,
        array=message.array,
        array_at_most=message.array_at_most,
        parts=parts_of(message),
        manager_priority=message.manager_priority,
        is_interactive=message.is_interactive,
        starts_within_s=message.starts_within_s,
        millicores_per_unit=message.millicores_per_unit,
        changed_at_us=message.changed_at_us,
    )


def asked_resources(message: JobSubmitted, units: int) -> dict[str, int]:
    """Return what so many units of a job ask for beside cores and memory: of a gang all its
    parts."""
    per_unit = tuple(message.resources_per_unit.items())
    return dict(asked_in_all(parts_of(message), per_unit, units))


def asked_memory_gib(message: JobSubmitted, units: int) -> float:
    """Return the memory that so many units of a job ask for, GiB: of a gang all its parts."""
    if message.parts:
        return sum(part.units * part.memory_gib_per_unit for part in message.parts)
    return message.memory_gib or units * message.memory_gib_per_unit


def parts_of(message: JobSubmitted) -> tuple[JobPart, ...]:
    """Return the parts of a gang; none of another job."""
    return tuple(map(_part_of, message.parts))


def part_message(part: JobPart) -> PartMessage:
    """Return a part as a submission carries it."""
    return PartMessage(
        units=part.units,
        units_per_node=part.units_per_node,
        cores_per_unit=part.cores_per_unit,
        memory_gib_per_unit=part.memory_gib_per_unit,
        resources_per_unit=dict(part.resources_per_unit),
        partitions=part.partitions,
        features=part.features,
        nodes_wanted=part.nodes_wanted,
        nodes_excluded=part.nodes_excluded,
        millicores_per_unit=part.millicores_per_unit,
    )


def _part_of(message: PartMessage) -> JobPart:
    return JobPart(
        units=message.units,
        units_per_node=message.units_per_node or 1,
        cores_per_unit=message.cores_per_unit,
        memory_gib_per_unit=message.memory_gib_per_unit,
        resources_per_unit=resources_of(message.resources_per_unit),
        partitions=tuple(message.partitions),
        features=message.features,
        nodes_wanted=tuple(message.nodes_wanted),
        nodes_excluded=tuple(message.nodes_excluded),
        millicores_per_unit=message.millicores_per_unit,
    )


def suspensions(message: JobFinished) -> tuple[tuple[int, int], ...]:
    """Return from when until when a job that has ended was suspended, us."""
    ends_us = [*(each.began_at_us for each in message.intervals[1:]), message.ended_at_us]
    pairs = zip(message.intervals, ends_us, strict=False)
    stopped = ((each, us) for each, us in pairs if not (each.freq_ghz or each.is_clock_unknown))
    return tuple((each.began_at_us, end_us) for each, end_us in stopped)


def run_us(message: JobFinished) -> int:
    """Return for how long a job that has ended ran: from its start to its end, without the time in
    which it was suspended; 0 where it never started."""
    if not message.started_at_us:
        return 0
    suspended_us = sum(end_us - begin_us for begin_us, end_us in suspensions(message))
    return message.ended_at_us - message.started_at_us - suspended_us


def millicores_of(message: JobFinished) -> int:
    """Return all thousandths of a core that a job had, as far as its end says."""
    cores = message.cores or message.nodes * message.cores_per_node
    return millicores(cores, message.millicores)


def cores_of(message: JobFinished) -> Decimal:
    """Return all cores that a job had, exactly, as far as its end says."""
    return exact_cores(millicores_of(message))


def dependencies_of(message: JobSubmitted) -> tuple[Dependency, ...]:
    """Return what the attempt waits for."""
    LENGTHS["depends_on"].require("depends_on", len(message.depends_on))
    conditions = [each.condition for each in message.depends_on]
    if conditions.count(DEPENDENCY_CONDITION_AFTER_CORR) > _MOST_OF_TASKS:
        raise RejectedError("depends_on", f"has more than {_MOST_OF_TASKS} of tasks on tasks")
    for dependency in message.depends_on:
        if dependency.condition not in _CONDITIONS:
            raise RejectedError("depends_on", f"of {dependency.job_id[:80]!r} needs a condition")
        if dependency.job_id == message.job_id:
            raise RejectedError("depends_on", "must not name the job itself")
        if dependency.condition == DEPENDENCY_CONDITION_SINGLETON and not message.job_name:
            raise RejectedError("job_name", "must be set: depends_on has a singleton")
    return tuple(
        Dependency(d.job_id, _CONDITIONS[d.condition], d.delay_s) for d in message.depends_on
    )


def signatures_of(message: SignatureUpdated) -> tuple[Signature, ...]:
    """Return the AppDB's row, ascending by frequency."""
    if not message.at:
        raise RejectedError("at", f"of {message.app_id} must hold at least one P-state")
    return tuple(
        Signature(
            app_id=message.app_id,
            node_model=message.node_model,
            freq_ghz=at.freq_ghz,
            time_s=at.time_s,
            power_w=at.power_w,
            cpi=at.cpi,
            tpi=at.tpi,
            mem_gbps=at.mem_gbps,
            tpi_scale=message.tpi_scale,
            count=at.count,
        )
        for at in sorted(message.at, key=lambda at: at.freq_ghz)
    )
