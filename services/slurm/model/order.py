"""The order in which Slurm would take the jobs that wait, as numbers for placement: pure.

Slurm takes them by the tier of their partition, then by priority, then by number. All priorities
grow with time, most of them alike. So what is said is the priority that a job will have at a time
that lies ahead, if it grows until then: that stays the same while it waits, and has the order that
Slurm has now.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from services.slurm.model.jobs import SlurmJob
from services.slurm.model.priority import LEAST, MOST, QueueTerms, priority, waits_since_s, whole

# Rounds in which those are looked for that have other places: a few are enough, or all are said.
_MOST_ROUNDS: Final = 4
# The same time is not the same number to the last bit.
_DIGITS: Final = 6
_Key = tuple[int, int, str]


def manager_priority(
    job: SlurmJob, terms: QueueTerms, now_s: float, ahead_s: float, since_s: float | None = None
) -> int:
    """Return the number of a job that waits, 1 to 2^32 - 1. It is that of the partition that takes
    it first, with the growth of `ahead_s` seconds. `since_s` is since when it may start, where that
    was seen. Without priority/multifactor all of one tier have the same, and go by their numbers.
    """
    rules = terms.rules
    since = waits_since_s(job, rules) if since_s is None else since_s
    age_s = max(now_s - since, 0.0) if since else 0.0
    grown = rules.growth_per_s * max(ahead_s, 0.0)
    found = []
    for name in job.partitions or [""]:
        tier = terms.partition(name).tier
        exact = priority(job, name, terms, age_s) if rules.is_multifactor else 0.0
        found.append((tier, whole(round(max(exact, LEAST) + grown, _DIGITS))))
    return _within_tier(*max(found), terms)


def _within_tier(tier: int, number: int, terms: QueueTerms) -> int:
    """A number above those of all lower tiers, which share the 32 bits evenly."""
    tiers = terms.tiers if tier in terms.tiers else sorted({*terms.tiers, tier})
    if len(tiers) == 1:
        return number
    band = (MOST + 1) // len(tiers)
    return tiers.index(tier) * band + min(number, band - 1)


def to_say(said: Mapping[str, int], now: Mapping[str, int], jobs: Mapping[str, int]) -> set[str]:
    """Return the ids of the jobs whose numbers have to be said so that all are in the order of
    `now`: those of which nothing was `said`, and few others. `jobs` are Slurm's numbers of them, by
    which ties go."""
    wanted = sorted(now, key=lambda job_id: (-now[job_id], jobs[job_id], job_id))
    saying = {job_id for job_id in wanted if job_id not in said}
    for _ in range(_MOST_ROUNDS):
        keys = [
            (-(now if job_id in saying else said)[job_id], jobs[job_id], job_id)
            for job_id in wanted
        ]
        displaced = [wanted[at] for at in _out_of_order(keys)]
        if not displaced:
            return {job_id for job_id in saying if said.get(job_id) != now[job_id]}
        if saying.issuperset(displaced):
            break
        saying.update(displaced)
    return {job_id for job_id in wanted if said.get(job_id) != now[job_id]}


def _out_of_order(keys: Sequence[_Key]) -> list[int]:
    """Return the positions of the fewest keys without which the others ascend."""
    ends: list[_Key] = []
    at_end: list[int] = []
    before: list[int] = []
    for at, key in enumerate(keys):
        length = bisect_left(ends, key)
        before.append(at_end[length - 1] if length else -1)
        ends[length : length + 1] = [key]
        at_end[length : length + 1] = [at]
    kept: set[int] = set()
    at = at_end[-1] if at_end else -1
    while at >= 0:
        kept.add(at)
        at = before[at]
    return [at for at in range(len(keys)) if at not in kept]
