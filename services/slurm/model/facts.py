"""Slurm's jobs as facts: pure.

They have the ids that `ingest-jobcomp` gives them, so that either may publish them, or both.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import HOLDER_USER, JobSubmitted, Part

from coplace_client.bounds import CORES_PER_NODE, NODE_MEMORY_GIB, NODES
from coplace_client.errors import RejectedError
from services.slurm.model.changes import HELD_BY_USER
from services.slurm.model.fields import CANNOT, why_not_followed
from services.slurm.model.het_jobs import missing_parts
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.select_rules import SelectRules
from services.slurm.model.shapes import NodeShapes
from services.slurm.model.units import asked_units
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import job_of
from shared.domain.printable import printable
from shared.slurm.answers import text
from shared.slurm.facts import Site, envelopes, submission
from shared.slurm.tres import is_of_nodes, most_important

# What is said of each part of a gang, and not of the whole.
_OF_PARTS: Final = (
    *("cores_per_unit", "memory_gib_per_unit", "resources_per_unit", "units_per_node", "shareable"),
)
# The characters of the reason that a job is held for.
MOST_REASON: Final = 256


@dataclass(frozen=True, slots=True)
class SlurmTerms:
    """What its jobs do not say: whose they are and on which clusters, the architecture that they
    ask for, and what is `uncounted` of their nodes and not asked of them."""

    site: Site
    architecture: str
    uncounted: Set[str] = frozenset()
    select: SelectRules = field(default_factory=SelectRules)
    shapes: NodeShapes = field(default_factory=NodeShapes)


class RepairedFacts(NamedTuple):
    """The facts of a job, in order, and the fields of which something was left out."""

    told: Sequence[Envelope]
    repaired: Set[str]


def id_of(job: SlurmJob, site: Site) -> str:
    """Return the id of a job; empty for one that has none, whatever keeps it from that: it is no
    decision's."""
    try:
        return job.id_at(site)
    except Exception:  # noqa: BLE001 one job of Slurm's is no reason to obey nothing
        return ""


def facts_of(job: SlurmJob, terms: SlurmTerms, latest_us: int | None = None) -> RepairedFacts:
    """Return the facts of a job for Coplace, in order; times behind `latest_us` are not believed.
    Raises RejectedError, which names the field."""
    message, is_pending, site = job.message(), job.is_pending, terms.site
    has_begun = not (is_pending or job.is_configuring)
    told = envelopes(message, site, latest_us) if has_begun else []
    # What is over other ways report too, with the same content.
    if is_pending or job.has_nodes:
        asked = submission(message, site)
        say = _say_parts if job.parts else _say_one
        message.repaired |= say(asked.job_submitted, job, terms)
        told = [asked, *told[1:]]
    return RepairedFacts(told, message.repaired)


def _say_one(submitted: JobSubmitted, job: SlurmJob, terms: SlurmTerms) -> Set[str]:
    """Add what jobcomp does not know of a job; return the fields of which something is left
    out."""
    _say_all(submitted, job, terms)
    left_out = terms.uncounted & submitted.resources_per_unit.keys()
    for name in left_out:
        del submitted.resources_per_unit[name]
    return {"tres_req"} if left_out else set()


def _say_parts(submitted: JobSubmitted, job: SlurmJob, terms: SlurmTerms) -> Set[str]:
    """Make a gang of a submission; one that can be none is held with the reason."""
    if missing := missing_parts(job.parts):
        raise RejectedError("het_job_id_set", f"names {missing} parts that Slurm does not show")
    repaired, parts = set[str](), list[JobSubmitted]()
    for each in job.parts:
        message = each.message()
        part = submission(message, terms.site).job_submitted
        repaired |= message.repaired | _say_one(part, each, terms)
        parts.append(part)
    for name in _OF_PARTS:
        submitted.ClearField(name)
    submitted.nodes = sum(part.nodes for part in parts)
    submitted.walltime_s = max(part.walltime_s for part in parts)
    if _are_alike(parts):
        _say_units_of(submitted, parts)
    else:
        submitted.parts.extend(map(_part, parts))
    submitted.priority, submitted.is_interactive = job.priority, job.is_interactive
    submitted.reservation = printable(job.reservation)
    submitted.architectures.append(printable(terms.architecture))
    no_gang = _why_no_gang(submitted, job)
    _say_held(submitted, job, why_not_followed(job, terms.select) or no_gang)
    return repaired


def _are_alike(parts: Sequence[JobSubmitted]) -> bool:
    """Return whether each part wants any one of the same nodes, beside others: then they are equal
    units of one job, and no gang, which has whole nodes."""
    where = [(list(part.partitions), part.features, list(part.nodes_excluded)) for part in parts]
    return all(
        part.nodes == 1 and part.shareable and not part.nodes_wanted and each == where[0]
        for part, each in zip(parts, where, strict=True)
    )


def _say_units_of(submitted: JobSubmitted, parts: Sequence[JobSubmitted]) -> None:
    """Ask for as much for each part as the largest asks for."""
    first = parts[0]
    submitted.cores_per_unit = max(part.cores_per_unit for part in parts)
    submitted.memory_gib_per_unit = max(part.memory_gib_per_unit for part in parts)
    for part in parts:
        for name, count in part.resources_per_unit.items():
            most = max(count, submitted.resources_per_unit.get(name, 0))
            submitted.resources_per_unit[name] = most
    submitted.units_per_node, submitted.shareable = 1, True
    submitted.partitions.extend(first.partitions)
    submitted.features = first.features
    submitted.nodes_excluded.extend(first.nodes_excluded)


def _part(of: JobSubmitted) -> Part:
    """Return a part as its submission would say it, were it a job."""
    return Part(
        units=of.nodes,
        units_per_node=1,
        cores_per_unit=of.cores_per_unit,
        memory_gib_per_unit=of.memory_gib_per_unit,
        resources_per_unit=of.resources_per_unit,
        partitions=of.partitions,
        features=of.features,
        nodes_wanted=of.nodes_wanted,
        nodes_excluded=of.nodes_excluded,
    )


def _why_no_gang(submitted: JobSubmitted, job: SlurmJob) -> str:
    """Say its licences, and return why it is no gang as placement takes them, without its parts
    then; empty where it is."""
    try:
        submitted.licences.update(job.licences)
        check_contents(submitted)
        job_of(submitted)
    except RejectedError as error:
        submitted.ClearField("parts")
        submitted.ClearField("licences")
        return f"{CANNOT}: {error}"
    return ""


def _say_all(submitted: JobSubmitted, job: SlurmJob, terms: SlurmTerms) -> None:
    """Add what jobcomp does not know of a job: where it may run, what it needs beside nodes, and
    why it is held."""
    if not (unmapped := why_not_followed(job, terms.select)):
        _say_where(submitted, job, terms.shapes)
        _say_units(submitted, job, terms)
        _say_what(submitted, job, terms.select)
    _say_held(submitted, job, unmapped)
    submitted.is_interactive = job.is_interactive
    submitted.architectures.append(printable(terms.architecture))


def _say_held(submitted: JobSubmitted, job: SlurmJob, unmapped: str) -> None:
    """Say why a job that waits is held: for what can't be followed, or by its user."""
    if not job.is_pending:
        return
    if unmapped:
        submitted.held_because = printable(unmapped, MOST_REASON)
    elif job.is_held_by_user:
        submitted.held_because, submitted.held_by = HELD_BY_USER, HOLDER_USER


def _say_where(submitted: JobSubmitted, job: SlurmJob, shapes: NodeShapes) -> None:
    """Add where a job may run, as its user asked."""
    submitted.partitions.extend(job.partitions)
    submitted.features = job.features
    submitted.nodes_wanted.extend([job.wanted] if job.wanted else [])
    submitted.nodes_excluded.extend([job.excluded] if job.excluded else [])
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
    counted = {name: count for name, count in found.gres.items() if is_of_nodes(count)}
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
