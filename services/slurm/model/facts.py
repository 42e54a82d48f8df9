"""Slurm's jobs as facts: pure.

They have the ids that `ingest-jobcomp` gives them, so that either may publish them, or both.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted

from coplace_client.bounds import CORES_PER_NODE, NODE_MEMORY_GIB, NODES, RESOURCES
from services.slurm.model.changes import HELD_BY_USER
from services.slurm.model.fields import why_not_followed
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.select_rules import SelectRules
from services.slurm.model.shapes import NodeShapes
from services.slurm.model.units import asked_units
from shared.domain.printable import printable
from shared.slurm.answers import text
from shared.slurm.facts import Site, envelopes, submission
from shared.slurm.tres import most_important

# The characters of the reason that a job is held for.
MOST_REASON: Final = 256


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """Which clusters of Coplace a Slurm is: by the names of nodes and of partitions, and their node
    models; what it does not know is of the `first`, which is the Slurm itself where that is
    empty."""

    first: str = ""
    of_node: Mapping[str, str] = field(default_factory=dict)
    of_partition: Mapping[str, str] = field(default_factory=dict)
    node_models: Mapping[str, str] = field(default_factory=dict)

    def where_asked(self, partitions: Iterable[str]) -> str:
        """Return the first cluster that a job may run on."""
        known = (self.of_partition[name] for name in partitions if name in self.of_partition)
        return next(known, self.first)

    def where_run(self, nodes: Iterable[str]) -> str:
        """Return the cluster that nodes are of."""
        known = (self.of_node[name] for name in nodes if name in self.of_node)
        return next(known, self.first)


@dataclass(frozen=True, slots=True)
class SlurmTerms:
    """What its jobs do not say: whose they are, the architecture that they ask for, what is
    `uncounted` of their nodes and not asked of them, and the clusters that these are."""

    site: Site
    architecture: str
    uncounted: Set[str] = frozenset()
    clusters: ClusterMap = ClusterMap()
    select: SelectRules = field(default_factory=SelectRules)
    shapes: NodeShapes = field(default_factory=NodeShapes)


class RepairedFacts(NamedTuple):
    """The facts of a job, in order, and the fields of which something was left out."""

    told: Sequence[Envelope]
    repaired: Set[str]


def facts_of(job: SlurmJob, terms: SlurmTerms, latest_us: int | None = None) -> RepairedFacts:
    """Return the facts of a job for Coplace, in order; times behind `latest_us` are not believed.
    Raises RejectedError, which names the field."""
    message, is_pending, site = job.message(), job.is_pending, terms.site
    told = [] if is_pending else envelopes(message, site, latest_us)
    # What is over other ways report too, with the same content.
    if is_pending or job.has_nodes:
        asked = submission(message, site)
        _say_all(asked.job_submitted, job, terms)
        for name in terms.uncounted & asked.job_submitted.resources_per_unit.keys():
            del asked.job_submitted.resources_per_unit[name]
            message.repaired.add("tres_req")
        told = [asked, *told[1:]]
    _put_asked_cluster(told[0], job, terms.clusters)
    for later in told[1:]:
        _put_run_cluster(later, job, terms.clusters)
    return RepairedFacts(told, message.repaired)


def _say_all(submitted: JobSubmitted, job: SlurmJob, terms: SlurmTerms) -> None:
    """Add what jobcomp does not know of a job: where it may run, what it needs beside nodes, and
    why it is held."""
    if not (unmapped := why_not_followed(job, terms.select)):
        _say_where(submitted, job, terms.shapes)
        _say_units(submitted, job, terms)
        _say_what(submitted, job, terms.select)
    elif job.is_pending:
        submitted.held_because = printable(unmapped, MOST_REASON)
    if job.is_pending and job.is_held_by_user:
        submitted.held_because = submitted.held_because or HELD_BY_USER
    submitted.architectures.append(printable(terms.architecture))


def _put_asked_cluster(first: Envelope, job: SlurmJob, clusters: ClusterMap) -> None:
    """Say of a submission which cluster it is for, where the Slurm is several: its id has that too,
    since other ways know of the Slurm alone."""
    submitted, cluster = first.job_submitted, clusters.where_asked(job.partitions)
    if cluster and cluster != submitted.reference_cluster:
        first.id += f"/on-{cluster}"
        submitted.reference_cluster = submitted.home_cluster = cluster


def _put_run_cluster(later: Envelope, job: SlurmJob, clusters: ClusterMap) -> None:
    """Say of a start or an end which cluster it was on, in the same way."""
    run = later.job_started if later.HasField("job_started") else later.job_finished
    names = job.node_names
    found = clusters.where_run(names) if names else clusters.where_asked(job.partitions)
    cluster = job.ran_on or found
    if cluster and cluster != run.cluster:
        later.id += f"/on-{cluster}"
        run.cluster = cluster
        node_model = clusters.node_models.get(cluster, "")
        if node_model and isinstance(run, JobFinished):
            run.node_model = printable(node_model)


def _say_where(submitted: JobSubmitted, job: SlurmJob, shapes: NodeShapes) -> None:
    """Add where a job may run, as its user asked."""
    of = job.fields
    submitted.partitions.extend(job.partitions)
    submitted.features = job.features
    submitted.nodes_wanted.extend([job.wanted] if job.wanted else [])
    excluded = text(of.get("excluded_nodes"))
    submitted.nodes_excluded.extend([excluded] if excluded else [])
    submitted.nodes_excluded.extend(shapes.unsuited(job))


def _say_units(submitted: JobSubmitted, job: SlurmJob, terms: SlurmTerms) -> None:
    """Say what of each node it asks for, as Slurm would give it."""
    most = terms.shapes.most(job)
    if most is None or not job.is_pending:
        return
    found = asked_units(job, most, by_core=terms.select.gives_cores)
    if NODES.has(found.nodes) and CORES_PER_NODE.has(found.cpus):
        submitted.nodes, submitted.cores_per_unit, submitted.units_per_node = (
            found.nodes,
            found.cpus,
            1,
        )
    if found.memory_gib:
        memory_gib = max(found.memory_gib, NODE_MEMORY_GIB.least)
        submitted.memory_gib_per_unit = min(memory_gib, NODE_MEMORY_GIB.most)
    counted = {name: count for name, count in found.gres.items() if RESOURCES.has(count)}
    submitted.resources_per_unit.update(most_important(counted))


def _say_what(submitted: JobSubmitted, job: SlurmJob, select: SelectRules) -> None:
    """Add what it needs beside nodes, which tasks it has, and whether it accepts others."""
    submitted.licences.update(job.licences)
    submitted.reservation = printable(job.reservation)
    if job.is_array:
        submitted.array, submitted.array_at_most = job.tasks, job.most_tasks
    submitted.priority = job.priority
    has_label = select.has_labels and text(job.fields.get("mcs_label"))
    is_alone = job.is_alone or has_label
    if select.shares_nodes and submitted.cores_per_unit and not is_alone:
        submitted.shareable = True
        if not select.counts_memory and not job.asked_memory:
            # Slurm shows the memory of the whole node.
            submitted.memory_gib_per_unit = 0.0
