"""What operators declare of the rules and of energy holds: of each setting the newest word, worked
out from what was published."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from coplace.v1.control_pb2 import PolicyDeclared
from coplace.v1.energy_pb2 import CoefficientsDeclared, CoefficientsPublished
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_START,
)

from shared.catalogue import policy_declarations
from shared.catalogue.event import Event
from tests.chaos.audit.evidence import Evidence, events_of
from tests.chaos.world import RULES

_LEARNER: Final = "energy.learner"
_MEASURES: Final = {
    ACTION_KIND_SET_PSTATE: "lower-frequency",
    ACTION_KIND_SUSPEND: "suspend",
    ACTION_KIND_END: "end",
}


@dataclass(slots=True)
class Rules:
    """The settings in force: as placement was started, but for what was declared since."""

    _said: dict[str, tuple[tuple[int, str], dict[str, Any]]] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more word, on some settings."""
        told = event.payload
        if isinstance(told, PolicyDeclared):
            stamp = event.time_us, event.id
            values = policy_declarations.declared(told)
            for name in [*values, *told.reset]:
                if name not in self._said or self._said[name][0] < stamp:
                    self._said[name] = stamp, values

    def __getitem__(self, setting: str) -> Any:
        """What a setting is, as it is declared."""
        if setting in self._said:
            values = self._said[setting][1]
            if setting in values:
                return values[setting]
        return getattr(RULES.rules, setting)

    @property
    def measures(self) -> set[str]:
        """What may be done to running jobs where a cap is exceeded."""
        return {*self["cap_measures"]}


def every_decision_is_by_the_policy_in_force(evidence: Evidence) -> Iterator[str]:
    """From the round on that brings another one."""
    rules = Rules()
    for ended in evidence.ends_of_rounds(rules.learn):
        for decided in evidence.by_round.get(ended.round, []):
            is_by_it = decided.verdict in (VERDICT_START, VERDICT_ACTION)
            if is_by_it and decided.policy != rules["policy"]:
                name = f"{decided.job_id} in round {decided.round}"
                yield f"{name} is by {decided.policy}, declared was {rules['policy']}"


def nothing_is_done_under_caps_that_was_not_declared(evidence: Evidence) -> Iterator[str]:
    """Of running jobs only what measures there are is asked where a cap is exceeded, and P-states
    alone are where one refuses a job that waits."""
    rules = Rules()
    for ended in evidence.ends_of_rounds(rules.learn):
        for decided in evidence.by_round.get(ended.round, []):
            if decided.verdict == VERDICT_ACTION and decided.action.power.shortages:
                measure = _MEASURES.get(decided.action.kind, "nothing of the kind")
                is_room = rules["cap_sharing"] and decided.action.kind == ACTION_KIND_SET_PSTATE
                if measure not in rules.measures and not is_room:
                    measures = ", ".join(sorted(rules.measures)) or "nothing"
                    yield f"{decided.job_id} is asked for {measure}, declared was {measures}"


def coefficients_are_those_that_were_declared(evidence: Evidence) -> Iterator[str]:
    """What is published at the end of a node model of which an operator declared any. A learner
    whose state an operator restored knows what it knew then."""
    world = evidence.world
    if world.journal.mended[_LEARNER]:
        return
    published: dict[str, CoefficientsPublished] = {}
    for event in events_of(world.log, world.codec, "energy.coefficients"):
        if isinstance(event.payload, CoefficientsPublished) and event.source == _LEARNER:
            published[event.payload.node_model] = event.payload
    for name, newest in _newest_declared(evidence).items():
        found = _table(published[name]) if name in published else {}
        if not any(_table(told).items() <= found.items() for told in newest):
            told = newest[-1]
            yield f"those of {name} declared at {told.declared_at_us} are not what is published"


def _newest_declared(evidence: Evidence) -> dict[str, list[CoefficientsDeclared]]:
    """The newest word on each node model that the learner did not refuse, last, and those after it:
    of which it refused a copy, under a clock that was wrong then, and may have taken another."""
    told: dict[str, list[tuple[CoefficientsDeclared, bool]]] = defaultdict(list)
    for event in events_of(evidence.world.log, evidence.world.codec, "commands"):
        if isinstance(event.payload, CoefficientsDeclared) and _is_table(event.payload):
            is_refused = (_LEARNER, event.id) in evidence.refused
            told[event.payload.node_model].append((event.payload, is_refused))
    return {name: _down_to_taken(each) for name, each in told.items()}


def _down_to_taken(told: list[tuple[CoefficientsDeclared, bool]]) -> list[CoefficientsDeclared]:
    found: list[CoefficientsDeclared] = []
    for declared, is_refused in sorted(told, key=lambda each: -each[0].declared_at_us):
        found.append(declared)
        if not is_refused:
            break
    return found


def _is_table(told: CoefficientsDeclared) -> bool:
    """False for what no clock would have made believable."""
    columns = (told.a, told.b, told.c, told.d, told.e, told.f, told.available)
    return {len(each) for each in columns} == {len(told.pstates_ghz) ** 2}


def _table(told: CoefficientsDeclared | CoefficientsPublished) -> dict[Any, Any]:
    """The coefficients of each pair of P-states that has any."""
    pairs = ((one, other) for one in told.pstates_ghz for other in told.pstates_ghz)
    rows = zip(told.a, told.b, told.c, told.d, told.e, told.f, strict=True)
    return {
        pair: row
        for pair, row, is_there in zip(pairs, rows, told.available, strict=True)
        if is_there
    }
