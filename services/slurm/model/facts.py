"""Slurm's jobs as facts: pure.

They have the ids that `ingest-jobcomp` gives them, so that either may publish them, or both.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted

from services.slurm.model.jobs import SlurmJob
from shared.domain.printable import printable
from shared.slurm.answers import text
from shared.slurm.facts import Site, envelopes, submission

# The characters of the reason that a job is held for.
MOST_REASON: Final = 256
_HELD_BY_USER: Final = "held by its user, who lets it in with coplace release"
_SHARING: Final = frozenset({"cons_tres", "cons_res"})


@dataclass(frozen=True, slots=True)
class SelectRules:
    """What the select plugin gives jobs: cores of nodes that others share, or whole nodes; and
    whether memory is given too."""

    shares_nodes: bool = False
    counts_memory: bool = True

    @classmethod
    def of_config(cls, config: Mapping[str, str]) -> Self:
        """Return those of a Slurm, as `scontrol show config` has it."""
        plugin = config.get("SelectType", "").rpartition("/")[2]
        parameters = config.get("SelectTypeParameters", "").upper()
        is_shared = plugin in _SHARING and ("CR_CORE" in parameters or "CR_CPU" in parameters)
        return cls(is_shared, "MEMORY" in parameters)


@dataclass(frozen=True, slots=True)
class SlurmTerms:
    """What its jobs do not say: whose they are and on which clusters, the architecture that they
    ask for, and what is `uncounted` of their nodes and not asked of them."""

    site: Site
    architecture: str
    uncounted: Set[str] = frozenset()
    select: SelectRules = SelectRules()


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
    return RepairedFacts(told, message.repaired)


def _say_all(submitted: JobSubmitted, job: SlurmJob, terms: SlurmTerms) -> None:
    """Add what jobcomp does not know of a job: where it may run, what it needs beside nodes, and
    why it is held."""
    if not (unmapped := job.unmapped):
        _say_where(submitted, job)
        _say_what(submitted, job, terms.select)
    elif job.is_pending:
        submitted.held_because = printable(unmapped, MOST_REASON)
    if job.is_pending and job.is_held_by_user:
        submitted.held_because = submitted.held_because or _HELD_BY_USER
    submitted.is_interactive = job.is_interactive
    submitted.architectures.append(printable(terms.architecture))


def _say_where(submitted: JobSubmitted, job: SlurmJob) -> None:
    """Add where a job may run, as its user asked."""
    of = job.fields
    submitted.partitions.extend(job.partitions)
    submitted.features = text(of.get("features"))
    submitted.nodes_wanted.extend([job.wanted] if job.wanted else [])
    excluded = text(of.get("excluded_nodes"))
    submitted.nodes_excluded.extend([excluded] if excluded else [])


def _say_what(submitted: JobSubmitted, job: SlurmJob, select: SelectRules) -> None:
    """Add what it needs beside nodes, which tasks it has, and whether it accepts others."""
    submitted.licences.update(job.licences)
    submitted.reservation = printable(job.reservation)
    if job.is_array:
        submitted.array, submitted.array_at_most = job.tasks, job.most_tasks
    if select.shares_nodes and submitted.cores_per_unit and not job.is_alone:
        submitted.shareable = True
        if not select.counts_memory and not job.asked_memory:
            # Slurm shows the memory of the whole node.
            submitted.memory_gib_per_unit = 0.0
