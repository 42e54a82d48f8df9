"""Records for tests: a small region whose resource managers obey, in rounds of 30 s."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import JobFinished, JobStarted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from services.placement.sequencer import Sequencer
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.replay.caps import AS_RECORDED, CapChanges
from shared.replay.inputs import RecordedInputs, RecordedRound
from shared.replay.region import RecordFollower, ReplayedRegion, Setting, replay
from shared.replay.truth import Truth
from shared.replay.what_if import Course, WhatIf
from shared.streams.stages.stage import Round
from tests.unit.shared.placement import region

WRITER = "placement.sequencer.0"
NODE_W = 300.0


def barrier(number: int, ended_us: int, writer: str = WRITER) -> Event:
    payload = RoundEnded(round=number, ended_at_us=ended_us)
    name = f"{writer}/{payload.DESCRIPTOR.full_name}/round/{number}"
    return Event(name, writer, ended_us, "", payload)


def end_of(start: PlacementDecided, submitted_us: int, run_s: float) -> Event:
    """The resource manager's word that a job ended."""
    ended_us = start.decided_at_us + round(run_s * 1e6)
    event = region.finished(start.job_id, ended_us, start.attempt, grant=start.grant)
    payload = JobFinished.FromString(event.payload.SerializeToString())
    payload.cluster, payload.freq_ghz = start.cluster, start.freq_ghz
    payload.nodes, payload.cores_per_node = len(start.node_indices), start.cores_per_node
    payload.submitted_at_us, payload.started_at_us = submitted_us, start.decided_at_us
    payload.energy_j = NODE_W * payload.nodes * run_s
    return replace(event, payload=payload)


def confirmation(start: PlacementDecided) -> Event:
    """With the P-state, which resource managers report."""
    event = region.started(start)
    payload = JobStarted.FromString(event.payload.SerializeToString())
    payload.freq_ghz = start.freq_ghz
    return replace(event, payload=payload)


def recorded(
    events: Iterable[Event],
    run_s: Mapping[str, float],
    rules: PolicySettings | None = None,
    nodes: int = 4,
    rounds: int = 400,
) -> tuple[RecordedInputs, list[PlacementDecided]]:
    """The record of a region of two clusters where these events happen and each job runs so long;
    one without a time runs on."""
    waiting = sorted([*region.models(nodes), *events], key=lambda event: event.time_us)
    submitted_us = {e.payload.job_id: e.time_us for e in waiting if e.id.startswith("submitted/")}  # type: ignore[attr-defined]
    setting = Setting(rules or PolicySettings())
    found: list[RecordedRound] = []
    decisions: list[PlacementDecided] = []
    placement, sequencer = ReplayedRegion(setting, region.end_us(0)), Sequencer({})
    for number in range(rounds):
        ended = Round(len(found), region.end_us(number))
        for event in [e for e in waiting if e.time_us <= ended.ended_at_us]:
            sequencer.handle(event)
        waiting = [e for e in waiting if e.time_us > ended.ended_at_us]
        events = tuple(p.event for p in sequencer.end_round(ended))
        if not events:
            continue
        found.append(RecordedRound(events, barrier(ended.number, ended.ended_at_us)))
        for decided in placement.decide(events, found[-1].barrier):
            decisions.append(decided)
            if decided.verdict == VERDICT_START:
                told = confirmation(decided)
                waiting.append(replace(told, time_us=told.time_us + 1))
                if decided.job_id in run_s:
                    came_us = submitted_us[decided.array_job_id or decided.job_id]
                    waiting.append(end_of(decided, came_us, run_s[decided.job_id]))
    return RecordedInputs(tuple(found)), decisions


def what_if(
    inputs: RecordedInputs,
    policy: Policy | None = None,
    caps: CapChanges = AS_RECORDED,
    fixed: Collection[str] = (),
    planner: RecordFollower | None = None,
) -> Course:
    """What would have come of a record of the default rules."""
    setting = Setting()
    decisions, _ = replay(inputs, setting, lambda _done: None)
    truth = Truth.from_record(inputs, decisions, setting)
    other = setting if policy is None else Setting(PolicySettings(policy))
    course = WhatIf(inputs, truth, other, Sequencer({}), caps, fixed=fixed, planner=planner)
    return course.play(lambda _done: None)


def starts(decisions: Iterable[PlacementDecided]) -> dict[str, PlacementDecided]:
    return {d.job_id: d for d in decisions if d.verdict == VERDICT_START}
