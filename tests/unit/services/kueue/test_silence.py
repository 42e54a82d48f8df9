"""While Coplace is silent Kueue starts Workloads by its own rules, and Coplace counts them then."""

import pytest

from shared.kueue.workloads import WorkloadKey
from tests.unit.services.kueue.play import CORES, NODES, Play
from tests.unit.services.kueue.test_courses import WORKERS, ended, seconds


async def silent(play: Play, count: int) -> None:
    for _ in range(count):
        await play.silent_second()


def admitted(play: Play, key: WorkloadKey) -> bool:
    return play.home.condition(key, "Admitted")


async def test_what_comes_while_coplace_is_silent_starts_and_is_counted() -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    await silent(play, 5)
    assert admitted(play, key)
    assert play.facts == {}
    await seconds(play, 5)
    [started] = [e.job_started for e in play.facts.values() if e.HasField("job_started")]
    assert (started.grant, started.freq_ghz) == (0, 3.1)
    await seconds(play, 10)
    play.home.finish(key)
    await ended(play)
    [charge] = play.region.charges()
    assert charge.runtime_s > 10


async def test_what_waited_for_coplace_starts_without_it_and_nowhere_else() -> None:
    play = Play()
    first = play.home.submit("first", pods=NODES, cpu=CORES)
    await seconds(play, 3)
    second = play.home.submit("second", pods=NODES, cpu=CORES)
    await seconds(play, 2)
    assert not admitted(play, second)
    await silent(play, 8)
    assert admitted(play, second), "Kueue had quota for it"
    play.home.finish(first)
    await seconds(play, 10)
    play.home.finish(second)
    await ended(play)
    assert len(play.region.charges()) == 2


async def granted(play: Play, pods: int, silent_s: int) -> WorkloadKey:
    """A Workload that was granted, and started while Coplace was silent."""
    key = play.home.submit("lu", pods=pods)
    play.kueue()
    await play.look()
    play.region.advance(2)
    await play.obey()
    await silent(play, silent_s)
    assert admitted(play, key)
    return key


async def test_what_was_granted_goes_where_it_was_granted() -> None:
    play = Play()
    key = await granted(play, 1, 3)
    await seconds(play, 5)
    play.home.finish(key)
    await ended(play)
    assert len(play.region.charges()) == 1
    assert [e.job_started.grant for e in play.facts.values() if e.HasField("job_started")] == [1]


@pytest.mark.parametrize("gated", [False, True])
async def test_a_manager_sends_it_to_any_worker(gated: bool) -> None:
    play = Play(WORKERS, "manager", gated=gated)
    key = play.home.submit("lu", pods=1)
    await silent(play, 8)
    where = str(play.home.workloads[key]["status"].get("clusterName"))
    assert where in WORKERS
    assert play.releaser.let_go == 1
    await seconds(play, 8)
    assert [e.job_started.cluster for e in play.facts.values() if e.HasField("job_started")] == [
        where
    ]
    play.workers[where].finish(key._replace(server=where))
    await ended(play)
    assert len(play.region.charges()) == 1


async def test_what_kueue_evicts_then_is_coplaces_again() -> None:
    play = Play()
    key = play.home.submit("lu", pods=1)
    await silent(play, 4)
    await seconds(play, 5)
    play.home.evict(key, "Preempted", "another one goes first")
    await seconds(play, 15)
    assert admitted(play, key)
    play.home.finish(key)
    await ended(play)
    grants = [e.job_started.grant for e in play.facts.values() if e.HasField("job_started")]
    assert grants == [0, 1]


async def test_while_coplace_speaks_nothing_is_let_go() -> None:
    play = Play()
    play.home.submit("lu", pods=1)
    play.kueue()
    play.relist_releaser()
    play.releaser.look_at_all()
    await play.releaser.work_off()
    assert play.home.records == {}
    assert play.releaser.let_go == 0


async def test_what_coplace_would_not_take_waits_for_it() -> None:
    play = Play()
    play.home.quota = 10**9
    key = play.home.submit("huge", cpu=10**8)
    await silent(play, 3)
    assert play.home.condition(key, "QuotaReserved")
    assert not admitted(play, key)


async def test_what_ran_and_ended_while_coplace_was_silent_is_counted() -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    await silent(play, 6)
    play.home.finish(key)
    await silent(play, 2)
    play.began()
    await seconds(play, 3)
    await ended(play)
    [charge] = play.region.charges()
    assert charge.runtime_s > 3


async def test_what_was_sent_away_and_deleted_in_a_gap_is_charged_where_it_ran() -> None:
    play = Play(WORKERS, "manager")
    key = play.home.submit("lu", pods=1)
    for _ in range(20):
        if play.home.workloads[key]["status"].get("nominatedClusterNames"):
            break
        await silent(play, 1)
    play.began()  # the last it hears of the manager: the copies are on their way
    await silent(play, 6)
    where = str(play.home.workloads[key]["status"]["clusterName"])
    play.workers[where].finish(key._replace(server=where))
    await silent(play, 1)
    play.home.remove(key)
    for name in play.servers:
        play.relist(name)
    await seconds(play, 5)
    await ended(play)
    [charge] = play.region.charges()
    assert charge.cluster == where
    assert charge.runtime_s > 1


async def test_what_ran_and_was_deleted_before_it_was_seen_is_charged() -> None:
    """Its record says how many pods it has, and its pods are there for a while."""
    play = Play()
    key = await granted(play, 2, 4)
    play.home.finish(key)
    play.home.remove(key)
    play.began()
    await seconds(play, 3)
    await ended(play)
    [charge] = play.region.charges()
    assert charge.runtime_s > 1
