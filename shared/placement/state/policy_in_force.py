"""The policy that placement decides by: as its process was started, plus what was declared
since."""

from dataclasses import replace
from typing import Any, Final, NamedTuple

from coplace.v1.control_pb2 import PolicyDeclared

from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from shared.catalogue.policy_declarations import declared, names_in
from shared.catalogue.policy_settings import DECLARABLE, PolicySettings
from shared.domain.eamc_policy import Policy
from shared.eamc.frequency import Weighing
from shared.placement.state.stamps import Stamp, is_ahead, require_newer, set_event_back, stamp_of
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.events import EVENTS
from shared.streams.state.state import State

# What the candidates of jobs follow from: only changes of these evaluate jobs anew.
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
    """How those jobs were ranked that were evaluated before a number of the updates."""

    number: int
    ranking: Ranking


def weighing_by(rules: PolicySettings) -> Weighing:
    """Return how time and energy are weighted."""
    return Weighing(rules.t_weight, rules.reading)


def ranking_by(rules: PolicySettings) -> Ranking:
    """Return what clusters are compared by."""
    return Ranking(rules.policy, weighing_by(rules), rules.threshold)


class PolicyInForce:
    """Folds declarations: of each setting the newest counts, by (event time, id).

    Jobs that wait are evaluated anew some in each round. Until its turn comes a job stays in the
    queue as it was evaluated, so rules that no job was evaluated by any more are forgotten only
    then.
    """

    def __init__(self, state: State, started: PolicySettings) -> None:
        """Raise UnusableError where a later release declared what this one does not know."""
        self.started = started
        self._words = state.table("policy", EVENTS)
        for name, event in self._words.items():
            _require_known(name, event)
        self._kept_earlier = state.value("policy-earlier", tuple[EarlierRanking, ...])
        self._earlier = self._kept_earlier.get() or ()
        self._follow(self._in_force())

    def declare(self, event: Event, message: PolicyDeclared) -> bool:
        """Fold a declaration; return whether jobs are to be evaluated anew. Raises
        AlreadyAppliedError for a copy, and where something newer is known of all settings that the
        event names."""
        names = list(names_in(message))
        newer = [name for name in names if stamp_of(event) > self._stamp(name)]
        if not newer or any(event.id == self._stamp(name)[1] for name in names):
            require_newer(event, min(map(self._stamp, names), default=stamp_of(event)))
            raise AlreadyAppliedError(event.id)
        before = self.now
        for name in newer:
            self._words.put(name, event)
        self._follow(self._in_force())
        return any(getattr(before, name) != getattr(self.now, name) for name in _WEIGHED_BY)

    def set_back(self, ended_us: int) -> None:
        """Set back what was declared from a clock ahead of the end of this round."""
        for name, event in list(self._words.items()):
            if is_ahead(event.time_us, ended_us):
                self._words.put(name, set_event_back(event, ended_us))

    def rank_earlier(self, number: int, ranking: Ranking) -> None:
        """Keep the ranking of jobs that were evaluated before this number of the updates."""
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
        """Return what ranks a job that was evaluated at this number of the updates."""
        if not self._earlier:
            return self._ranking
        earlier = (ranking for number, ranking in self._earlier if weighed < number)
        return next(earlier, self._ranking)

    @property
    def has_earlier(self) -> bool:
        """Return whether jobs may be ranked by other rules than those of now."""
        return bool(self._earlier)

    def forget_earlier(self, weighed: int) -> None:
        """Drop rankings that no job has any more: all were evaluated at this number or later."""
        kept = tuple([each for each in self._earlier if weighed < each.number])
        if kept != self._earlier:
            self._rank_earlier(kept)

    def word(self, name: str) -> Event | None:
        """Return the newest declaration of a setting; None where there is none."""
        return self._words.get(name)

    def _stamp(self, name: str) -> Stamp:
        event = self.word(name)
        return stamp_of(event) if event else (0, "")

    def _in_force(self) -> PolicySettings:
        said = {name: event.payload for name, event in self._words.items()}
        found: dict[str, Any] = {}
        for name, message in said.items():
            values = declared(message) if isinstance(message, PolicyDeclared) else {}
            if name in values:
                found[name] = values[name]
        return replace(self.started, **found)


def told(rules: PolicySettings) -> dict[str, str]:
    """Return the settings that can be declared, as they are written."""
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
