"""Answers over gRPC and REST from a database, to who may have them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION, PowerCapDeclared, PowerCapStep
from coplace.v1.jobs_pb2 import JobHeld, JobReleased
from coplace.v1.placement_pb2 import VERDICT_HELD, VERDICT_QUEUED, Reservation
from google.protobuf.message import Message
from opentelemetry.metrics import NoOpMeter
from typer.testing import CliRunner

from cli.main import app
from deploy.local.ports import free_ports
from services.history.database import Database, open_database
from services.history.meter import HistoryMeter
from services.history.reading import HistoryReader
from services.history.service import HistoryService
from services.rest.calls import Services
from shared.authority.bearing import TokenGate
from shared.authority.binding import Binding, Role
from shared.authority.door import Door
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.process.clock import now_us
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.unit.services.calls import served_by_process
from tests.unit.services.history.made import (
    HOUR_US,
    T0_US,
    FactLog,
    apply_all,
    audited,
    charge,
    database,
    decided,
    finished,
    standing,
    started,
    submitted,
)
from tests.unit.services.rest.served import Client, HttpAnswer, listening
from tests.unit.shared.authority.test_bearing import Audit

ADAS, BOBS = "north/alpha/1/1767225600", "north/alpha/100%_2/1767225600"
_BINDINGS = [
    Binding("olga", Role.OPERATOR, sites=("*",)),
    Binding("ada", Role.USER, accounts=("physics",)),
    Binding("bill", Role.BILLING, accounts=("physics",)),
    Binding("north", Role.OPERATOR, sites=("north",)),
]


def facts() -> FactLog:
    """Two jobs of two users with one account charged, and one of a user named like it."""
    log = FactLog()
    log.add("jobs.events", submitted(ADAS), started(ADAS), finished(ADAS))
    log.add("placement.decisions", decided(ADAS))
    log.add("jobs.events", submitted(BOBS, user="bob", submitted_at_us=T0_US + 1))
    log.add("jobs.events", submitted("c", user="physics", account="ada"))
    log.add("prices.charges", charge(ADAS), charge(ADAS, "90.000000", revision=2))
    end = finished(BOBS, user="bob", ended_at_us=T0_US + 2 * HOUR_US)
    log.add("prices.charges", charge(BOBS, "7.000001", finished=end))
    log.add("accounts.standings", standing("physics"))
    log.add("audit", audited("ada", T0_US), audited("bob", T0_US + 1, refused=True))
    return log


@pytest.fixture
def reader(empty: Database) -> HistoryReader:
    """A database of these."""
    _, writer = database(empty)
    apply_all(writer, facts())
    return HistoryReader(open_database(empty))


class Asked(NamedTuple):
    """REST before a history."""

    client: Client
    crashes: list[Exception]

    async def get(self, path: str, **headers: str) -> HttpAnswer:
        answer = await self.client.get(path, **headers)
        assert self.crashes == []
        return answer


@asynccontextmanager
async def open_history(reader: HistoryReader) -> AsyncIterator[Asked]:
    crashes: list[Exception] = []
    service = HistoryService(reader, HistoryMeter(NoOpMeter("test")), crashes.append)
    async with served_by_process(service.handlers()) as (address, _):
        services = Services({"coplace.v1.HistoryService": address}, None, 30.0)
        async with listening(services) as client:
            yield Asked(client, crashes)
        await services.close()


async def test_runs_are_listed_the_newest_submission_first(reader: HistoryReader) -> None:
    async with open_history(reader) as history:
        every = (await history.get("/v1/runs")).json
        own = (await history.get("/v1/runs?user=bob")).json
        ended = (await history.get("/v1/runs?states=RUN_STATE_COMPLETED&account=physics")).json
        before = (await history.get(f"/v1/runs?untilUs={T0_US}")).json
    assert [run["jobId"] for run in every["runs"]] == [BOBS, ADAS, "c"][:1] + sorted(
        [ADAS, "c"], reverse=True
    )
    assert [run["jobId"] for run in own["runs"]] == [BOBS]
    assert {run["jobId"] for run in ended["runs"]} == {ADAS, BOBS}
    assert before["runs"] == []


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("/v1/runs?", "runs"),
        ("/v1/charges?", "charges"),
        ("/v1/audit?", "records"),
        ("/v1/accounts?", "accounts"),
        ("/v1/statements/physics?", "lines"),
    ],
)
async def test_pages_by_cursor_have_each_row_once(
    reader: HistoryReader, path: str, rows: str
) -> None:
    async with open_history(reader) as history:
        whole = (await history.get(f"{path}pageSize=1000")).json
        found, token = [], ""
        while True:
            page = (await history.get(f"{path}pageSize=1&pageToken={quote(token)}")).json
            found += page[rows]
            if not (token := page["nextPageToken"]):
                break
    assert found == whole[rows]
    assert len(found) > 1 or rows == "accounts"


async def test_signs_of_patterns_in_filters_are_text(reader: HistoryReader) -> None:
    async with open_history(reader) as history:
        answers = [
            (await history.get(f"/v1/runs?user={quote(user)}")).json["runs"]
            for user in ("%", "b_b", "*", "' OR 1=1 --", "bob%")
        ]
        story = await history.get(f"/v1/stories/{quote(BOBS, safe='')}")
    assert answers == [[]] * 5
    assert story.json["runs"][0]["jobId"] == BOBS


async def test_a_statement_has_all_postings_and_sums_that_agree(reader: HistoryReader) -> None:
    async with open_history(reader) as history:
        whole = (await history.get("/v1/statements/physics")).json
        later = (await history.get(f"/v1/statements/physics?fromUs={T0_US + HOUR_US + 1}")).json
        own = (await history.get("/v1/statements/physics?user=bob")).json
        account = (await history.get("/v1/accounts/physics")).json["account"]
    amounts = [line["amountSu"] for line in whole["lines"]]
    assert amounts == ["100.000000", "-100.000000", "90.000000", "7.000001"]
    assert (whole["openingSu"], whole["closingSu"]) == ("0.000000", "97.000001")
    assert (later["openingSu"], later["closingSu"]) == ("90.000000", "97.000001")
    assert [line["isReversal"] for line in whole["lines"]] == [False, True, False, False]
    assert (own["closingSu"], own["linesInPeriod"]) == ("7.000001", "1")
    assert (account["chargedSu"], account["allocatedSu"]) == ("97.000001", "1000.000000")


async def test_a_story_has_what_happened_in_order(reader: HistoryReader) -> None:
    async with open_history(reader) as history:
        story = (await history.get(f"/v1/stories/{ADAS}")).json
    assert [line["event"].removeprefix("STORY_EVENT_") for line in story["lines"]] == [
        "SUBMITTED", "DECIDED", "STARTED", "ENDED", "CHARGED", "CHARGED",
    ]  # fmt: skip
    assert story["lines"][1]["details"] == "to start on 4 nodes of alpha at 2.4 GHz"


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/v1/runs?pageSize=1001", 400, "pageSize"),
        ("/v1/runs?pageToken=AAAA", 400, "pageToken"),
        ("/v1/runs?pageToken=WzEsMl0=", 400, "pageToken"),
        ("/v1/charges?fromUs=-1", 400, "fromUs"),
        ("/v1/charges?fromUs=5&untilUs=4", 400, "untilUs"),
        ("/v1/accounts/nobody", 404, ""),
        ("/v1/statements/nobody", 404, ""),
        ("/v1/stories/nobody", 404, ""),
    ],
)
async def test_what_cannot_be_answered_names_its_field(
    reader: HistoryReader, path: str, status: int, field: str
) -> None:
    async with open_history(reader) as history:
        answer = await history.get(path)
    assert answer.status == status
    assert [name for name, _ in answer.problem[1]] == ([field] if field else [])


async def test_the_same_answer_has_the_same_tag(reader: HistoryReader) -> None:
    async with open_history(reader) as history:
        tag = (await history.get("/v1/accounts")).headers["etag"]
        again = await history.get("/v1/accounts", If_None_Match=tag)
    assert again.status == 304


def waits_and_holds() -> FactLog:
    """A job that is held, released, waits under a promise, and starts."""
    log = FactLog("waits")

    def at(topic: str, minute: int, payload: Message) -> None:
        log.add(topic, payload, time_us=T0_US + minute * 60_000_000)

    held: dict[str, Any] = {"reason": "data are not there", "held_at_us": T0_US}
    reservation = Reservation(cluster="alpha", nodes=4, start_at_us=T0_US + HOUR_US)
    at("jobs.events", 1, JobHeld(job_id=ADAS, **held))
    at("placement.decisions", 2, decided(ADAS, verdict=VERDICT_HELD, reason="held by ada"))
    at("jobs.events", 3, JobReleased(job_id=ADAS, released_at_us=T0_US))
    for minute, reason in ((4, "alpha: 3 of 4 nodes are free"), (5, "alpha: its cap of power")):
        waits: dict[str, Any] = {
            "verdict": VERDICT_QUEUED,
            "reason": reason,
            "reservation": reservation,
        }
        at("placement.decisions", minute, decided(ADAS, **waits))
    at("placement.decisions", 6, decided(ADAS))
    return log


async def test_a_run_says_on_which_nodes_it_was_and_how_it_ended(empty: Database) -> None:
    _, writer = database(empty)
    log = FactLog("ends")
    log.add("jobs.events", started(ADAS, nodes=["n1", "n2"]))
    told: dict[str, Any] = {"ended_as": "FAILED", "exit_code": 3}
    log.add("jobs.events", finished(ADAS, node_names=["n[1-2]"], **told))
    apply_all(writer, log)
    async with open_history(HistoryReader(open_database(empty))) as history:
        [run] = (await history.get(f"/v1/stories/{ADAS}")).json["runs"]
    assert (run["nodeNames"], run["endedAs"]) == (["n[1-2]"], "FAILED")
    assert (run["exitCode"], run["signal"]) == (3, 0)


async def test_a_story_has_each_wait_and_hold_with_its_reason(empty: Database) -> None:
    _, writer = database(empty)
    apply_all(writer, waits_and_holds())
    async with open_history(HistoryReader(open_database(empty))) as history:
        story = (await history.get(f"/v1/stories/{ADAS}")).json
    assert [(line["event"].removeprefix("STORY_EVENT_"), line["details"])
            for line in story["lines"]] == [
        ("ASKED", "test asked it to be held: data are not there"),
        ("HELD", "held by ada"),
        ("ASKED", "test asked it to be released"),
        ("WAITS", "alpha: 3 of 4 nodes are free; promised 4 nodes of alpha by "
                  "2026-01-01T01:00:00.000000Z"),
        ("WAITS", "alpha: its cap of power; promised 4 nodes of alpha by "
                  "2026-01-01T01:00:00.000000Z"),
        ("DECIDED", "to start on 4 nodes of alpha at 2.4 GHz"),
    ]  # fmt: skip


async def test_the_audit_has_what_was_before_and_after(empty: Database) -> None:
    _, writer = database(empty)
    log = FactLog()
    cap: dict[str, Any] = {"scope": POWER_SCOPE_REGION, "declared_at_us": T0_US}
    for number, watts in enumerate((5_000, 7_000)):
        steps = [PowerCapStep(from_us=T0_US, watts=watts)]
        log.add("commands", PowerCapDeclared(steps=steps, **cap), time_us=T0_US + number)
    access: dict[str, Any] = {
        "action": "power_cap_declared",
        "event_id": "test/2",
        "reason": "as operator",
    }
    log.add("audit", audited("olga", T0_US + 9, **access))
    log.add("jobs.events", JobHeld(job_id=ADAS, held_at_us=T0_US))
    apply_all(writer, log)
    async with open_history(HistoryReader(open_database(empty))) as history:
        every = (await history.get("/v1/audit")).json["records"]
        caps = (await history.get("/v1/audit?subject=cap%20region")).json["records"]
    assert [record["action"] for record in every] == [
        "power_cap_declared", "job_held", "power_cap_declared",
    ]  # fmt: skip
    assert caps == [every[0], every[2]]
    assert (caps[0]["who"], caps[0]["reason"], caps[1]["who"]) == ("olga", "as operator", "test")
    [newer], [older] = (record["changes"] for record in caps)
    assert json.loads(newer["after"])["steps"][0]["watts"] == 7_000
    assert (older["before"], newer["before"]) == ("", older["after"])
    assert json.loads(older["after"])["steps"][0]["watts"] == 5_000


# Who asks what, and how it is answered.
_TABLE = [
    ("ada", f"/v1/stories/{ADAS}", 200),
    ("ada", f"/v1/stories/{quote(BOBS, safe='')}", 403),
    ("ada", "/v1/stories/nobody's", 403),
    ("north", f"/v1/stories/{ADAS}", 200),
    ("ada", "/v1/runs", 403),
    ("ada", "/v1/runs?user=bob", 403),
    ("ada", "/v1/runs?account=ada", 403),
    ("ada", "/v1/runs?user=ada", 200),
    ("ada", "/v1/charges?user=bob", 403),
    ("ada", "/v1/charges?account=physics", 403),
    ("ada", "/v1/charges?user=ada", 200),
    ("bill", "/v1/charges?account=physics", 200),
    ("bill", "/v1/accounts", 403),
    ("ada", "/v1/accounts", 403),
    ("ada", "/v1/accounts/physics", 200),
    ("ada", "/v1/accounts/ada", 403),
    ("ada", "/v1/statements/physics", 403),
    ("ada", "/v1/statements/physics?user=bob", 403),
    ("ada", "/v1/statements/physics?user=ada", 200),
    ("ada", "/v1/statements/ada?user=ada", 403),
    ("bill", "/v1/statements/physics", 200),
    ("bill", "/v1/statements/ada", 403),
    ("ada", "/v1/audit", 403),
    ("bill", "/v1/audit", 403),
    ("north", "/v1/audit", 403),
    ("olga", "/v1/audit", 200),
    ("olga", "/v1/accounts", 200),
    ("olga", "/v1/runs", 200),
    ("", "/v1/runs", 401),
]


async def test_a_user_sees_own_jobs_only(reader: HistoryReader, tmp_path: Path) -> None:
    folder = certificate_authority(tmp_path)
    identity(folder, "server")
    certificate_port, token_port = free_ports(2)
    settings = Settings(
        grpc_cert_file=folder / "server.pem",
        grpc_key_file=folder / "server.key",
        grpc_ca_file=folder / "ca.pem",
        grpc_token_port=token_port,
    )
    tokens = {one.who: fresh_token() for one in _BINDINGS}
    now = now_us()
    issued = [
        BearerToken(digest_of(token), who, now - 2, now + HOUR_US) for who, token in tokens.items()
    ]
    table, audit, crashes = TableInForce(), Audit(), list[Exception]()
    table.now = AuthorityTable.from_message(message_of(1, _BINDINGS, "", 0, issued))
    door = Door("test", table, audit, NoOpMeter("test"))
    service = HistoryService(reader, HistoryMeter(NoOpMeter("test")), crashes.append, door)
    process = Process(settings, Telemetry("test", settings))
    gate = TokenGate(door, crashes.append)
    services = Services(
        {"coplace.v1.HistoryService": f"localhost:{token_port}"}, folder / "ca.pem", 30.0
    )
    async with (
        grpc_server(process, "127.0.0.1", certificate_port, service.handlers(), gate=gate),
        listening(services) as client,
    ):
        for who, path, status in _TABLE:
            headers = {"Authorization": f"Bearer {tokens[who]}"} if who else {}
            answer = await client.get(path, **headers)
            assert (who, path, answer.status) == (who, path, status)
            if status == 403:
                assert b"7.000001" not in answer.body
    await services.close()
    assert crashes == []
    assert ("ada", "ShowStory") in [(one.who, one.action) for one in audit.records]


async def test_the_command_line_prints_the_documents_of_rest(reader: HistoryReader) -> None:
    import asyncio

    crashes: list[Exception] = []
    service = HistoryService(reader, HistoryMeter(NoOpMeter("test")), crashes.append)
    commands: list[tuple[list[str], str]] = [
        (["accounts"], "/v1/accounts?pageSize=50"),
        (["statement", "physics"], "/v1/statements/physics?pageSize=50"),
        (["jobs", "--user", "bob"], "/v1/runs?user=bob&pageSize=50"),
        (["charges"], "/v1/charges?pageSize=50"),
        (["audit"], "/v1/audit?pageSize=50"),
        (["story", ADAS], f"/v1/stories/{ADAS}"),
    ]
    async with served_by_process(service.handlers()) as (address, _):
        services = Services({"coplace.v1.HistoryService": address}, None, 30.0)
        async with listening(services) as client:
            for words, path in commands:
                told = ["history", *words, "--output", "json", "--history", address]
                found = await asyncio.to_thread(CliRunner().invoke, app, told)
                assert found.exit_code == 0, found.output
                assert json.loads(found.stdout) == (await client.get(path)).json
                shown = await asyncio.to_thread(
                    CliRunner().invoke, app, ["history", *words, "--history", address]
                )
                assert shown.exit_code == 0, shown.output
        await services.close()
