"""Forecasts of starts, held to what a timeline then does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.easy import EasyScheduler
from shared.scheduling.forecast import Expected, StartsAhead
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.timeline import play
from shared.scheduling.wait_queue import Entry, WaitQueues
from tests.unit.shared.scheduling.plain_one_pool import PlainJob
from tests.unit.shared.scheduling.systems import one_pool

waiting = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from([1.0, 2.0, 5.0, 8.0])), min_size=1, max_size=20
)


def queue_of(rows: list[tuple[int, float]]) -> WaitQueues:
    queues = WaitQueues()
    queues.add("a", [Entry(n, n, units, limit_s) for n, (units, limit_s) in enumerate(rows)])
    return queues


def foreseen(now_s: float, queues: WaitQueues, loads: dict[str, Load]) -> dict[int, Expected]:
    schedulers = {
        name: EasyScheduler(load, queues.queue(name).copy(), number=number)
        for number, (name, load) in enumerate(loads.items())
    }
    return dict(StartsAhead(now_s, schedulers).starts())


@settings(max_examples=100, deadline=None)
@given(waiting)
def test_a_forecast_comes_true_when_all_run_to_their_limits(rows: list[tuple[int, float]]) -> None:
    queues = queue_of(rows)
    expected = foreseen(0.0, queues, {"a": Load(6, 6)})
    jobs = [PlainJob(0.0, units, limit_s, limit_s) for units, limit_s in rows]
    found = play([Pool(6)], one_pool(jobs), Discipline.EASY).start_s.tolist()
    assert [expected[n].start_s for n in range(len(rows))] == found
    assert len(queues.queue("a")) == len(rows)


def test_a_job_waits_for_what_runs_and_for_what_stands_before_it() -> None:
    queues = queue_of([(4, 10.0), (4, 10.0)])
    loads = {"a": Load(4, 0, [NodeSet(4, 7.0)])}
    assert foreseen(5.0, queues, loads) == {0: Expected("a", 7.0), 1: Expected("a", 17.0)}
    queues = WaitQueues()
    queues.add("a", [Entry(0, 0, 2, 9.0)])
    queues.add("b", [Entry(1, 0, 2, 9.0)])
    loads = {"a": Load(2, 0, [NodeSet(2, 50.0)]), "b": Load(2, 0, [NodeSet(2, 20.0)])}
    assert foreseen(0.0, queues, loads) == {0: Expected("b", 20.0)}, "where it is earliest"


def test_overdue_jobs_are_expected_to_end_now_and_what_fits_nowhere_is_left_out() -> None:
    queues = queue_of([(9, 1.0), (2, 1.0)])
    assert foreseen(5.0, queues, {"a": Load(4, 0, [NodeSet(4, 1.0)])}) == {1: Expected("a", 5.0)}
