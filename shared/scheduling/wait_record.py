"""How long jobs waited, beside what was forecast by EAMC's order when they came.

By it look-ahead knows whether its order gains, and how long it may have a job wait.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Final, NamedTuple, Protocol

from shared.scheduling.plan_evaluation import PlannedEntry, Situation

# One job of so many is forecast: a sample knows as well whether the order gains, for less work.
SAMPLED: Final = 4
# So many judged jobs make a record, count in it, and are judged before it tries again.
JUDGED: Final = 100
# So many standard errors are no chance.
_SURE: Final = 2.0
# How many times EAMC's longest forecast a job may wait. Forecasts know no arrivals: by EAMC's order
# too jobs wait nearly twice as long in the sum. This order may double that.
_LONGER: Final = 4.0


class WaitingEntry(Protocol):
    """What a record reads of a job that waits."""

    @property
    def submit_s(self) -> float: ...

    @property
    def usual(self) -> tuple[PlannedEntry, ...]: ...


class Forecast(NamedTuple):
    """When a job came, and when EAMC's order would have started it."""

    submit_s: float
    start_s: float


@dataclass(slots=True)
class WaitRecord:
    """Forecasts of the sampled jobs that wait, and what came of those that were judged.

    Forecasts know no arrivals: by EAMC's order too jobs wait longer than they say. How much longer
    is measured while the order rests, and expected from then on. `late_s` is by how much jobs
    waited longer than expected, `late_s2` the sum of the squares; each later job counts for
    1 / JUDGED more. The order loses where that is more than chance, after JUDGED jobs.
    """

    forecasts: dict[int, Forecast] = field(default_factory=dict)
    seen_s: float = 0.0
    newest: int = -1
    judged: int = 0
    late_s: float = 0.0
    late_s2: float = 0.0
    longest_s: float = 0.0
    resting: int = 0
    rest_forecast_s: float = 0.0
    rest_waited_s: float = 0.0

    @property
    def rests(self) -> bool:
        """Return whether EAMC's order is kept, since the record said that the other one loses."""
        return self.resting > 0

    @property
    def budget_s(self) -> float:
        """Return how long a job may wait before all others have to let it pass; 0 while no job was
        forecast to wait."""
        return _LONGER * self.longest_s

    @property
    def text(self) -> str:
        """Return the record in words."""
        if self.rests:
            return f"stepped back for {self.resting} judged jobs: the order lost by its record"
        of = min(self.judged, JUDGED)
        late_h = self.late_s / max(of, 1) / 3600
        return f"jobs waited {late_h:+.2f} h longer than expected, over the last {of} judged"

    @property
    def _longer(self) -> float:
        """Return how much longer than forecast jobs wait by EAMC's order."""
        if not self.rest_forecast_s:
            return 1.0
        return max(self.rest_waited_s / self.rest_forecast_s, 1.0)

    def follow(
        self, situation: Situation, waiting: Mapping[int, WaitingEntry], share: float
    ) -> None:
        """Judge the jobs that left since the last call, at which they started, and forecast those
        that came."""
        for arrival in sorted(self.forecasts.keys() - waiting.keys()):
            submit_s, start_s = self.forecasts.pop(arrival)
            self._judge(start_s - submit_s, self.seen_s - submit_s)
        self.seen_s = situation.now_s
        came = [number for number in waiting if number > self.newest]
        self.newest = max([self.newest, *came])
        if sampled := {number for number in came if number % SAMPLED == 0}:
            self._forecast(situation, waiting, share, sampled)

    def _forecast(
        self,
        situation: Situation,
        waiting: Mapping[int, WaitingEntry],
        share: float,
        sampled: Iterable[int],
    ) -> None:
        plan = [planned for job in waiting.values() for planned in job.usual]
        start_s = {s.planned.arrival: s.start_s for s in situation.evaluate(plan, share)}
        for number in sampled:
            if number in start_s:
                submit_s = waiting[number].submit_s
                self.forecasts[number] = Forecast(submit_s, start_s[number])

    def _judge(self, forecast_s: float, waited_s: float) -> None:
        self.longest_s = max((1 - 1 / JUDGED) * self.longest_s, forecast_s)
        if self.rests:
            self.rest_forecast_s += forecast_s
            self.rest_waited_s += waited_s
            self.resting -= 1
            return
        late_s = waited_s - self._longer * forecast_s
        kept = 1 - 1 / JUDGED if self.judged >= JUDGED else 1.0
        self.judged += 1
        self.late_s = kept * self.late_s + late_s
        self.late_s2 = kept * self.late_s2 + late_s * late_s
        if self.judged >= JUDGED and self.late_s > _SURE * sqrt(self.late_s2):
            self.resting, self.judged, self.late_s, self.late_s2 = JUDGED, 0, 0.0, 0.0
            self.rest_forecast_s, self.rest_waited_s = 0.0, 0.0
