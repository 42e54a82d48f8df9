from shared.streams.in_memory.embedded import EmbeddedRuntime
from tests.support.messaging import CODEC, TOPICS, counting, encoded, submission
from tests.support.operated_log import OperatedLog


def test_positions_that_expired_are_all_committed_again_with_the_first_one_that_moves() -> None:
    """A group that has some of them alone does not fit the state."""
    log, stage = OperatedLog(), counting(single=True)
    log.append(encoded(*(submission(f"j{number}") for number in range(20))))
    EmbeddedRuntime(log, [stage], codec=CODEC, member="a").run_until_quiet()
    log.leave(stage.name, "a")
    places = TOPICS.partitions("jobs.events")
    before = {place: log.committed(stage.name, place) for place in places}
    assert all(before.values())
    log.forget_positions(stage.name)
    log.append(encoded(submission("k")))
    EmbeddedRuntime(log, [stage], codec=CODEC, member="b").run_until_quiet()
    log.leave(stage.name, "b")
    after = {place: log.committed(stage.name, place) for place in places}
    assert sum(before[place] != after[place] for place in places) == 1
    EmbeddedRuntime(log, [stage], codec=CODEC, member="c").run_until_quiet()
