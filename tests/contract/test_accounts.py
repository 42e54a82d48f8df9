"""One Lua script keeps the accounts: on a Redis in memory and on a real one."""

from collections.abc import AsyncIterator, Iterator, Sequence
from uuid import uuid4

import fakeredis
import pytest
import redis.asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from deploy.local.servers import LocalServers
from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.model import Entry, spent_micro_su
from shared.messaging.record import Place

PLACE = Place("prices.charges", 0)
OTHER = Place("prices.charges", 1)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for all cases."""
    with LocalServers(tmp_path_factory.mktemp("redis"), kafka=False) as servers:
        yield servers.redis_url


@pytest.fixture(params=["memory", "server"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[redis.asyncio.Redis]:
    """Both in turn."""
    found = (
        fakeredis.FakeAsyncRedis()
        if request.param == "memory"
        else redis.asyncio.Redis.from_url(request.getfixturevalue("redis_url"))
    )
    async with found:
        yield found


@pytest.fixture
def accounts(client: redis.asyncio.Redis) -> RedisAccounts:
    """Accounts of a namespace of their own."""
    return _new_accounts(client)


def _new_accounts(client: redis.asyncio.Redis) -> RedisAccounts:
    namespace = uuid4().hex
    return RedisAccounts(client, lambda name: f"{namespace}.{name}")


def entry(
    amount: int, *, account: str = "physics", job: str = "s/c/1/0", revision: int = 1
) -> Entry:
    """One charge of a job."""
    return Entry(account, job, 1, revision, amount)


def numbered(entries: Sequence[Entry], first: int = 0) -> list[tuple[int, Entry]]:
    """Entries at consecutive offsets."""
    return list(enumerate(entries, start=first))


async def test_a_new_redis_is_read_from_the_start(accounts: RedisAccounts) -> None:
    assert await accounts.position(PLACE) == 0
    assert await accounts.spent_micro_su() == {}


async def test_amounts_and_position_change_together(accounts: RedisAccounts) -> None:
    batch = numbered([entry(5), entry(7, job="s/c/2/0"), entry(1, account="bio", job="s/c/3/0")])
    await accounts.apply(PLACE, 0, 4, batch)
    assert await accounts.spent_micro_su() == {"physics": 12, "bio": 1}
    assert await accounts.position(PLACE) == 4
    assert await accounts.position(OTHER) == 0


async def test_a_batch_that_was_applied_before_changes_nothing(accounts: RedisAccounts) -> None:
    batch = numbered([entry(5), entry(7, job="s/c/2/0")])
    await accounts.apply(PLACE, 0, 2, batch)
    await accounts.apply(PLACE, 0, 2, batch)
    await accounts.apply(PLACE, 0, 1, batch[:1])
    assert await accounts.spent_micro_su() == {"physics": 12}
    assert await accounts.position(PLACE) == 2


async def test_of_a_batch_that_was_half_applied_the_rest_is_applied(
    accounts: RedisAccounts,
) -> None:
    batch = numbered([entry(5), entry(7, job="s/c/2/0")])
    await accounts.apply(PLACE, 0, 1, batch[:1])
    await accounts.apply(PLACE, 0, 2, batch)
    assert await accounts.spent_micro_su() == {"physics": 12}


async def test_a_revision_replaces_the_amount_and_even_the_account(accounts: RedisAccounts) -> None:
    await accounts.apply(PLACE, 0, 1, numbered([entry(5, account="a b  c")]))
    moved = [entry(3, revision=2), entry(9, revision=1)]
    await accounts.apply(PLACE, 1, 3, numbered(moved, 1))
    assert await accounts.spent_micro_su() == {"a b  c": 0, "physics": 3}


async def test_amounts_beyond_a_double_stay_exact(accounts: RedisAccounts) -> None:
    await accounts.apply(
        PLACE, 0, 2, numbered([entry(10**18 + 1), entry(10**17 + 1, job="s/c/2/0")])
    )
    assert await accounts.spent_micro_su() == {"physics": 10**18 + 10**17 + 2}


async def test_a_redis_that_lost_what_was_applied_refuses_to_go_on(
    client: redis.asyncio.Redis, accounts: RedisAccounts
) -> None:
    await accounts.apply(PLACE, 0, 1, numbered([entry(5)]))
    await client.flushall()
    with pytest.raises(ResponseError, match="BEHIND"):
        await accounts.apply(PLACE, 1, 2, numbered([entry(7, job="s/c/2/0")], 1))
    assert await accounts.spent_micro_su() == {}
    assert await accounts.position(PLACE) == 0


entries = st.builds(
    Entry,
    account=st.sampled_from(["a", "b", ""]),
    job_id=st.sampled_from(["1", "2", "3"]),
    attempt=st.integers(1, 2),
    revision=st.integers(1, 4),
    amount_micro_su=st.integers(0, 10**16),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(log=st.lists(entries, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=4))
async def test_any_log_in_any_batches_read_again_from_anywhere_gives_what_the_fold_gives(
    client: redis.asyncio.Redis, log: list[Entry], cuts: list[int]
) -> None:
    accounts = _new_accounts(client)
    for end in [*(min(cut, len(log)) for cut in cuts), len(log)]:
        await accounts.apply(PLACE, 0, end, numbered(log)[:end])
    spent = {name: amount for name, amount in (await accounts.spent_micro_su()).items() if amount}
    assert spent == {name: amount for name, amount in spent_micro_su(log).items() if amount}
