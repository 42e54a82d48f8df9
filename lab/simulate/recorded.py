"""`coplace simulate --recorded`: a region's own record under other rules."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from coplace.v1.control_pb2 import PolicyDeclared
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.plans_pb2 import PlanProposed
from rich.console import Console

from cli.kafka_topics import KafkaTopics
from cli.notes import TABLE_WIDTH, note
from cli.progress import progress_of
from cli.region_policy import RegionPolicy
from coplace_client.errors import UnusableError
from lab.demo.caps import caps_in_force, drawn_under, metered
from lab.demo.report import DECISIONS
from lab.simulate import report
from lab.simulate.scenarios import RecordedScenario
from lab.simulation.metrics import Summary, summarise
from lab.simulation.policy import SimulatedPolicy
from services.placement.sequencer import Sequencer
from services.placement.settings import PlacementSettings
from services.planner.app import search_of, stage_of
from services.planner.settings import PlannerSettings
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.domain.energy_tariff import Tariff
from shared.domain.queue_discipline import QueueDiscipline
from shared.planning.searches import Searches
from shared.process.folders import path_within
from shared.process.settings import settings
from shared.process.tariff_files import read_tariffs
from shared.replay.caps import AS_RECORDED, CapChanges
from shared.replay.inputs import (
    TOPIC,
    RecordedDecisions,
    RecordedInputs,
    read_decisions,
    read_inputs,
)
from shared.replay.region import RecordFollower, Setting, replay
from shared.replay.results import Fidelity, played_of
from shared.replay.rules import RULES, read_rules
from shared.replay.truth import Truth
from shared.replay.what_if import Course, WhatIf, as_recorded
from shared.streams.on_kafka.deployment import Deployment

RECORD: Final = "record"
SAME_RULES: Final = "same rules"
_DECISIONS: Final = "placement.decisions"


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One play: under which rules and caps."""

    label: str
    policy: RegionPolicy
    rules: PolicySettings
    caps: CapChanges = AS_RECORDED
    # Settings that hold all the time, whatever the record declares of them.
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Record:
    """A record with what was decided on it, as far as anybody kept it."""

    name: str
    inputs: RecordedInputs
    told: RecordedDecisions | None

    @property
    def decisions(self) -> Sequence[PlacementDecided] | None:
        """Return what was decided on it; None where nobody kept that."""
        return self.told.made if self.told else None

    @property
    def policy(self) -> Policy | None:
        """The one that decided first, as the decisions say; None where none are there, or one that
        this version does not have."""
        name = self.decisions[0].policy if self.decisions else ""
        return Policy(name) if name in [*Policy] else None


def run(scenario: RecordedScenario) -> None:
    """Replay, play, print and write. Raises OSError or UnusableError for what is no record, and for
    caps and tariffs of other clusters."""
    record, own = _read(scenario), PlacementSettings()
    began_with = _rules(scenario) or own.rules
    rules = replace(began_with, policy=record.policy or began_with.policy)
    setting = Setting(rules, own.remember_days)
    note(_doubts(record))
    decisions, truth = _replayed(record, setting)
    clusters, begins_us = truth.models.clusters, record.inputs.rounds[0].round.ended_at_us
    caps = scenario.changes(clusters.values())
    caps.require_possible(clusters, begins_us, counts_idle=rules.cap_counts_idle)
    lines = list(_lines(scenario, caps, record.inputs, truth, decisions, setting))
    Console(width=TABLE_WIDTH).print(report.table(lines, _title(record, truth)))
    if scenario.out is not None:
        report.write_comparison(scenario.out, lines)


def _replayed(record: _Record, setting: Setting) -> tuple[list[PlacementDecided], Truth]:
    """What is decided on a record as it is, and what it says of its jobs."""
    with progress_of(len(record.inputs.rounds), "rounds replayed") as done:
        set_aside = record.told.set_aside if record.told else ()
        decisions, region = replay(record.inputs, setting, done, set_aside)
    note(f"placement refused: {reason}" for reason in sorted(set(region.refused)))
    truth = Truth.from_record(record.inputs, decisions, setting)
    _tell_fidelity("replay", _fidelity(record, truth, decisions))
    return decisions, truth


def _lines(
    scenario: RecordedScenario,
    caps: CapChanges,
    inputs: RecordedInputs,
    truth: Truth,
    decisions: Sequence[PlacementDecided],
    setting: Setting,
) -> Iterator[report.ComparisonRow]:
    """The results of the record, and what each case would have."""
    tariff_of = {} if scenario.tariffs is None else read_tariffs(scenario.tariffs)
    course = as_recorded(inputs, decisions)
    as_it_was = RecordedCase(RECORD, RegionPolicy(setting.rules.policy), setting.rules)
    yield _line(scenario, as_it_was, truth, course, tariff_of)
    is_planned = any(isinstance(event.payload, PlanProposed) for event in inputs.events)
    for case in _cases(scenario, caps, setting.rules, is_planned=is_planned):
        made = _play(scenario, inputs, truth, case, setting)
        if case.label == SAME_RULES:
            again = Fidelity.to_decisions(decisions, made.decisions)
            _tell_fidelity(f"what-if under the {SAME_RULES}", again)
        yield _line(scenario, case, truth, made, tariff_of)


def _read(scenario: RecordedScenario) -> _Record:
    if scenario.recorded is None:
        deployment = Deployment.from_settings(settings())
        topics = KafkaTopics(deployment)
        events = topics.topic(TOPIC)
        decisions = RecordedDecisions()
        for event in topics.topic(_DECISIONS):
            decisions.add(event.payload)
        return _Record(deployment.name(TOPIC), RecordedInputs.from_events(events), decisions)
    file = scenario.decisions or _beside(scenario.recorded, DECISIONS)
    found = read_decisions(file) if file else None
    return _Record(scenario.recorded.name, read_inputs(scenario.recorded), found)


def _rules(scenario: RecordedScenario) -> PolicySettings | None:
    """Return the rules that a file says the record began with; None where there is no such file."""
    file = scenario.rules or (scenario.recorded and _beside(scenario.recorded, RULES))
    return read_rules(file) if file else None


def _beside(record: Path, name: str) -> Path | None:
    """Return the file of that name in the folder of a record, if there is one."""
    path = record.parent / name
    return path if path.exists() else None


def _cases(
    scenario: RecordedScenario, caps: CapChanges, own: PolicySettings, *, is_planned: bool
) -> Iterator[RecordedCase]:
    """The same rules and caps first: they show how far to trust the others. They have the plans of
    the record, where it `is_planned`, which no other case has."""
    yield RecordedCase(SAME_RULES, RegionPolicy(own.policy), own)
    if not scenario.changes_rules:
        return
    given: dict[str, Any] = {
        "threshold": scenario.threshold,
        "discipline": scenario.discipline and QueueDiscipline(scenario.discipline),
        "runtimes": scenario.runtimes,
        "passing_share": scenario.passing_share,
    }
    as_given = replace(own, **{name: said for name, said in given.items() if said is not None})
    policies = scenario.policy or (RegionPolicy(own.policy),)
    weights = scenario.t_weight or (own.t_weight,)
    for policy, t_weight in product(policies, weights):
        ranking = Policy(policy.without_plan)
        rules = replace(as_given, policy=ranking, t_weight=t_weight)
        is_again = t_weight != weights[0] and not SimulatedPolicy(policy).weighs
        differs = is_planned or policy.is_planned or (rules, caps) != (own, AS_RECORDED)
        if differs and not is_again:
            label = _label(policy, rules, own, caps)
            yield RecordedCase(label, policy, rules, caps, scenario.fixed)


def _label(
    policy: RegionPolicy, rules: PolicySettings, own: PolicySettings, caps: CapChanges
) -> str:
    parts = [f"{policy} w={rules.t_weight:g}"]
    parts += [f"threshold={rules.threshold:g}"] if rules.threshold != own.threshold else []
    parts += [rules.discipline] if rules.discipline != own.discipline else []
    parts += [rules.runtimes] if rules.runtimes != own.runtimes else []
    is_share_changed = rules.passing_share != own.passing_share
    parts += [f"passing_share={rules.passing_share:g}"] if is_share_changed else []
    parts += ["no caps"] if caps.dropped else []
    parts += [cap.text for cap in caps.instead]
    return ", ".join(parts)


def _play(
    scenario: RecordedScenario,
    inputs: RecordedInputs,
    truth: Truth,
    case: RecordedCase,
    setting: Setting,
) -> Course:
    own, is_same = replace(setting, rules=case.rules), case.label == SAME_RULES
    planner = _planner(scenario, inputs, own) if case.policy.is_planned else None
    played = WhatIf(
        inputs,
        truth,
        own,
        Sequencer({}),
        case.caps,
        fixed=case.fixed,
        planned=is_same,
        planner=planner,
    )
    with progress_of(len(truth.jobs), f"jobs ended, {case.label}") as done:
        return played.play(done)


def _planner(
    scenario: RecordedScenario, inputs: RecordedInputs, setting: Setting
) -> RecordFollower:
    """That of COPLACE_PLANNER_*, beside placement; it pays the tariffs that the case is priced
    by."""
    own = PlannerSettings()
    if scenario.tariffs is not None:
        own = own.model_copy(update={"tariffs": scenario.tariffs})
    search = search_of(own, Searches())
    stage = stage_of(search, setting.rules, setting.remember_days, puts_barriers=False)
    return RecordFollower(stage, inputs.rounds[0].round.ended_at_us)


def _line(
    scenario: RecordedScenario,
    case: RecordedCase,
    truth: Truth,
    course: Course,
    tariff_of: dict[str, Tariff],
) -> report.ComparisonRow:
    played, job_id = played_of(truth, course.finished, course.decisions, tariff_of)
    summary = _with_draw(summarise(played), truth, course, case.rules)
    if scenario.out is not None:
        folder = path_within(scenario.out, _folder(case.label))
        try:
            report.write_run(folder, played, job_id, summary)
        except UnusableError as error:  # resource managers may give out more than there is
            note([f"no Gantt chart of {case.label}: {error}"])
    label = case.label
    if course.unfinished:
        label = f"{label} ({course.unfinished:,} jobs did not end)"
    if course.rejected:
        label = f"{label} ({course.rejected:,} jobs fit nowhere)"
    parameters = {
        "case": case.label,
        "policy": case.policy,
        "t_weight": case.rules.t_weight,
        "threshold": case.rules.threshold,
        "discipline": case.rules.discipline,
        "runtimes": case.rules.runtimes,
        "unfinished": course.unfinished,
        "rejected": course.rejected,
    }
    return report.ComparisonRow(label, parameters, summary)


def _folder(label: str) -> str:
    return "".join(c if c.isalnum() or c in "-.=" else "_" for c in label)


def _with_draw(summary: Summary, truth: Truth, course: Course, rules: PolicySettings) -> Summary:
    """The summary with how all jobs of a course, idle nodes beside them, kept to the caps."""
    clusters, counts_idle = truth.declared.values(), rules.cap_counts_idle
    found = [
        drawn_under(cap, clusters, course.finished, metered, counts_idle=counts_idle)
        for cap in caps_in_force(course.caps)
    ]
    capped = [each for each in found if each.cap_w]
    return replace(
        summary,
        highest_of_cap=max((each.highest_w / each.cap_w for each in capped), default=None),
        above_cap_s=max((each.above_s for each in capped), default=None),
    )


def _fidelity(record: _Record, truth: Truth, made: Sequence[PlacementDecided]) -> Fidelity:
    if record.decisions is None:
        return Fidelity.to_reports(truth, made)
    return Fidelity.to_decisions(record.decisions, made)


def _tell_fidelity(what: str, found: Fidelity) -> None:
    text = f"{what}: {found.equal_starts:,} of {found.starts:,} starts equal"
    if found.decisions is not None:
        text += f", {found.equal_decisions:,} of {found.decisions:,} decisions to the byte"
    Console(width=TABLE_WIDTH, highlight=False).print(text)
    if not found.is_whole:
        note([f"{what} differs: {_WHY}"])


_WHY: Final = (
    "placement ran under other COPLACE_PLACEMENT_* settings or another version, the record is not "
    "whole, or resource managers did not do what was decided when it was"
)


def _doubts(record: _Record) -> Iterator[str]:
    yield from record.inputs.doubts(record.name)
    if record.told is not None:
        yield from record.told.left_out.doubts("the decisions")
        for number in sorted(record.told.set_aside):
            yield f"round {number} was set aside: nothing is decided in it here, either"
    if record.decisions and record.policy is None:
        first = record.decisions[0].policy
        yield f"{first[:40]!r} decided, no policy of this version: replayed as settings say"
    declared = [e for e in record.inputs.events if isinstance(e.payload, PolicyDeclared)]
    if declared:
        yield (
            f"the policy was declared {len(declared)} times on the way: followed, but for the "
            "settings that a case is about"
        )
        return
    policies = sorted({decided.policy for decided in record.decisions or ()})
    if len(policies) > 1:
        yield f"{', '.join(policies)} decided one after the other: replayed as by {record.policy}"


def _title(record: _Record, truth: Truth) -> str:
    unknown = len(truth.jobs) - len(truth.complete)
    apart = f", without {unknown:,} whose end is not in the record" if unknown else ""
    apart += f", without its {truth.arrays:,} arrays" if truth.arrays else ""
    return f"{record.name}, {len(truth.complete):,} jobs{apart}"
