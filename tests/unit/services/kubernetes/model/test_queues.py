"""Jobs of a queue count where they are."""

from hypothesis import given
from hypothesis import strategies as st

from services.kubernetes.model.jobs import JobUid
from services.kubernetes.model.queues import CountedState, QueueCounts, QueueTally
from services.kubernetes.model.states import QueueState

PLACES = st.builds(CountedState, st.sampled_from(QueueState), st.booleans())
UIDS = st.builds(JobUid, st.sampled_from(["alpha", "beta"]), st.sampled_from("abc"))


def test_what_runs_is_among_what_was_admitted_and_what_has_ended_is_nowhere_to_be_seen() -> None:
    tally = QueueTally()
    states = [*QueueState, QueueState.WAITS, QueueState.RUNS]
    for number, state in enumerate(states):
        has_begun = number == len(states) - 1
        tally.note(JobUid("alpha", str(number)), CountedState(state, has_begun))
    found = QueueCounts(waiting=2, admitted=2, running=1, refused=1, aside=1, ended=1)
    assert tally.counts() == {"alpha": found}
    assert "ended" not in found.to_status()


@given(st.lists(st.tuples(UIDS, st.none() | PLACES)))
def test_counts_are_those_of_the_newest_places(
    notes: list[tuple[JobUid, CountedState | None]],
) -> None:
    tally = QueueTally()
    for uid, place in notes:
        tally.note(uid, place)
    newest = {uid: place for uid, place in dict(notes).items() if place}
    for cluster in ("alpha", "beta"):
        there = [place for uid, place in newest.items() if uid.cluster == cluster]
        found = tally.counts().get(cluster, QueueCounts())
        for state in QueueState:
            assert found.of(state) == sum(each.state is state for each in there)
        assert found.running == there.count(CountedState(QueueState.RUNS, has_begun=True))
