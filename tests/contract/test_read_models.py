"""One Lua script keeps every read model: on a Redis in memory and on a real one."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import fakeredis
import pytest
import redis.asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.energy.appdb_cache.adapters import CachedAppDB, RedisAppDB
from services.energy.appdb_cache.model import COEFFICIENTS, SIGNATURES, CachedRow, newest
from services.pricing.accounts.adapters import LEDGER, RedisAccounts
from services.pricing.accounts.model import AccountEntry, spent_micro_su
from shared.catalogue.record import TopicPartition
from shared.streams.read_models.read_model import LostPositionError, Name, ReadModel

Redis = redis.asyncio.Redis
ACCOUNTS, APPDB = "accounts", "appdb"


def entry(
    amount: int, *, account: str = "physics", job: str = "s/c/1/0", revision: int = 1
) -> AccountEntry:
    """One charge of a job."""
    return AccountEntry(account, job, 1, revision, amount)


def state(value: bytes, *, key: str = "hpcg|gold", time_us: int = 1) -> CachedRow:
    """One state of a row."""
    return CachedRow(key, time_us, value)


@dataclass(frozen=True)
class Kind:
    """A kind of read model, and what a fold in memory says that it should hold."""

    topic: str
    create: Callable[[Redis, Name], ReadModel[Any]]
    contents: Callable[[Redis, Name], Awaitable[Mapping[str, object]]]
    fold: Callable[[Sequence[Any]], Mapping[str, object]]
    examples: Sequence[Any]
    entries: st.SearchStrategy[Any]


async def _spent(client: Redis, name: Name) -> Mapping[str, object]:
    spent = await RedisAccounts(client, name).spent_micro_su()
    return {account: amount for account, amount in spent.items() if amount}


async def _rows(client: Redis, name: Name) -> Mapping[str, object]:
    return await CachedAppDB(client, name).signatures(["hpcg|gold", "a", "b", "c d"])


def _folded_spent(entries: Sequence[AccountEntry]) -> Mapping[str, object]:
    return {account: amount for account, amount in spent_micro_su(entries).items() if amount}


def _folded_rows(rows: Sequence[CachedRow]) -> Mapping[str, object]:
    return {key: row.state for key, row in newest(rows).items()}


KINDS = {
    ACCOUNTS: Kind(
        LEDGER,
        RedisAccounts,
        _spent,
        _folded_spent,
        [entry(5), entry(7, job="s/c/2/0"), entry(1, account="bio", job="s/c/3/0")],
        st.builds(
            AccountEntry,
            account=st.sampled_from(["a", "b", ""]),
            job_id=st.sampled_from(["1", "2", "3"]),
            attempt=st.integers(1, 2),
            revision=st.integers(1, 4),
            amount_micro_su=st.integers(0, 10**16),
        ),
    ),
    APPDB: Kind(
        SIGNATURES,
        RedisAppDB,
        _rows,
        _folded_rows,
        [state(b"1"), state(b"2", time_us=2), state(b"3", key="a")],
        st.builds(
            CachedRow,
            key=st.sampled_from(["a", "b", "c d"]),
            time_us=st.integers(0, 3).map(lambda n: 1_767_225_600_000_000 + n),
            state=st.binary(max_size=8),
        ),
    ),
}


class Subject:
    """A read model of one kind in a namespace of its own."""

    def __init__(self, kind: Kind, client: Redis) -> None:
        namespace = uuid4().hex
        self.kind = kind
        self.name: Name = lambda key: f"{namespace}.{key}"
        self.model = kind.create(client, self.name)
        self.partition = TopicPartition(kind.topic, 0)
        self._client = client

    async def apply(self, entries: Sequence[Any], first: int = 0, read_from: int = 0) -> None:
        """Entries at consecutive offsets."""
        numbered = list(enumerate(entries, start=first))
        await self.model.apply(self.partition, read_from, first + len(entries), numbered)

    async def contents(self) -> Mapping[str, object]:
        """What Redis holds."""
        return await self.kind.contents(self._client, self.name)


@pytest.fixture(params=["memory", "server"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """Both in turn."""
    found = (
        fakeredis.FakeAsyncRedis()
        if request.param == "memory"
        else Redis.from_url(request.getfixturevalue("redis_url"))
    )
    async with found:
        yield found


@pytest.fixture(params=list(KINDS))
def subject(request: pytest.FixtureRequest, client: Redis) -> Subject:
    """A read model of each kind."""
    return Subject(KINDS[request.param], client)


@pytest.fixture
def accounts(client: Redis) -> Subject:
    """Accounts alone."""
    return Subject(KINDS[ACCOUNTS], client)


@pytest.fixture
def appdb(client: Redis) -> Subject:
    """The application database alone."""
    return Subject(KINDS[APPDB], client)


async def test_a_new_redis_is_read_from_the_start(subject: Subject) -> None:
    assert await subject.model.position(subject.partition) == 0
    assert await subject.contents() == {}


async def test_contents_and_position_change_together(subject: Subject) -> None:
    await subject.apply(subject.kind.examples)
    assert await subject.contents() == subject.kind.fold(subject.kind.examples)
    assert await subject.model.position(subject.partition) == 3
    assert await subject.model.position(TopicPartition(subject.kind.topic, 1)) == 0


async def test_a_batch_without_entries_moves_the_position(subject: Subject) -> None:
    await subject.model.apply(subject.partition, 0, 7, [])
    assert await subject.model.position(subject.partition) == 7


async def test_a_batch_that_was_applied_before_changes_nothing(subject: Subject) -> None:
    for count in (3, 3, 1):
        await subject.apply(subject.kind.examples[:count])
    assert await subject.contents() == subject.kind.fold(subject.kind.examples)
    assert await subject.model.position(subject.partition) == 3


async def test_of_a_batch_that_was_half_applied_the_rest_is_applied(subject: Subject) -> None:
    await subject.apply(subject.kind.examples[:1])
    await subject.apply(subject.kind.examples)
    assert await subject.contents() == subject.kind.fold(subject.kind.examples)


async def test_a_redis_that_lost_what_was_applied_refuses_to_go_on(
    client: Redis, subject: Subject
) -> None:
    await subject.apply(subject.kind.examples[:1])
    await client.delete(*await client.keys(subject.name("*")))
    with pytest.raises(LostPositionError, match="BEHIND"):
        await subject.apply(subject.kind.examples[1:], first=1, read_from=1)
    assert await subject.contents() == {}
    assert await subject.model.position(subject.partition) == 0


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), cuts=st.lists(st.integers(0, 12), max_size=4))
@pytest.mark.parametrize("kind", list(KINDS))
async def test_any_log_in_any_batches_read_again_from_anywhere_gives_what_the_fold_gives(
    client: Redis, kind: str, data: st.DataObject, cuts: list[int]
) -> None:
    subject = Subject(KINDS[kind], client)
    log = data.draw(st.lists(subject.kind.entries, max_size=12))
    for end in [*(min(cut, len(log)) for cut in cuts), len(log)]:
        await subject.apply(log[:end])
    assert await subject.contents() == subject.kind.fold(log)


async def test_a_revision_replaces_the_amount_and_even_the_account(accounts: Subject) -> None:
    await accounts.apply([entry(5, account="a b  c"), entry(3, revision=2), entry(9)])
    assert await accounts.contents() == {"physics": 3}


async def test_amounts_beyond_a_double_stay_exact(accounts: Subject) -> None:
    await accounts.apply([entry(10**18 + 1), entry(10**17 + 1, job="s/c/2/0")])
    assert await accounts.contents() == {"physics": 10**18 + 10**17 + 2}


async def test_a_state_that_is_replayed_late_does_not_displace_a_newer_one(appdb: Subject) -> None:
    newer = state(b"new", time_us=1_767_225_600_000_001)
    await appdb.apply([newer, state(b"old", time_us=1_767_225_600_000_000)])
    assert await appdb.contents() == {"hpcg|gold": b"new"}


async def test_a_state_is_any_bytes(appdb: Subject) -> None:
    await appdb.apply([state(b"\x00 1 \xff\n"), state(b"", key="a")])
    assert await appdb.contents() == {"hpcg|gold": b"\x00 1 \xff\n", "a": b""}


async def test_coefficients_lie_beside_signatures_and_are_found_by_name_or_all(
    client: Redis, appdb: Subject
) -> None:
    partition = TopicPartition(COEFFICIENTS, 0)
    tables = [state(b"g", key="gold"), state(b"p", key="platinum")]
    await appdb.model.apply(partition, 0, 2, list(enumerate(tables)))
    cached = CachedAppDB(client, appdb.name)
    assert await cached.coefficients() == {"gold": b"g", "platinum": b"p"}
    assert await cached.coefficients(["platinum", "epyc"]) == {"platinum": b"p"}
    assert await cached.signatures(["gold"]) == {}
    assert await cached.signatures([]) == {}
