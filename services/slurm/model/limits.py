"""Limits of QOS and associations in Slurm that placement keeps too, and why it waits for others:
pure.

Both count what runs at once (https://slurm.schedmd.com/resource_limits.html): jobs, nodes, CPUs and
generic resources of a QOS (`Grp`), and of each user (`PU`) or account (`PA`) in it; of an account,
and of each user in it. Limits that have no equal are in docs/how-to/slurm.md. A limit of 0 is none
in Coplace, and has no equal either.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
    LimitsDeclared,
    LimitSubject,
)

from services.slurm.model.jobs import SlurmJob
from shared.domain.printable import printable
from shared.slurm.tres import Tres, is_of_nodes, most_important

QOS_FIELDS: Final = "format=Name,GrpJobs,GrpTRES,MaxJobsPU,MaxTRESPU,MaxJobsPA,MaxTRESPA"
ASSOCIATION_FIELDS: Final = "format=Account,User,Partition,GrpJobs,GrpTRES,MaxJobs,ParentName"
_MOST: Final = 2**31 - 1
# As slurm.conf says that limits are enforced; `safe` is more.
_ENFORCED: Final = frozenset({"limits", "safe", "all"})
# As releases name the limit for which they do not start a job.
_REASON: Final = re.compile(
    r"(?:QOS|Assoc)\w*(?:Limit|NotSatisfied|Threshold|NotAllowed)|MaxBillingPerAccount"
)


class Amounts(NamedTuple):
    """The most at once, without resources where none are limited; 0: any number."""

    jobs: int = 0
    nodes: int = 0
    cores: int = 0
    resources: tuple[tuple[str, int], ...] = ()

    @classmethod
    def read(cls, jobs: str, tres: str) -> "Amounts":
        """Read a number of jobs, and a list of resources, of which those are kept that nodes have
        in whole numbers."""
        found = Tres.parse(tres)
        gres = {name: count for name, count in found.gres.items() if is_of_nodes(count)}
        most = most_important(gres)
        return cls(
            _count(jobs),
            min(found.nodes, _MOST),
            min(found.cpus, _MOST),
            tuple(sorted(most.items())),
        )

    def within(self, other: "Amounts") -> "Amounts":
        """Return the tighter of two, amount by amount."""
        resources = dict(other.resources)
        for name, count in self.resources:
            resources[name] = min(count, resources.get(name, count))
        return Amounts(
            _tighter(self.jobs, other.jobs),
            _tighter(self.nodes, other.nodes),
            _tighter(self.cores, other.cores),
            tuple(sorted(resources.items())),
        )

    def around(self, other: "Amounts") -> "Amounts":
        """Return the looser of two, amount by amount: what only one limits is not."""
        theirs = dict(other.resources)
        resources = {name: max(n, theirs[name]) for name, n in self.resources if name in theirs}
        return Amounts(
            _looser(self.jobs, other.jobs),
            _looser(self.nodes, other.nodes),
            _looser(self.cores, other.cores),
            tuple(sorted(resources.items())),
        )


_NONE: Final = Amounts()


class _AssociationRow(NamedTuple):
    """A row of associations. `own` is what it says itself, of all together below an account."""

    account: str
    user: str
    partition: str
    together: Amounts
    most_jobs: str
    above: str


def enforces_limits(config: Mapping[str, str]) -> bool:
    """Return whether a Slurm, as `scontrol show config` has it, starts no job beyond its limits."""
    said = config.get("AccountingStorageEnforce", "").lower().split(",")
    has_accounts = "slurmdbd" in config.get("AccountingStorageType", "")
    return has_accounts and not _ENFORCED.isdisjoint(said)


def limits_of(
    qos: Iterable[Sequence[str]], associations: Iterable[Sequence[str]], site: str
) -> list[LimitsDeclared]:
    """Return the limits that rows of `sacctmgr` with `QOS_FIELDS` and `ASSOCIATION_FIELDS` name,
    one a subject, as they hold at a site: another Slurm has its own under the same names."""
    found = [*_of_qos(qos), *_of_associations(associations)]
    named = [each for each in found if printable(each.name) == each.name != ""]
    for each in named:
        each.site = site
    return named


def limited_by(job: SlurmJob) -> str:
    """Return the limit for which Slurm does not start a job that was released; empty: none."""
    if not (job.is_pending and job.word.is_started) or job.is_held or job.is_given_back:
        return ""
    return next((each for each in job.state_reasons if _REASON.fullmatch(each)), "")


def _of_qos(rows: Iterable[Sequence[str]]) -> Iterator[LimitsDeclared]:
    subjects = (LIMIT_SUBJECT_UNSPECIFIED, LIMIT_SUBJECT_USER, LIMIT_SUBJECT_ACCOUNT)
    for row in rows:
        if len(row) < 7:
            continue
        name, said = "|".join(row[:-6]), row[-6:]
        for each, jobs, tres in zip(subjects, said[::2], said[1::2], strict=True):
            yield from _declared(LIMIT_SUBJECT_QOS, name, Amounts.read(jobs, tres), each)


def _of_associations(rows: Iterable[Sequence[str]]) -> Iterator[LimitsDeclared]:
    """Of each account what all have together; and what each user in it has, the most of any where
    they differ. A user of one association has the limits of that too."""
    known = [
        _AssociationRow(
            row[0], "|".join(row[1:-5]), row[-5], Amounts.read(*row[-4:-2]), row[-2], row[-1]
        )
        for row in rows
        if len(row) >= 7
    ]
    accounts = {row.account: row for row in known if not row.user}
    of_user: dict[str, list[_AssociationRow]] = {}
    each_in: dict[str, Amounts] = {}
    for row in known:
        if not row.user:
            yield from _declared(LIMIT_SUBJECT_ACCOUNT, row.account, row.together)
            continue
        of_user.setdefault(row.user, []).append(row)
        most = _of_one(row, accounts)
        before = each_in.get(row.account)
        each_in[row.account] = most if before is None else before.around(most)
    for account, most in each_in.items():
        yield from _declared(LIMIT_SUBJECT_ACCOUNT, account, most, LIMIT_SUBJECT_USER)
    for user, own in of_user.items():
        if len(own) == 1 and (own[0].together != _NONE or own[0].most_jobs):
            yield from _declared(LIMIT_SUBJECT_USER, user, _of_one(own[0], accounts))


def _of_one(row: _AssociationRow, accounts: Mapping[str, _AssociationRow]) -> Amounts:
    """What a user has in an account: his own number of jobs, else that of the account, or of the
    next one above that has one. In a partition it is no limit of all his jobs."""
    if row.partition:
        return _NONE
    jobs, account, seen = row.most_jobs, row.account, set[str]()
    while not jobs and account in accounts and account not in seen:
        seen.add(account)
        jobs, account = accounts[account].most_jobs, accounts[account].above
    return row.together.within(Amounts(_count(jobs)))


def _declared(
    subject: LimitSubject.ValueType,
    name: str,
    most: Amounts,
    each: LimitSubject.ValueType = LIMIT_SUBJECT_UNSPECIFIED,
) -> Iterator[LimitsDeclared]:
    if most != _NONE:
        yield LimitsDeclared(
            subject=subject,
            name=name,
            each=each,
            most_running_jobs=most.jobs,
            most_nodes=most.nodes,
            most_cores=most.cores,
            most_resources=dict(most.resources),
        )


def _tighter(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


def _looser(one: int, other: int) -> int:
    return max(one, other) if one and other else 0


def _count(said: str) -> int:
    """0 for what is none."""
    return min(int(said), _MOST) if said.isdecimal() and len(said) <= 10 else 0
