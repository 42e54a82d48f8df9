"""Arrays of tasks that need licences of their cluster, its site and the region, which are declared
anew meanwhile: each is counted by hand."""

from dataclasses import dataclass, field
from typing import Final

from coplace.v1.placement_service_pb2 import JOB_STANDING_HELD, ListLicencesRequest

from tests.eligibility.array_plays import ACTIVE, ArrayPlay, Submitted, Task
from tests.eligibility.oracle import State
from tests.eligibility.plays import CLUSTER
from tests.unit.shared.placement import region

PLACES: Final = (CLUSTER, "site", "")
NAMES: Final = ("ansys", "matlab")


@dataclass
class LicencePlay(ArrayPlay):
    """One seed."""

    # By name and place, how many there are.
    pools: dict[tuple[str, str], int] = field(default_factory=dict)

    def _happen(self) -> None:
        if not self.pools or self._rng.random() < 0.1:
            self._declare()
        super()._happen()

    def _declare(self) -> None:
        """Some name gets another number somewhere, or none."""
        key = self._rng.choice(NAMES), self._rng.choice(PLACES)
        count = self._rng.choice([None, 0, 1, 2, 3, 4, 5, 6])
        if count is None and key not in self.pools:
            return
        self._tell(region.licences(key[0], count, key[1], self._at_us()))
        self.pools.pop(key, None)
        if count is not None:
            self.pools[key] = count

    def _licences(self) -> dict[str, int]:
        named = self._rng.sample(NAMES, self._rng.choice([0, 1, 1, 2]))
        return {name: self._rng.choice([1, 1, 2, 3]) for name in named}

    # What there is ----------------------------------------------------------------------------

    def _in_use(self, name: str) -> int:
        active = [task for task in self._by_id.values() if task.state in ACTIVE]
        return sum(self._all[task.of].licences.get(name, 0) for task in active)

    def _is_ever_enough(self, submitted: Submitted) -> bool:
        """Whether the cluster has each name, in all places as many as are needed."""
        return all(
            (counts := [most for (of, _), most in self.pools.items() if of == name])
            and count <= min(counts)
            for name, count in submitted.licences.items()
        )

    def _gets_licences(self, task: Task) -> bool:
        return all(
            self._in_use(name) + needed <= most
            for name, needed in self._all[task.of].licences.items()
            for (of, _), most in self.pools.items()
            if of == name
        )

    def why_not(self, task: Task) -> str:
        """Why a task that waits may not start, but for nodes and for what others have."""
        if not self._is_ever_enough(self._all[task.of]):
            return "there are fewer licences in all"
        return super().why_not(task)

    # What was decided -------------------------------------------------------------------------

    def _judge_start(self, task: Task) -> None:
        if not self._gets_licences(task):
            self._violated(f"{task.job_id} starts beyond {self.pools}")

    def _end_round(self) -> None:
        super()._end_round()
        listed = self._steady.queries.licences(ListLicencesRequest()).licences
        found = {
            (each.licences.name, each.licences.place): (each.licences.count, each.in_use)
            for each in listed
        }
        right = {key: (most, self._in_use(key[0])) for key, most in self.pools.items()}
        if found != right:
            self._violated(f"there are {found}, should be {right}")
        for task in self._waiting():
            self._judge_held(task)

    def _judge_held(self, task: Task) -> None:
        """What can never be is said to be held, and what may be is not for that."""
        answer = self._steady.queries.answer(task.job_id)
        submitted = self._all[task.of]
        if answer is None or not submitted.licences or task.is_held:
            return
        lacks = "licences of that name" in answer.reason or "can give a job" in answer.reason
        is_right = lacks != self._is_ever_enough(submitted)
        is_held = answer.standing == JOB_STANDING_HELD
        if not is_right or (lacks and not is_held):
            self._violated(f"{task.job_id} is said to wait for {answer.reason}")

    def _require_none_lost(self) -> None:
        """Each task ended, but those that wait for what never happens."""
        for name in NAMES:
            for place in PLACES:
                self._tell(region.licences(name, 9, place, self._at_us()))
                self.pools[name, place] = 9
        for _ in range(200):
            self._end_round()
            if self.violations or not self._drain():
                break
        super()._require_none_lost()


def started(play: LicencePlay) -> int:
    """How many tasks that need licences had nodes."""
    tasks = play._by_id.values()
    return sum(t.state is not State.WAITS and bool(play._all[t.of].licences) for t in tasks)
