"""Receivers that mean harm, over real sockets: each own event is delivered, none of another's ever
arrives, nothing inside is reached, and memory stays as it is."""

import asyncio
import gc
import random
import socket
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp.abc import ResolveResult
from standardwebhooks import Webhook as Verifier

from coplace_client.errors import RejectedError
from services.webhooks.addresses import AddressRules
from services.webhooks.delivering import DispatchLimits
from services.webhooks.model import DeliveryAttempt
from services.webhooks.sending import WebhookPoster
from services.webhooks.signing import secret_text, signed_headers
from services.webhooks.tables import WEBHOOKS
from shared.process.clock import now_us
from tests.support import receivers as made
from tests.support.certificates import certificate_authority, identity
from tests.support.receivers import Receivers, receivers, server_tls
from tests.unit.services.history.made import finished, started, submitted
from tests.unit.services.webhooks.made import DAY_US, KEY, World

_PUBLIC = "93.184.216.34"
_TIMEOUT_S = 0.4
# Where other work has the machine, good receivers answer too late again and again.
_MOST_HOURS = 120
_HEADERS = {"webhook-id": "msg_1"}


@dataclass
class Names:
    """Addresses by names; of several the first is known first, the last one ever after."""

    of: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self.of.get(host)
        if answers is None:
            raise socket.gaierror(f"{host} is unknown")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host, host=each, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for each in found
        ]


@dataclass
class Ground:
    """Receivers, names and what posts."""

    receivers: Receivers
    names: Names
    sender: WebhookPoster
    tls: Any

    def url(self, name: str, scheme: str = "http") -> str:
        return f"{scheme}://localhost:{self.receivers.ports[name]}/{name}"

    async def post(self, url: str) -> DeliveryAttempt:
        return await self.sender.post(url, b"{}", _HEADERS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = certificate_authority(tmp_path_factory.mktemp("authority"))
    identity(folder, "server")
    identity(certificate_authority(folder / "other"), "server")
    return folder


@pytest.fixture
async def ground(authority: Path) -> AsyncIterator[Ground]:
    names = Names({"localhost": [["127.0.0.1"]]})
    rules = AddressRules(["localhost"], with_http=True)
    tls = server_tls(authority / "server.pem", authority / "server.key")
    async with (
        receivers() as found,
        WebhookPoster(rules, _TIMEOUT_S, resolver=names, ca_file=authority / "ca.pem") as sender,
    ):
        yield Ground(found, names, sender, tls)


@pytest.mark.parametrize(
    ("behaviour", "status", "error"),
    [
        (made.good, 200, ""),
        (made.hanging, 0, "no answer came in time"),
        (made.dripping, 0, "no HTTP|in time"),
        (made.flooding(500), 500, "it answers 500"),
        (made.flooding_heads, 0, "no HTTP|in time|broke"),
        (made.resetting, 0, "broke the connection off"),
        (made.talking_nonsense, 0, "no HTTP"),
        (made.answering(b"HTTP/1.1 404 No\r\n"), 404, "it answers 404"),
        (made.answering(b"HTTP/1.1 204 No\r\n"), 204, ""),
    ],
)
async def test_what_goes_wrong_is_said_in_words_of_ours(
    ground: Ground, behaviour: made.Behaviour, status: int, error: str
) -> None:
    await ground.receivers.listen("it", behaviour)
    began = asyncio.get_running_loop().time()
    attempt = await ground.post(ground.url("it"))
    assert attempt.status == status
    assert bool(attempt.error) == bool(error)
    assert any(word in attempt.error for word in error.split("|"))
    assert asyncio.get_running_loop().time() - began < 4 * _TIMEOUT_S


async def test_an_endless_answer_of_200_is_taken_by_its_head_alone(ground: Ground) -> None:
    await ground.receivers.listen("it", made.flooding(200))
    assert (await ground.post(ground.url("it"))).is_delivered
    await asyncio.sleep(0.2)
    sent = ground.receivers.taken["it"].sent_bytes
    await asyncio.sleep(0.2)
    assert ground.receivers.taken["it"].sent_bytes == sent < 32 * 2**20


async def test_a_thousand_floods_leave_nothing_in_memory(ground: Ground) -> None:
    await ground.receivers.listen("it", made.flooding(500))

    async def post_many() -> int:
        for _ in range(20):
            await asyncio.gather(*(ground.post(ground.url("it")) for _ in range(25)))
        await asyncio.sleep(0.1)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    first, ground.receivers.taken["it"].requests[:] = await post_many(), []
    second = await post_many()
    tracemalloc.stop()
    assert second - first < 2**20


@pytest.mark.parametrize(
    ("text", "wait_us"),
    [
        ("7", 7_000_000),
        ("Sat, 28 Nov 2026 10:00:30 GMT", 30_000_000),
        ("Sat, 28 Nov 2026 09:00:30 GMT", 0),
        ("soon", 0),
        ("-5", 0),
        ("9" * 39, int("9" * 39) * 1_000_000),
        ("\u0667", 0),
    ],
)
async def test_how_long_a_receiver_asks_to_wait_is_read(
    ground: Ground, text: str, wait_us: int
) -> None:
    head = f"HTTP/1.1 503 No\r\ndate: Sat, 28 Nov 2026 10:00:00 GMT\r\nretry-after: {text}\r\n"
    await ground.receivers.listen("it", made.answering(head.encode()))
    assert (await ground.post(ground.url("it"))).retry_after_us == wait_us


async def test_no_redirect_is_followed(ground: Ground) -> None:
    await ground.receivers.listen("inside", made.good)
    inside = f"http://127.0.0.1:{ground.receivers.ports['inside']}/"
    for url in (inside, ground.url("inside")):
        await ground.receivers.listen("it", made.redirecting(url))
        attempt = await ground.post(ground.url("it"))
        assert attempt.status == 307
        assert "redirects" in attempt.error
    assert ground.receivers.taken["inside"].connections == 0


async def test_a_name_that_means_something_inside_by_then_leads_nowhere(ground: Ground) -> None:
    port = await ground.receivers.listen("inside", made.good)
    url = f"http://rebind.test:{port}/"
    for later in (["127.0.0.1"], [_PUBLIC, "127.0.0.1"], ["::ffff:127.0.0.1"], ["fe80::1%lo"]):
        ground.names.of["rebind.test"] = [[_PUBLIC], later]
        await ground.sender.check(url)
        attempt = await ground.post(url)
        assert "which is no public address" in attempt.error
        with pytest.raises(RejectedError, match="no public address"):
            await ground.sender.check(url)
    assert ground.receivers.taken["inside"].connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::ffff:7f00:1]"])
async def test_no_way_to_write_an_address_leads_inside(ground: Ground, host: str) -> None:
    port = await ground.receivers.listen("inside", made.good)
    ground.names.of |= {name: [["127.0.0.1"]] for name in ("127.1", "2130706433", "0x7f.1")}
    attempt = await ground.post(f"http://{host}:{port}/")
    assert attempt.status == 0
    assert "no public address" in attempt.error or "an address in full" in attempt.error
    with pytest.raises(RejectedError):
        await ground.sender.check(f"http://{host}:{port}/")
    assert ground.receivers.taken["inside"].connections == 0


async def test_a_certificate_that_is_not_valid_gets_no_body(
    ground: Ground, authority: Path
) -> None:
    other = server_tls(authority / "other" / "server.pem", authority / "other" / "server.key")
    await ground.receivers.listen("good", made.good, ground.tls)
    await ground.receivers.listen("forged", made.good, other)
    await ground.receivers.listen("plain", made.talking_nonsense)
    assert (await ground.post(ground.url("good", "https"))).is_delivered
    forged = await ground.post(ground.url("forged", "https"))
    assert "its certificate is not valid" in forged.error
    plain = await ground.post(ground.url("plain", "https"))
    assert plain.error == "TLS failed: does it speak https?"
    assert not ground.receivers.taken["forged"].requests
    assert not ground.receivers.taken["plain"].requests


async def test_a_name_without_address_is_refused_with_what_to_do(ground: Ground) -> None:
    with pytest.raises(RejectedError, match="register it in DNS"):
        await ground.sender.check("https://nowhere.test/")
    assert (await ground.post("https://nowhere.test/")).error == "its name has no address"


def _register(world: World, name: str, url: str, user: str) -> None:
    world.add(name, user=user, who=user + name)
    with world.database.transaction() as connection:
        query = WEBHOOKS.update().where(WEBHOOKS.c.webhook_id == name)
        connection.execute(query.values(url=url))


class Region:
    """Webhooks at all receivers, and processes that are killed."""

    def __init__(self, ground: Ground, world: World, rng: random.Random) -> None:
        self.ground, self.world, self.rng = ground, world, rng
        self.told = 0

    async def build(self, authority: Path) -> None:
        """Have a receiver of each kind, and its webhook."""
        listen = self.ground.receivers.listen
        other = server_tls(authority / "other" / "server.pem", authority / "other" / "server.key")
        trap = await listen("trap", made.good)
        self.ground.names.of["rebind.test"] = [[_PUBLIC], ["127.0.0.1"]]
        await self.ground.sender.check(f"http://rebind.test:{trap}/")
        await listen("good", made.good, self.ground.tls)
        await listen("bobs", made.good, self.ground.tls)
        await listen("forged", made.good, other)
        kinds = {
            "hang": made.hanging,
            "drip": made.dripping,
            "flood": made.flooding(200),
            "flood500": made.flooding(500),
            "heads": made.flooding_heads,
            "fail": made.answering(b"HTTP/1.1 500 No\r\n"),
            "over": made.answering(b"HTTP/1.1 410 Over\r\n"),
            "reset": made.resetting,
            "nonsense": made.talking_nonsense,
            "redirect": made.redirecting(f"http://127.0.0.1:{trap}/"),
            "flaky": self._flaky,
        }
        for name, behaviour in kinds.items():
            await listen(name, behaviour)
            _register(self.world, name, self.ground.url(name), "ada")
        for name, user in (("good", "ada"), ("bobs", "bob"), ("forged", "ada")):
            _register(self.world, name, self.ground.url(name, "https"), user)
        _register(self.world, "rebind", f"http://rebind.test:{trap}/", "ada")

    async def _flaky(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: made.Taken
    ) -> None:
        """Takes what it gets and then says that it did not, or nothing; or says that it did."""
        busy = made.answering(b"HTTP/1.1 503 No\r\n")
        behaviour = self.rng.choice((made.good, made.good, made.resetting, busy))
        await behaviour(reader, writer, taken)

    def happen(self) -> None:
        """A job of ada's and one of bob's start and end."""
        for user in ("ada", "bob"):
            job_id = f"{user}/{self.told}"
            end = finished(job_id, user=user)
            self.world.log.add("jobs.events", submitted(job_id, user=user), started(job_id), end)
        self.told += 1
        self.world.apply()

    async def live(self, real_s: float) -> None:
        """Be a process for a while, and killed."""
        world = self.world
        deliverer = world.deliverer(DispatchLimits(4, 12, 16))

        async def post(url: str, body: bytes, headers: Mapping[str, str]) -> DeliveryAttempt:
            # What receivers verify is dated now.
            webhook_id = next(row.webhook_id for row in world.registry.every() if row.url == url)
            dated = signed_headers(headers["webhook-id"], now_us(), body, [KEY.of(webhook_id, 1)])
            return await self.ground.sender.post(url, body, dated)

        deliverer._post = post
        stop = asyncio.Event()
        task = asyncio.create_task(deliverer.run(stop))
        await asyncio.sleep(real_s)
        for each in [task, *deliverer._tasks]:
            each.cancel()
        with suppress(asyncio.CancelledError):
            await task
        world.open()

    def own(self, name: str) -> set[str]:
        """The ids of the events that a receiver got, each verified."""
        found: dict[tuple[str, str], str] = {}
        signer = Verifier(secret_text(KEY.of(name, 1)))
        user = "bob" if name == "bobs" else "ada"
        for headers, body in self.ground.receivers.taken[name].requests:
            document = signer.verify(body, headers)
            data = document["data"]
            assert data["user"] == user
            event = document["type"], data["jobId"]
            assert found.setdefault(event, headers["webhook-id"]) == headers["webhook-id"]
        return {f"{kind} {job_id}" for kind, job_id in found}


async def test_each_own_event_is_delivered_whatever_receivers_do(
    ground: Ground, authority: Path, tmp_path: Path
) -> None:
    rng = random.Random(11)
    world = World(tmp_path)
    region = Region(ground, world, rng)
    await region.build(authority)
    tracemalloc.start()
    sizes = []
    for _ in range(12):
        region.happen()
        await region.live(rng.uniform(0.05, 0.9))
        world.now += rng.randrange(60_000_000)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kinds, numbers = ("job.started", "job.ended"), range(region.told)
    expected = {
        name: {f"{kind} {user}/{number}" for kind in kinds for number in numbers}
        for name, user in (("good", "ada"), ("bobs", "bob"), ("flaky", "ada"), ("flood", "ada"))
    }
    for hours in range(_MOST_HOURS):
        world.now += DAY_US // 24
        await region.live(0.4)
        if hours > 20 and all(region.own(name) == own for name, own in expected.items()):
            break
    for name, own in expected.items():
        assert region.own(name) == own, name
    assert ground.receivers.taken["trap"].connections == 0
    assert ground.receivers.taken["forged"].requests == []
    for name in ("fail", "over", "flood500", "redirect"):
        assert all(each["data"]["user"] == "ada" for each in ground.receivers.taken[name].documents)
    over = world.registry.find("over")
    assert over
    assert not over.is_active
    assert peak_bytes < 48 * 2**20
    assert max(sizes) < 24 * 2**20
