"""By what placement decides: as its process was started, but for what was declared since."""

from dataclasses import replace
from typing import Any, Final, NamedTuple

from coplace.v1.control_pb2 import PolicyDeclared

from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from shared.catalogue.policy_declarations import declared, names_in
from shared.catalogue.policy_settings import DECLARABLE, PolicySettings
from shared.domain.eamc_policy import Policy
from shared.eamc.frequency import Weighing
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.events import EVENTS
from shared.streams.state.state import State

# What the candidates of jobs follow from: others than these weigh no job anew.
_WEIGHED_BY: Final = (
    "policy",
    "t_weight",
    "threshold",
    "reading",
    "max_slowdown",
    "quantile",
    "cap_slowdown",
)


class Ranking(NamedTuple):
    """What clusters are compared by: see shared.eamc.ranking.compare."""

    policy: Policy
    weighing: Weighing
    threshold: float


class EarlierRanking(NamedTuple):
    """By what those jobs were ranked that were weighed before a number of the updates."""

    number: int
    ranking: Ranking


def weighing_by(rules: PolicySettings) -> Weighing:
    """How time and energy are weighed."""
    return Weighing(rules.t_weight, rules.reading)


def ranking_by(rules: PolicySettings) -> Ranking:
    """What clusters are compared by."""
    return Ranking(rules.policy, weighing_by(rules), rules.threshold)


class PolicyInForce:
    """Folds declarations: of each setting the newest word counts, by (event time, id).

    Jobs that wait are weighed anew some in each round. Until its turn comes a job stands in the
    queue as it was weighed, so rules that no job was weighed by any more are forgotten only then.
    """

    def __init__(self, state: State, started: PolicySettings) -> None:
        """Raises UnusableError where a later release declared what this one does not know."""
        self.started = started
        self._words = state.table("policy", EVENTS)
        for name, event in self._words.items():
            _require_known(name, event)
        self._kept_earlier = state.value("policy-earlier", tuple[EarlierRanking, ...])
        self._earlier = self._kept_earlier.get() or ()
        self._follow(self._in_force())

    def declare(self, event: Event, message: PolicyDeclared) -> bool:
        """Whether jobs are to be weighed anew. Raises AlreadyAppliedError where something newer is
        known of all settings that the event names."""
        newer = [name for name in names_in(message) if _stamp(event) > _stamp(self.word(name))]
        if not newer:
            raise AlreadyAppliedError(event.id)
        before = self.now
        for name in newer:
            self._words.put(name, event)
        self._follow(self._in_force())
        return any(getattr(before, name) != getattr(self.now, name) for name in _WEIGHED_BY)

    def rank_earlier(self, number: int, ranking: Ranking) -> None:
        """Jobs that were weighed before this number of the updates stay ranked so."""
        self._rank_earlier((*self._earlier, EarlierRanking(number, ranking)))

    def _rank_earlier(self, earlier: tuple[EarlierRanking, ...]) -> None:
        self._earlier = earlier
        if earlier:
            self._kept_earlier.put(earlier)
        else:
            self._kept_earlier.drop()

    def _follow(self, rules: PolicySettings) -> None:
        self.now, self._ranking = rules, ranking_by(rules)

    def ranking_of(self, weighed: int) -> Ranking:
        """By what a job is ranked that was weighed at this number of the updates."""
        if not self._earlier:
            return self._ranking
        earlier = (ranking for number, ranking in self._earlier if weighed < number)
        return next(earlier, self._ranking)

    @property
    def has_earlier(self) -> bool:
        """Whether jobs may be ranked by other rules than those of now."""
        return bool(self._earlier)

    def forget_earlier(self, weighed: int) -> None:
        """No job that waits was weighed before this number of the updates."""
        kept = tuple([each for each in self._earlier if weighed < each.number])
        if kept != self._earlier:
            self._rank_earlier(kept)

    def word(self, name: str) -> Event | None:
        """What was said last of a setting; None where nobody said anything."""
        return self._words.get(name)

    def _in_force(self) -> PolicySettings:
        said = {name: event.payload for name, event in self._words.items()}
        found: dict[str, Any] = {}
        for name, message in said.items():
            values = declared(message) if isinstance(message, PolicyDeclared) else {}
            if name in values:
                found[name] = values[name]
        return replace(self.started, **found)


def told(rules: PolicySettings) -> dict[str, str]:
    """The settings that can be declared, as they are written."""
    return {name: each.write(getattr(rules, name)) for name, each in DECLARABLE.items()}


def _require_known(name: str, word: Event) -> None:
    """Raise UnusableError for a setting that is not known, unless it was reset."""
    message = word.payload
    is_reset = isinstance(message, PolicyDeclared) and name in message.reset
    if name not in DECLARABLE and not is_reset:
        raise UnusableError(
            f"{name} was declared by {word.source}, and this release does not know it: "
            f"`coplace policy reset {name}` under the release that does"
        )


def _stamp(event: Event | None) -> tuple[int, str]:
    return (event.time_us, event.id) if event else (0, "")
