"""What a job asks of each of its nodes, as Slurm would give it: pure.

Slurm gives whole cores, and its lists of trackable resources have what was asked for: one CPU of a
job on nodes with two threads a core is two. They lack what a site does not account for, such as
GPUs without AccountingStorageTRES=gres/gpu.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from services.slurm.model.jobs import SlurmJob
from services.slurm.model.shapes import NodeShape
from shared.slurm.answers import text
from shared.slurm.gres import gres_counts
from shared.slurm.tres import Tres

_MIB_PER_GIB: Final = 1_024
# By `threads_per_core` and `tasks_per_core`, as some releases show that nobody said.
_MOST_OF_A_CORE: Final = 1_024


@dataclass(frozen=True, slots=True)
class AskedUnits:
    """How many nodes a job asks for, and what of each; `memory_gib` is 0 where it does not say."""

    nodes: int
    cpus: int
    memory_gib: float
    gres: Mapping[str, int]


def asked_units(job: SlurmJob, most: NodeShape, *, by_core: bool) -> AskedUnits:
    """Return what a job asks for where no node has more than `most`; `by_core`: Slurm gives whole
    cores. More nodes than Slurm shows are asked for where fewer could not hold it, as far as it may
    have more."""
    asked = Tres.parse(text(job.fields.get("tres_req_str")))
    cpus = job.asked("cpus") or asked.cpus or 1
    # Slurm estimates the nodes of a job by its tasks, of which those that overcommit share CPUs.
    shown = 0 if job.sizes else asked.nodes
    nodes = max(1, shown, min(job.least_nodes, cpus))
    most_nodes = job.most_nodes or max(cpus, _most_of_a_thing(job))
    while True:
        found = _each(job, asked, nodes, cpus, most.threads if by_core else 1)
        fits = found.cpus <= most.cpus and all(
            count <= most.gres[name] for name, count in found.gres.items() if name in most.gres
        )
        if fits or nodes >= most_nodes:
            return found
        nodes += 1


def _each(job: SlurmJob, asked: Tres, nodes: int, cpus: int, threads: int) -> AskedUnits:
    tasks = -(-max(job.asked("tasks"), 1) // nodes)
    gres = _gres_each(job, asked, nodes, tasks)
    of_gres = gres_counts(text(job.fields.get("cpus_per_tres")))
    each = max(
        -(-cpus // nodes),
        job.least_cpus,
        *(gres.get(name, 0) * count for name, count in of_gres.items()),
        1,
    )
    per_core = min(job.asked("threads_per_core") or threads, threads)
    cores = -(-each // per_core)
    if 0 < job.asked("tasks_per_core") < _MOST_OF_A_CORE:
        cores = max(cores, -(-tasks // job.asked("tasks_per_core")))
    memory_gib = _memory_gib(job, asked, nodes, cores * per_core, gres)
    return AskedUnits(nodes, cores * threads, memory_gib, gres)


def _most_of_a_thing(job: SlurmJob) -> int:
    return max(gres_counts(text(job.fields.get("tres_per_job"))).values(), default=0)


def _gres_each(job: SlurmJob, asked: Tres, nodes: int, tasks: int) -> dict[str, int]:
    """What of each node, by its name and by its type."""
    found = Counter({name: -(-count // nodes) for name, count in asked.gres.items()})
    times = {
        "tres_per_node": (1, 1),
        "tres_per_job": (1, nodes),
        "tres_per_task": (tasks, 1),
        "tres_per_socket": (max(job.asked("sockets_per_node"), 1), 1),
    }
    for field, (factor, parts) in times.items():
        for name, count in gres_counts(text(job.fields.get(field))).items():
            found[name] = max(found[name], -(-count * factor // parts))
    return dict(found)


def _memory_gib(
    job: SlurmJob, asked: Tres, nodes: int, cpus: int, gres: Mapping[str, int]
) -> float:
    """Memory of a node: for each CPU or thing that the job has there, or what Slurm says in all."""
    of_gres = gres_counts(text(job.fields.get("memory_per_tres")))
    for_gres_mib = sum(gres.get(name, 0) * mib for name, mib in of_gres.items())
    for_cpus_mib = job.asked("memory_per_cpu") * cpus
    if mib := for_gres_mib or job.asked("memory_per_node") or for_cpus_mib:
        return mib / _MIB_PER_GIB
    return float(asked.memory_gib / nodes)
