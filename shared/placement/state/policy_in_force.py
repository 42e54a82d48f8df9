"""By what placement decides: as its process was started, but for what was declared since."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson
from coplace.v1.control_pb2 import PolicyDeclared

from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from shared.catalogue.policy_declarations import declared, names_in
from shared.catalogue.policy_settings import DECLARABLE, PolicySettings
from shared.domain.eamc_policy import Policy, Reading
from shared.eamc.frequency import Weighing
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.events import EVENTS

_PREFIX: Final = "rules/"
_EARLIER: Final = "rules|earlier"
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

    def __init__(self, started: PolicySettings) -> None:
        self.started = started
        self._follow(started)
        self._words: dict[str, Event] = {}
        self._changed: set[str] = set()
        # By what those were ranked that were weighed before a number of the updates.
        self._earlier: list[tuple[int, Ranking]] = []

    def restore(self, state: Mapping[str, bytes]) -> None:
        """What `changes` returned in earlier lives. Raises UnusableError where a later release
        declared what this one does not know."""
        for key, value in state.items():
            if key.startswith(_PREFIX):
                name = key.removeprefix(_PREFIX)
                self._words[name] = _known(name, EVENTS.read("rules", name, value))
        kept: list[tuple[int, Any]] = orjson.loads(state.get(_EARLIER, b"[]"))
        self._earlier = [(number, _ranking(*row)) for number, row in kept]
        self._follow(self._in_force())

    def changes(self) -> dict[str, bytes | None]:
        """What was declared anew since the last call, and the earlier rules where they changed."""
        changed, self._changed = self._changed, set()
        found: dict[str, bytes | None] = {
            key: EVENTS.encode(self._words[key.removeprefix(_PREFIX)])
            for key in sorted(changed - {_EARLIER})
        }
        if _EARLIER in changed:
            rows = [(number, _row(ranking)) for number, ranking in self._earlier]
            found[_EARLIER] = orjson.dumps(rows) if rows else None
        return found

    def declare(self, event: Event, message: PolicyDeclared) -> bool:
        """Whether jobs are to be weighed anew. Raises AlreadyAppliedError where something newer is
        known of all settings that the event names."""
        newer = [name for name in names_in(message) if _stamp(event) > _stamp(self.word(name))]
        if not newer:
            raise AlreadyAppliedError(event.id)
        before = self.now
        for name in newer:
            self._words[name] = event
            self._changed.add(f"{_PREFIX}{name}")
        self._follow(self._in_force())
        return any(getattr(before, name) != getattr(self.now, name) for name in _WEIGHED_BY)

    def rank_earlier(self, number: int, ranking: Ranking) -> None:
        """Jobs that were weighed before this number of the updates stay ranked so."""
        self._earlier.append((number, ranking))
        self._changed.add(_EARLIER)

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
        kept = [(number, ranking) for number, ranking in self._earlier if weighed < number]
        if kept != self._earlier:
            self._earlier = kept
            self._changed.add(_EARLIER)

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


def _known(name: str, word: Event) -> Event:
    """The newest word on a setting; a setting that was reset need not be known."""
    message = word.payload
    is_reset = isinstance(message, PolicyDeclared) and name in message.reset
    if name not in DECLARABLE and not is_reset:
        raise UnusableError(
            f"{name} was declared by {word.source}, and this release does not know it: "
            f"`coplace policy reset {name}` under the release that does"
        )
    return word


def _stamp(event: Event | None) -> tuple[int, str]:
    return (event.time_us, event.id) if event else (0, "")


def _row(ranking: Ranking) -> list[Any]:
    weighing = ranking.weighing
    return [ranking.policy, weighing.t_weight, weighing.reading, ranking.threshold]


def _ranking(policy: str, t_weight: float, reading: str, threshold: float) -> Ranking:
    return Ranking(Policy(policy), Weighing(t_weight, Reading(reading)), threshold)
