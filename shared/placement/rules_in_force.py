"""By what placement decides: as its process was started, but for what was declared since."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import orjson
from coplace.v1.control_pb2 import PolicyDeclared

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import measures_of
from shared.domain.eamc_policy import Policy, Reading
from shared.eamc.frequency import Weighing
from shared.placement.candidates.candidate import Ranking, ranking_by
from shared.placement.envelope import from_bytes, to_bytes
from shared.streams.stages.stage import AlreadyAppliedError

# What can be declared, by its name in PolicyDeclared, in PolicySettings and in COPLACE_PLACEMENT_*.
SETTINGS: Final = tuple(
    [field.name for field in PolicyDeclared.DESCRIPTOR.fields if field.has_presence]
)
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


class RulesInForce:
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
        """What `changes` returned in earlier lives."""
        for key, value in state.items():
            if key.startswith(_PREFIX):
                self._words[key.removeprefix(_PREFIX)] = from_bytes(value)
        kept: list[tuple[int, Any]] = orjson.loads(state.get(_EARLIER, b"[]"))
        self._earlier = [(number, _ranking(*row)) for number, row in kept]
        self._follow(self._in_force())

    def changes(self) -> dict[str, bytes | None]:
        """What was declared anew since the last call, and the earlier rules where they changed."""
        changed, self._changed = self._changed, set()
        found: dict[str, bytes | None] = {
            key: to_bytes(self._words[key.removeprefix(_PREFIX)])
            for key in sorted(changed - {_EARLIER})
        }
        if _EARLIER in changed:
            rows = [(number, _row(ranking)) for number, ranking in self._earlier]
            found[_EARLIER] = orjson.dumps(rows) if rows else None
        return found

    def declare(self, event: Event, message: PolicyDeclared) -> bool:
        """Whether jobs are to be weighed anew. Raises AlreadyAppliedError where something newer is
        known of all settings that the event names."""
        newer = [name for name in _named(message) if _stamp(event) > _stamp(self.word(name))]
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
        declared = {
            name: _value(name, getattr(message, name))
            for name, message in said.items()
            if isinstance(message, PolicyDeclared) and message.HasField(name)  # type: ignore[arg-type]
        }
        return replace(self.started, **declared)


def told(rules: PolicySettings) -> dict[str, str]:
    """The settings that can be declared, as they are written."""
    by_name = {field.name: getattr(rules, field.name) for field in fields(rules)}
    return {name: _in_words(by_name[name]) for name in SETTINGS}


def without(message: PolicyDeclared, names: Collection[str]) -> PolicyDeclared | None:
    """What is left of a declaration that says nothing of these settings; None where nothing is."""
    left = PolicyDeclared.FromString(message.SerializeToString())
    for name in {*names} & {*SETTINGS}:
        left.ClearField(name)  # type: ignore[arg-type]
    left.reset[:] = [name for name in message.reset if name not in names]
    return left if any(_named(left)) else None


def _named(message: PolicyDeclared) -> Iterator[str]:
    yield from (name for name in SETTINGS if message.HasField(name))  # type: ignore[arg-type]
    yield from message.reset


def _stamp(event: Event | None) -> tuple[int, str]:
    return (event.time_us, event.id) if event else (0, "")


def _value(name: str, declared: Any) -> Any:
    match name:
        case "policy":
            return Policy(declared)
        case "reading":
            return Reading(declared)
        case "cap_measures":
            return measures_of(declared)
    return declared


def _in_words(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.15g}"
        case tuple():
            return ",".join(map(str, value))
    return str(value)


def _row(ranking: Ranking) -> list[Any]:
    weighing = ranking.weighing
    return [ranking.policy, weighing.t_weight, weighing.reading, ranking.threshold]


def _ranking(policy: str, t_weight: float, reading: str, threshold: float) -> Ranking:
    return Ranking(Policy(policy), Weighing(t_weight, Reading(reading)), threshold)
