"""The priority that Slurm would give a job that waits: pure.

Coplace holds jobs, and of a held job Slurm shows priority 0. So it is worked out as Slurm does it
(https://slurm.schedmd.com/priority_multifactor.html): the sum of factors from 0 to 1, each times
its weight, without the nice value. Whoever is not known to the accounts has no fair share.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, Self, TypeVar

from services.slurm.model.jobs import SlurmJob
from shared.slurm.answers import text
from shared.slurm.tres import amounts

_MULTIFACTOR: Final = "priority/multifactor"
# 0 is of held jobs; Slurm cuts what exceeds 32 bits.
LEAST: Final = 1
MOST: Final = 2**32 - 1
_DURATION: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,6}):(\d{1,2}):(\d{1,2})")
_FLAGS: Final = re.compile(r"^\s*PriorityFlags\s*=\s*(\S*)", re.IGNORECASE | re.MULTILINE)
_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_MINUTE_S: Final = 60
_MIB: Final = 2**20
# As Slurm counts minutes without an end.
_NO_END_MIN: Final = 2**32 - 1
_Value = TypeVar("_Value", int, float)


@dataclass(frozen=True, slots=True)
class PriorityRules:
    """The weights of the factors, and what `PriorityFlags` say of them (slurm.conf). `tres` has a
    weight a trackable resource, in small letters."""

    is_multifactor: bool = False
    age: float = 0.0
    association: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: Mapping[str, float] = field(default_factory=dict)
    max_age_s: int = 7 * _DAY_S
    favors_small: bool = False
    flags: frozenset[str] = frozenset()

    @classmethod
    def of_config(cls, config: Mapping[str, str]) -> Self:
        """Return those of a Slurm, as `scontrol show config` has them."""

        def weight(name: str) -> float:
            return _number(config.get(f"PriorityWeight{name}", ""))

        tres = (each.partition("=") for each in config.get("PriorityWeightTRES", "").split(","))
        return cls(
            is_multifactor=config.get("PriorityType", "") == _MULTIFACTOR,
            age=weight("Age"),
            association=weight("Assoc"),
            fair_share=weight("FairShare"),
            job_size=weight("JobSize"),
            partition=weight("Partition"),
            qos=weight("QOS"),
            tres={name.lower(): _number(said) for name, _, said in tres if _number(said)},
            max_age_s=duration_s(config.get("PriorityMaxAge", "")),
            favors_small=config.get("PriorityFavorSmall", "").lower() in ("yes", "1"),
            flags=frozenset(config.get("PriorityFlags", "").upper().split(",")),
        )

    def is_raw(self, kind: str) -> bool:
        """Return whether a kind of factor (ASSOC, PART, QOS, TRES) is taken as it is, and not as a
        part of the largest there is."""
        return not self.flags.isdisjoint(("NO_NORMAL_ALL", f"NO_NORMAL_{kind}"))

    def with_flags_of(self, conf: str) -> "PriorityRules":
        """Return them with the flags of the text of slurm.conf. Slurm shows each NO_NORMAL flag as
        NO_NORMAL_ALL."""
        said = _FLAGS.findall(conf)
        return replace(self, flags=frozenset(said[-1].upper().split(","))) if said else self

    @property
    def only_grows(self) -> bool:
        """Return whether no priority becomes less."""
        return "INCR_ONLY" in self.flags

    @property
    def growth_per_s(self) -> float:
        """Return by how much the priority of a job grows in a second, until it has waited for
        `max_age_s`."""
        is_growing = self.is_multifactor and self.max_age_s
        return self.age / self.max_age_s if is_growing else 0.0


class Association(NamedTuple):
    """A user in an account, and in a partition where the association is of one."""

    account: str
    user: str
    partition: str = ""


class PartitionTerms(NamedTuple):
    """What a partition adds to the priority of its jobs, its tier, the time that jobs have in it
    (minutes), and what it has of each trackable resource."""

    tier: int = 1
    job_factor: int = 0
    max_time_min: int = _NO_END_MIN
    tres: Mapping[str, float] = {}


@dataclass(frozen=True)
class QueueTerms:
    """What Slurm takes the priorities of its jobs from, beside these; `nodes` and `cpus` are those
    of the whole Slurm, which `gives_whole_nodes` where its select plugin gives no single cores."""

    rules: PriorityRules = field(default_factory=PriorityRules)
    partitions: Mapping[str, PartitionTerms] = field(default_factory=dict)
    nodes: int = 0
    cpus: int = 0
    gives_whole_nodes: bool = False
    fair_shares: Mapping[Association, float] = field(default_factory=dict)
    associations: Mapping[Association, int] = field(default_factory=dict)
    qos: Mapping[str, int] = field(default_factory=dict)

    def partition(self, name: str) -> PartitionTerms:
        """Return what is known of a partition."""
        return self.partitions.get(name, _UNKNOWN)

    @cached_property
    def most_factor(self) -> int:
        """Return the largest `PriorityJobFactor`."""
        return max((each.job_factor for each in self.partitions.values()), default=0)

    @cached_property
    def most_association(self) -> int:
        """Return the largest priority of an association."""
        return max(self.associations.values(), default=0)

    @cached_property
    def most_qos(self) -> int:
        """Return the largest priority of a QOS."""
        return max(self.qos.values(), default=0)

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        """Return the tiers of partitions, from the last to the first."""
        return tuple(sorted({each.tier for each in self.partitions.values()}))


_UNKNOWN: Final = PartitionTerms()


def priority(job: SlurmJob, partition: str, terms: QueueTerms, age_s: float) -> float:
    """Return the priority of a job in a partition, before Slurm cuts it to a whole number from 1 to
    2^32 - 1, where it has waited for so long."""
    rules, size = terms.rules, _amounts(text(job.fields.get("tres_req_str")))
    there, qos = terms.partition(partition), terms.qos.get(text(job.fields.get("qos")), 0)
    association = _found(terms.associations, job, partition) or 0
    return (
        rules.age * _age(rules, age_s)
        + rules.association * _normal(rules, "ASSOC", association, terms.most_association)
        + rules.fair_share * (_found(terms.fair_shares, job, partition) or 0.0)
        + (rules.job_size * _job_size(job, size, there, terms) if rules.job_size else 0.0)
        + rules.partition * _normal(rules, "PART", there.job_factor, terms.most_factor)
        + rules.qos * _normal(rules, "QOS", qos, terms.most_qos)
        + sum(weight * _tres(rules, name, size, there.tres) for name, weight in rules.tres.items())
        - job.nice
    )


def whole(found: float) -> int:
    """Return a priority as Slurm shows it."""
    return int(min(max(found, LEAST), MOST))


def waits_since_s(job: SlurmJob, rules: PriorityRules) -> int:
    """Return since when a job becomes older (s since 1970); 0: it does not. Slurm notes it when a
    job may start; of a held one it notes the begin time that its user asked for, and of one that
    was released before when that was."""
    if "ACCRUE_ALWAYS" in rules.flags:
        return job.submit_s
    if not job.was_released and (noted_s := job.asked("accrue_time") or job.asked("eligible_time")):
        return noted_s
    return 0 if text(job.fields.get("dependency")) else job.submit_s


def duration_s(said: str) -> int:
    """Return a time such as 7-00:00:00 in seconds; 0 for what is none."""
    found = _DURATION.fullmatch(said)
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return days * _DAY_S + hours * _HOUR_S + minutes * _MINUTE_S + seconds


# Most jobs ask for what others ask for.
_amounts = lru_cache(maxsize=4_096)(amounts)


def _age(rules: PriorityRules, age_s: float) -> float:
    return 1.0 if age_s >= rules.max_age_s else max(age_s, 0.0) / rules.max_age_s


def _normal(rules: PriorityRules, kind: str, of: float, most: float) -> float:
    """A priority as a part of the largest there is."""
    if rules.is_raw(kind):
        return of
    return of / most if most > 0 else 0.0


def _found(of: Mapping[Association, _Value], job: SlurmJob, partition: str) -> _Value | None:
    """What is said of the association of a job: of its partition before all others."""
    who = text(job.fields.get("account")), text(job.fields.get("user_name"))
    found = of.get(Association(*who, partition))
    return found if found is not None else of.get(Association(*who))


def _job_size(
    job: SlurmJob, size: Mapping[str, float], there: PartitionTerms, terms: QueueTerms
) -> float:
    """How large a job is beside the Slurm: by nodes and by CPUs, half each. With
    SMALL_RELATIVE_TO_TIME its CPUs a minute of its limit. Slurm counts the CPUs that it would get,
    as soon as it has tried to start it: one a node at least, and all of nodes that nobody
    shares."""
    rules, all_nodes, all_cpus = terms.rules, terms.nodes, terms.cpus
    if not (all_nodes and all_cpus):
        return 0.0
    nodes = size.get("node") or job.least_nodes or 1
    cpus = max(job.asked("cpus") or size.get("cpu", 0.0), job.asked("node_count"))
    if job.is_alone or terms.gives_whole_nodes:
        cpus = max(cpus, nodes * all_cpus / all_nodes)
    if "SMALL_RELATIVE_TO_TIME" in rules.flags:
        limit_min = job.asked("time_limit") or there.max_time_min
        part = max(nodes * all_cpus / all_nodes, cpus) / max(limit_min, 1) / all_cpus
    else:
        part = nodes / all_nodes
        part = (part + cpus / all_cpus) / 2 if cpus else part
    return min(max(1 - part if rules.favors_small else part, 0.0), 1.0)


def _tres(
    rules: PriorityRules, name: str, asked: Mapping[str, float], there: Mapping[str, float]
) -> float:
    """How much of a resource of its partition a job asks for; memory as it is counts in MiB."""
    if not (asked.get(name) and there.get(name)):
        return 0.0
    if rules.is_raw("TRES"):
        return asked[name] / _MIB if name == "mem" else asked[name]
    return asked[name] / there[name]


def _number(said: str) -> float:
    try:
        return max(float(said), 0.0)
    except ValueError:
        return 0.0
