"""The resource managers of a script: they do what they are asked to do to jobs that run, at once or
later, report it later still, and refuse some of it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event
from tests.core.runs import CLOCK, END, RESUME, SUSPEND, Action, Run, Runs
from tests.core.systems import Manage
from tests.unit.shared.placement import region

_REFUSABLE: Final = (CLOCK, SUSPEND, RESUME, END)
_PROMPT: Final = Manage(cluster=0)


class _Asked(NamedTuple):
    """What was asked of a job, and when that is done."""

    due_s: float
    action: Action
    decided: PlacementDecided


class Answer(NamedTuple):
    """What is reported of an action, from a time on: that it was done, or else refused."""

    due_s: float
    at_s: float
    job_id: str
    action: Action
    is_done: bool
    event: Event


@dataclass
class Managers:
    """Those of all clusters, and how the jobs really run that they have."""

    behaviour: dict[str, Manage] = field(default_factory=dict)
    truth: Runs = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    asked: dict[str, list[_Asked]] = field(default_factory=dict)

    def of(self, cluster: str) -> Manage:
        """How that of a cluster behaves."""
        return self.behaviour.get(cluster, _PROMPT)

    def run(self, job_id: str, run: Run) -> None:
        """A job begins to run."""
        self.truth[job_id] = run

    def gone(self, job_id: str) -> None:
        """A job runs no more: nobody does anything to it."""
        del self.truth[job_id]
        self.asked.pop(job_id, None)

    def ask(self, action: Action, decided: PlacementDecided) -> None:
        """Something is asked of the manager that runs a job."""
        due_s = action.asked_s + self.of(decided.cluster).acts_after_s
        asked = _Asked(due_s, action, decided)
        self.asked.setdefault(decided.job_id, []).append(asked)

    def act(self, now_s: float) -> Iterator[str]:
        """Of several actions on a job the newest is done. Yields jobs that are ended."""
        for job_id, asked in sorted(self.asked.items()):
            if min(each.due_s for each in asked) > now_s:
                continue
            del self.asked[job_id]
            manager = self.of(self.truth[job_id].cluster)
            refused = [each for each in asked if _refuses(manager, each.action)]
            for each in refused:
                event = region.refused(each.decided, round(now_s * 1e6))
                self._answer(manager, each, now_s, event, is_done=False)
            done = [each for each in asked if each not in refused]
            if done and done[-1].action.kind == END:
                yield job_id
            elif done:
                self.truth[job_id] = self.truth[job_id].done(done[-1].action, now_s)
                event = region.done(done[-1].decided, round(now_s * 1e6))
                self._answer(manager, done[-1], now_s, event, is_done=True)

    def _answer(
        self, manager: Manage, asked: _Asked, now_s: float, event: Event, *, is_done: bool
    ) -> None:
        due_s = now_s + manager.tells_after_s
        job_id = asked.decided.job_id
        self.answers.append(Answer(due_s, now_s, job_id, asked.action, is_done, event))

    def told(self, now_s: float) -> list[Answer]:
        """What is reported by now, in the order in which it was done."""
        told = [answer for answer in self.answers if answer.due_s <= now_s]
        self.answers = [answer for answer in self.answers if answer.due_s > now_s]
        return told

    def next_s(self, overrun: Collection[str]) -> list[float]:
        """When a job ends, something is done to one, or is reported."""
        ends_s = [run.ends_s for job_id, run in self.truth.items() if job_id not in overrun]
        acts_s = [each.due_s for asked in self.asked.values() for each in asked]
        return [*ends_s, *acts_s, *(answer.due_s for answer in self.answers), inf]


def _refuses(manager: Manage, action: Action) -> bool:
    return bool(manager.refuses >> _REFUSABLE.index(action.kind) & 1)
