"""Rows of accounts: no shape of a row ends anything."""

from contextlib import suppress
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.slurm.facts import Site, envelopes
from shared.slurm.sacct import SacctRun, runs
from tests.unit.shared.slurm.three_ways import Stretch, TrueRun

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
