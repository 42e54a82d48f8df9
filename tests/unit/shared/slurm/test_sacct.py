"""Rows of accounts: no shape of a row ends anything."""

from contextlib import suppress
from typing import Any, Final

import pytest
from coplace.v1.jobs_pb2 import JobOutcome
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.slurm.facts import Site, envelopes
from shared.slurm.sacct import SacctRun, batch_steps, runs
from tests.unit.shared.slurm.three_ways import T0_S, Stretch, TrueRun

SITE: Final = Site("north", "none", "m0")
ROW: Final = TrueRun([Stretch("n[1-2]", 4, 9)]).sacct()[0]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([0, -1, 2**31, 2**64, 10**30, "9" * 20, "n[1-", "RESIZING"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["set", "number", "infinite", "current", "start", "end", "count"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(ROW)), anything, max_size=4),
    st.dictionaries(st.sampled_from(sorted(ROW["time"])), anything, max_size=3),
)
def test_a_row_of_any_shape_gives_facts_or_a_reason(
    fields: dict[str, Any], times: dict[str, Any]
) -> None:
    row = {**ROW, "time": {**ROW["time"], **times}, **fields}
    for run in runs([row]):
        assert run.core_s >= 0
        with suppress(RejectedError):
            for fact in envelopes(run.message(), SITE):
                check_contents(getattr(fact, str(fact.WhichOneof("payload"))))
                fact.SerializeToString()


def test_a_run_that_goes_on_or_waits_is_not_over() -> None:
    assert SacctRun(ROW).is_over
    for state in ("RUNNING", "PENDING", "SUSPENDED"):
        goes_on = {**ROW, "state": {"current": [state]}, "time": {**ROW["time"], "end": 0}}
        assert not list(runs([goes_on]))
    assert not list(runs([None, 7, {}, []]))


def test_a_row_of_22_05_has_its_state_as_one_text() -> None:
    before = {**ROW, "state": {"current": "COMPLETED"}, "time": {**ROW["time"], "limit": 60}}
    before["array"] = {"job_id": 0, "task": None, "task_id": None}
    [run] = runs([before])
    assert (run.core_s, run.message().number("time_limit")) == (36, 3_600)


_LINES: Final = """\
9|REQUEUED|2026-11-26T13:33:30|2026-11-26T13:33:50
9.batch|{state}|2026-11-26T13:33:30|{ended}
9.0|COMPLETED|2026-11-26T13:33:31|2026-11-26T13:33:32
9.batch|COMPLETED|2026-11-26T13:34:00|2026-11-26T13:34:01
8.batch|COMPLETED|2026-11-26T13:33:30|2026-11-26T13:33:31
9.batch|RUNNING|2026-11-26T13:34:00|Unknown
9.batch|
"""


@pytest.mark.parametrize(
    ("state", "ended", "outcome", "ran_s"),
    [
        ("COMPLETED", "2026-11-26T13:33:35", JobOutcome.JOB_OUTCOME_COMPLETED, 5),
        ("FAILED", "2026-11-26T13:33:30", JobOutcome.JOB_OUTCOME_FAILED, 0),
        ("CANCELLED by 0", "2026-11-26T13:33:51", JobOutcome.JOB_OUTCOME_CANCELLED, 20),
        ("COMPLETED", "Unknown", JobOutcome.JOB_OUTCOME_CANCELLED, 20),
    ],
)
def test_a_run_that_was_requeued_behind_its_end_is_over_with_its_script(
    state: str, ended: str, outcome: JobOutcome.ValueType, ran_s: int
) -> None:
    [row] = TrueRun([Stretch("n1", 2, 20)], state="REQUEUED").sacct()
    scripts = list(batch_steps(_LINES.format(state=state, ended=ended)))
    run = SacctRun(row).ended_with(scripts)
    finished = envelopes(run.message(), SITE)[-1].job_finished
    began_s = T0_S + 10
    assert (finished.outcome, run.core_s) == (outcome, 2 * ran_s)
    assert (finished.started_at_us, finished.ended_at_us) == (
        began_s * 1_000_000,
        (began_s + ran_s) * 1_000_000,
    )


def test_what_a_script_says_of_an_end_has_an_id_of_its_own() -> None:
    [row] = TrueRun([Stretch("n1", 2, 20)], state="REQUEUED").sacct()
    [script, *_] = batch_steps(_LINES.format(state="COMPLETED", ended="2026-11-26T13:33:35"))
    before, after = (
        envelopes(run.message(), SITE)[-1].id
        for run in (SacctRun(row), SacctRun(row).ended_with([script]))
    )
    assert after == f"{before}/by-script"


def test_a_run_of_which_accounts_missed_the_start_has_an_end_of_its_own_id() -> None:
    """slurmctld reports starts every five seconds: a requeue may come before."""
    [row] = TrueRun([Stretch("n1", 2, 3)], state="REQUEUED").sacct()
    missed = SacctRun({**row, "time": {**row["time"], "start": None, "elapsed": 0}})
    known, unknown = (envelopes(run.message(), SITE)[-1] for run in (SacctRun(row), missed))
    assert unknown.id == f"{known.id}/start-unknown"
    assert (unknown.job_finished.started_at_us, missed.core_s) == (0, 0)


def test_comments_and_the_word_on_a_grant_are_read_where_accounts_keep_them() -> None:
    word = "coplace grant=4 started freq_ghz=2.1"
    kept = {**ROW, "comment": {"job": "app_id=hpcg", "administrator": word}}
    [run] = runs([kept])
    submitted, finished = envelopes(run.message(), SITE)
    assert finished.id.endswith("/1/grant-4/app-hpcg")
    assert submitted.job_submitted.app_id == finished.job_finished.app_id == "hpcg"
    assert (finished.job_finished.grant, finished.job_finished.freq_ghz) == (4, 2.1)


def test_licences_memory_and_generic_resources_are_what_it_held() -> None:
    held = [
        {"type": "cpu", "name": "", "count": 4},
        {"type": "mem", "name": "", "count": 3_072},
        {"type": "node", "name": "", "count": 2},
        {"type": "gres", "name": "gpu:a100", "count": 2},
        {"type": "license", "name": "matlab", "count": 1},
        {"type": "energy", "name": "", "count": -2},
    ]
    [run] = runs([{**ROW, "tres": {"allocated": held, "requested": held}}])
    finished = envelopes(run.message(), SITE)[1].job_finished
    assert finished.memory_gib == 3
    assert dict(finished.resources) == {"gpu:a100": 2, "license/matlab": 1}
