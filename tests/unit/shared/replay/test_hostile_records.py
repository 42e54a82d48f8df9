"""Records that nobody wrote whole: each is played, or refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.placement_pb2 import VERDICT_HELD, VERDICT_QUEUED
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.simulation.metrics import summarise
from services.placement.sequencer import Sequencer
from shared.catalogue.event_json import plain
from shared.catalogue.policy_settings import PolicySettings
from shared.replay.caps import AS_RECORDED
from shared.replay.inputs import read_inputs
from shared.replay.region import Setting, replay
from shared.replay.results import Fidelity, played_of
from shared.replay.truth import Truth
from shared.replay.what_if import WhatIf, as_recorded
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US
from tests.unit.shared.replay.records import recorded

Line = dict[str, Any]
S = 1_000_000


def small_record() -> list[Line]:
    jobs = [region.submitted(f"j{n}", T0_US + n * S, nodes=1 + n % 3) for n in range(5)]
    asked = [region.held("j4", T0_US + 5 * S), region.cancelled("j1", T0_US + 90 * S)]
    back = [region.requeued("j2", T0_US + 300 * S)]
    events = [*jobs, *asked, *back]
    inputs, _ = recorded(events, {f"j{n}": 100.0 + n for n in range(4)}, rounds=30)
    found = [event for each in inputs.rounds for event in (*each.events, each.barrier)]
    return [json.loads(json.dumps(plain(event))) for event in found]


RECORD = small_record()
JOB_LINES = [n for n, line in enumerate(RECORD) if "Job" in line["type"]]
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        *("", "0", "j0", "p2", "p9", "1", "2", "99", -1, 0, 3, 1e300, None, True),
        *([], ["p1-0001"], ["p9-9999"], {}),
        *("JOB_OUTCOME_CANCELLED", "JOB_OUTCOME_TIMED_OUT", str(T0_US), str(2**62)),
    ]
)


def dropped(lines: list[Line], at: int, _to: int, _value: Any) -> None:
    del lines[at]


def doubled(lines: list[Line], at: int, to: int, _value: Any) -> None:
    lines.insert(to % len(lines), lines[at])


def moved(lines: list[Line], at: int, to: int, _value: Any) -> None:
    lines.insert(to % len(lines), lines.pop(at))


def changed(lines: list[Line], at: int, to: int, value: Any) -> None:
    data = lines[at]["data"]
    names = sorted(data)
    lines[at] = {**lines[at], "data": {**data, names[to % len(names)]: value}}


Change = Callable[[list[Line], int, int, Any], None]
CHANGES: list[Change] = [dropped, doubled, moved, changed]


@settings(
    max_examples=12,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(CHANGES), st.sampled_from(JOB_LINES), st.integers(0, 10_000), VALUES
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_record_of_any_lines_is_played_or_refused(
    tmp_path: Path, changes: list[tuple[Change, int, int, Any]]
) -> None:
    lines = list(RECORD)
    for change, at, to, value in changes:
        change(lines, at % len(lines), to, value)
    path = tmp_path / "record.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    setting = Setting()
    try:
        inputs = read_inputs(path)
        decisions, _ = replay(inputs, setting, lambda _done: None)
        truth = Truth.from_record(inputs, decisions, setting)
        Fidelity.to_reports(truth, decisions)
        played, _ids = played_of(truth, as_recorded(inputs, decisions).finished, decisions, {})
        summarise(played)
        for rules in (setting.rules, PolicySettings(t_weight=0.1)):
            play = WhatIf(inputs, truth, Setting(rules), Sequencer({}), AS_RECORDED)
            course = play.play(lambda _done: None)
            summarise(played_of(truth, course.finished, course.decisions, {})[0])
    except UnusableError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_record_that_begins_in_its_middle_is_played_as_far_as_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in RECORD[JOB_LINES[3] :]))
    inputs = read_inputs(path)
    decisions, at_the_end = replay(inputs, Setting(), lambda _done: None)
    assert {decided.verdict for decided in decisions} <= {VERDICT_QUEUED, VERDICT_HELD}
    assert at_the_end.tally.early + at_the_end.tally.dead_letters
    with pytest.raises(UnusableError, match="no job ran to its end"):
        played_of(Truth.from_record(inputs, decisions, Setting()), [], decisions, {})
