"""The places of waiting jobs where resource managers own the order: a number each, in their order.

Strictly by priority, ties by the manager's own sequence, then by id; numbers in both compare as
numbers. The tasks of an array share a number and go by their indices. Jobs without a priority go
behind all others, by arrival.

The numbers leave gaps. So a job that arrives, or goes elsewhere, changes no other's number but
where a gap is full, and thousands of new priorities that leave most jobs in their order change few.
Which numbers there are depends on what came before, their order does not: nothing else counts.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from shared.domain.natural_order import NaturalKey, natural
from shared.domain.queue_order import QueueOrder
from shared.placement.decide.gapped_numbers import MOST, renumbered
from shared.placement.state.job_record import JobRecord
from shared.placement.state.policy_in_force import PolicyInForce
from shared.scheduling.wait_queue import order_of

# The ordinal of a task among those of its array. With the numbers of jobs and the rank of a cluster
# it makes 62 bits, one of which is for jobs without a priority.
_TASK_BITS: Final = 17
_MOST_RANK: Final = 255

# An array with its priority, or a job with none.
_Group = tuple[str, int]
# Ascending as the groups are served: priority, sequence, id.
_Key = tuple[int, NaturalKey, NaturalKey]


class ManagerOrder:
    """Keeps the numbers of the jobs that wait, while the policy leaves the order to managers."""

    def __init__(self, rules: PolicyInForce, take_reordered: Callable[[], set[str]]) -> None:
        self._rules, self._take_reordered = rules, take_reordered
        self._groups: dict[str, _Group] = {}  # by job
        self._members: dict[_Group, set[str]] = defaultdict(set)
        self._keys: dict[_Group, _Key] = {}
        self._numbers: dict[_Group, int] = {}
        # As they are served; some may wait no more.
        self._sorted: list[_Group] = []
        self._is_stale = False

    @property
    def is_in_force(self) -> bool:
        """Return whether resource managers own the order."""
        return self._rules.now.order is QueueOrder.MANAGER

    def take_reordered(self) -> set[str]:
        """Return the ids of the jobs that managers reordered since the last call; none where that
        is of no consequence."""
        ids = self._take_reordered()
        return ids if self.is_in_force else set()

    def settle(self, jobs: Iterable[JobRecord]) -> set[str]:
        """Give these jobs, which wait, their numbers; return the ids of all that have other places
        now."""
        if not self.is_in_force:
            if self._groups:
                self._clear()
            return set()
        changed = {job.job.job_id for job in jobs if self._join(job)}
        if self._is_stale:
            self._is_stale = False
            for group in self._number():
                changed |= self._members[group]
        return changed

    def leave(self, job_id: str) -> bool:
        """Drop a job that waits no more; return whether it had a number."""
        group = self._groups.pop(job_id, None)
        if group is None:
            return False
        members = self._members[group]
        members.discard(job_id)
        if not members:
            del self._members[group], self._keys[group]
            self._numbers.pop(group, None)
        return True

    def order(self, job: JobRecord, rank: int) -> int:
        """Return the sort key of a job's entry for the cluster of this rank; that of an array is
        such that those of its tasks follow from it by their arrival numbers."""
        group = self._groups.get(job.job.job_id)
        if group is not None:
            place = self._numbers[group] << _TASK_BITS
            if job.progress is not None:
                place -= job.progress.first_arrival - job.arrival
            else:
                place += job.job.array_ordinal
        elif job.manager_priority:
            # A job of a question: behind all tasks of whoever is before it.
            place = ((self._number_before(job) + 1) << _TASK_BITS) - 1
        else:
            place = (MOST << _TASK_BITS) + job.arrival
        return order_of(0, place, min(rank, _MOST_RANK))

    def _join(self, job: JobRecord) -> bool:
        """Put a job into its group; return whether that is another one."""
        job_id, priority = job.job.job_id, job.manager_priority
        if not priority:
            return self.leave(job_id)
        array_id = job_id if job.progress is not None else job.job.array_id
        group = (array_id, priority) if array_id else (job_id, 0)
        known, is_member = self._keys.get(group), self._groups.get(job_id) == group
        is_same = known is not None and (-known[0], known[1][1]) == (priority, job.job.sequence)
        if is_same and is_member:
            return False
        if not is_member:
            self.leave(job_id)
            self._groups[job_id] = group
            self._members[group].add(job_id)
        if not is_same:
            # It keeps its number until all are sorted: most often its neighbours are the same.
            self._keys[group] = _key(job, group, known)
            self._is_stale = True
        return not is_member

    def _number(self) -> list[_Group]:
        """Sort the groups; return those that got another number."""
        known = [group for group in self._sorted if group in self._keys]
        added = self._keys.keys() - set(known)
        self._sorted = sorted([*known, *sorted(added)], key=self._keys.__getitem__)
        before = [self._numbers.get(group, 0) for group in self._sorted]
        pairs = zip(self._sorted, before, renumbered(before), strict=True)
        changed = [(group, number) for group, old, number in pairs if old != number]
        self._numbers.update(changed)
        return [group for group, _ in changed]

    def _number_before(self, job: JobRecord) -> int:
        """Return the number before which a job would come that does not wait; 0 for the first."""
        known = [group for group in self._sorted if group in self._keys]
        key = _key(job, (job.job.job_id, 0))
        at = bisect_left(known, key, key=self._keys.__getitem__)
        return self._numbers[known[at - 1]] if at else 0

    def _clear(self) -> None:
        for kept in (self._groups, self._members, self._keys, self._numbers, self._sorted):
            kept.clear()
        self._is_stale = False


def _key(job: JobRecord, group: _Group, before: _Key | None = None) -> _Key:
    """Return the key of a group, of which the job is one; what it had before is worked out once."""
    if before is not None and before[1][1] == job.job.sequence:
        return -job.manager_priority, before[1], before[2]
    return -job.manager_priority, natural(job.job.sequence), natural(group[0])
