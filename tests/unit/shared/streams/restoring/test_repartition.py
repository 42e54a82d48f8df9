from collections.abc import Mapping

from coplace.v1.control_pb2 import EarlyFact, RoundEnded
from hypothesis import given
from hypothesis import strategies as st

from shared.catalogue.topics import ROUND_ENDED, partition_of
from shared.streams.restoring.repartition import moved
from shared.streams.stages.early import PREFIX
from shared.streams.stages.unit_state import FAILURES_KEY
from shared.streams.state.rows import rows_of


def job_of(key: str, _value: bytes) -> str:
    """State of a job, under two keys."""
    return key.split("|")[1]


def applied(
    states: Mapping[int, Mapping[str, bytes]], changes: Mapping[int, Mapping[str, bytes | None]]
) -> dict[int, dict[str, bytes]]:
    """What the changelogs hold then."""
    after = {number: {**states.get(number, {}), **change} for number, change in changes.items()}
    return {
        number: {key: value for key, value in state.items() if value is not None}
        for number, state in after.items()
    }


@given(jobs=st.lists(st.text(max_size=5), unique=True), before=st.integers(1, 5))
def test_every_record_of_the_state_goes_once_where_its_key_goes(
    jobs: list[str], before: int
) -> None:
    jobs = [job.replace("|", "/") for job in dict.fromkeys(job.replace("|", "/") for job in jobs)]
    after = before + 2
    states: dict[int, dict[str, bytes]] = {number: {} for number in range(before)}
    for job in jobs:
        unit = states[partition_of(job.encode(), before)]
        unit |= {f"facts|{job}": b"f", f"interval|{job}|1": b"i"}
    found = applied(states, moved(states, job_of, after))
    assert sorted(key for state in found.values() for key in state) == sorted(
        key for state in states.values() for key in state
    )
    for number, state in found.items():
        assert {partition_of(job_of(key, b"").encode(), after) for key in state} <= {number}


def test_every_unit_goes_on_with_the_latest_round_and_forgets_failures() -> None:
    rounds = [RoundEnded(round=n, ended_at_us=n).SerializeToString() for n in (7, 9)]
    states = {
        0: {ROUND_ENDED: rounds[0], FAILURES_KEY: b"{}"},
        1: {ROUND_ENDED: rounds[1]},
    }
    found = applied(states, moved(states, job_of, 3))
    assert found == {number: {ROUND_ENDED: rounds[1]} for number in range(3)}


def test_a_fact_that_came_early_goes_where_its_job_goes() -> None:
    jobs = [f"job-{number}" for number in range(20)]
    states: dict[int, dict[str, bytes]] = {number: {} for number in range(2)}
    for job in jobs:
        fact = rows_of(EarlyFact).encode(EarlyFact(job_id=job))
        states[partition_of(job.encode(), 2)][f"{PREFIX}{job}|jobs.events|0|7"] = fact
    found = applied(states, moved(states, job_of, 5))
    for number, state in found.items():
        assert {partition_of(key.split("|")[1].encode(), 5) for key in state} <= {number}
    assert sum(map(len, found.values())) == len(jobs)
