"""What Slurm's commands say of partitions, nodes, fair shares, associations and QOS: pure.

Nothing in it is believed: invalid rows are left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from services.slurm.model.priority import Association, PartitionTerms, duration_s
from shared.slurm.tres import amounts

_MINUTE_S: Final = 60
_NO_END_MIN: Final = PartitionTerms().max_time_min


def partitions_of(records: Iterable[Mapping[str, str]]) -> dict[str, PartitionTerms]:
    """Return the partitions of `scontrol show partition`, by name."""
    return {
        record["PartitionName"]: PartitionTerms(
            tier=_whole(record.get("PriorityTier", ""), 1),
            job_factor=_whole(record.get("PriorityJobFactor", "")),
            max_time_min=duration_s(record.get("MaxTime", "")) // _MINUTE_S or _NO_END_MIN,
            tres=amounts(record.get("TRES", "")),
        )
        for record in records
        if "PartitionName" in record
    }


def size_of(records: Iterable[Mapping[str, str]]) -> tuple[int, int]:
    """Return how many nodes there are in `scontrol show nodes`, and their CPUs together."""
    cpus = [_whole(record.get("CPUTot", "")) for record in records if "NodeName" in record]
    return len(cpus), sum(cpus)


def fair_shares_of(rows: Iterable[Sequence[str]]) -> dict[Association, float]:
    """Return the factors of `sshare`, whose rows have an account, a user, a partition and the
    factor. Names may have bars; accounts have none of a user."""
    found: dict[Association, float] = {}
    for row in rows:
        if len(row) < 4 or not (user := "|".join(row[1:-2]).strip()):
            continue
        try:
            factor = float(row[-1])
        except ValueError:
            continue
        if 0 <= factor <= 1:
            found[Association(row[0].strip(), user, row[-2].strip())] = factor
    return found


def associations_of(rows: Iterable[Sequence[str]]) -> dict[Association, int]:
    """Return the priorities of `sacctmgr show associations`, whose rows have an account, a user, a
    partition, a priority and the account above. A row without one has that of the account above."""
    own: dict[Association, int | None] = {}
    above: dict[str, str] = {}
    for row in rows:
        if len(row) < 5:
            continue
        account, user = row[0], "|".join(row[1:-3])
        own[Association(account, user, row[-3])] = _whole(row[-2]) if row[-2] else None
        if not user:
            above[account] = row[-1]
    return {
        each: value if value is not None else _inherited(each, own, above)
        for each, value in own.items()
    }


def _inherited(
    each: Association, own: Mapping[Association, int | None], above: Mapping[str, str]
) -> int:
    for account in _upwards(each.account, above):
        if (found := own.get(Association(account, ""))) is not None:
            return found
    return 0


def _upwards(account: str, above: Mapping[str, str]) -> Iterator[str]:
    """Yield an account and those above it, each once."""
    seen: set[str] = set()
    while account and account not in seen:
        seen.add(account)
        yield account
        account = above.get(account, "")


def qos_of(rows: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return the priorities of `sacctmgr show qos`, whose rows have a name and a priority."""
    return {"|".join(row[:-1]): _whole(row[-1]) for row in rows if len(row) > 1}


def _whole(said: str, otherwise: int = 0) -> int:
    return int(said) if said.isdecimal() and len(said) <= 10 else otherwise
