"""Every command that declares, orders or asks says what came of it, whatever the owner does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import grpc
import pytest
from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_IN_FORCE,
    COMMAND_RESULT_REFUSED,
)
from coplace.v1.tariffs_pb2 import TariffDeclared
from typer.testing import Result

from cli import outcomes, price
from cli.authority import declared, tokens
from cli.authority.file import read_table
from cli.kafka_topics import CHARGES, KafkaTopics
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.catalogue.event import Event
from tests.unit.cli.command_line import coplace
from tests.unit.cli.energy.test_energy_push import System, table
from tests.unit.cli.orders import (
    AT_THE_DOOR,
    NOT_ONE_ANSWER,
    ORDERS,
    OUTCOME,
    QUESTIONS,
    addresses_of,
    commands,
    page,
    path_of,
    write_files,
)
from tests.unit.cli.owners import Region
from tests.unit.cli.test_models import TOLD
from tests.unit.services.pricing.support import tariff
from tests.unit.services.pricing.test_tariffs_and_accounts import finished, priced
from tests.unit.shared.placement.region import placement, round_of, started, submitted
from tests.unit.shared.placement.state.test_slowdown_guarantees import seen

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "what-came-of-a-command.md"
WHY = "the fan of rack 7 says no"
TREES = [Event(f"e/{at}", "prediction", at, "trees", payload) for at, payload in enumerate(TOLD)]


@pytest.fixture(scope="module")
def region() -> Iterator[Region]:
    """One job runs there, which a neighbour slowed down, and one waits for more nodes than there
    are."""
    processor = placement()
    shares = submitted("runs", 1, app_id="hpcg", cores_per_unit=4, shareable=True)
    decided = round_of(processor, 0, shares, submitted("waits", 2, nodes=4))
    slowed = seen("runs", "gone", 4.0)
    round_of(processor, 1, *(started(each) for each in decided if each.grant), slowed)
    assert [each.app_id for each in processor.queries.policy().pairs_apart] == ["app-0"]
    with Region(processor) as found:
        yield found


@pytest.fixture(scope="module")
def topics() -> Mapping[str, Sequence[Event]]:
    """Of a region with one node model and one charge."""
    charge = priced(tariff("old"), finished())
    return {**System().topics, CHARGES: [Event("c", "pricing", 1, charge.job_id, charge)]}


@pytest.fixture
def folder(
    topics: Mapping[str, Sequence[Event]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Files that commands read, and topics."""
    monkeypatch.setattr(KafkaTopics, "topic", lambda _self, name: topics.get(name, TREES))
    by = TariffDeclared(name="t", version=1)
    monkeypatch.setattr(price, "tariffs", lambda _deployment: [by])
    write_files(tmp_path)
    table(tmp_path).rename(tmp_path / "m.coefficients.csv")
    return tmp_path


def run(words: str, folder: Path, placement: str, ingest: str, *more: str) -> Result:
    """A command at these services."""
    given = words.format(folder=folder).split()
    addresses = {
        "COPLACE_PLACEMENT_ADDRESS": placement,
        "COPLACE_INGEST_ADDRESS": ingest,
        "COPLACE_ENERGY_ADDRESS": placement,
    }
    return coplace(*given, *more, **addresses)


def at(words: str, folder: Path, region: Region, *more: str) -> Result:
    """A command in the region."""
    region.owners.published.clear()
    return run(words, folder, region.address, region.address, *more)


def test_every_command_that_speaks_to_a_service_is_one_of_these() -> None:
    known = {path_of(words) for words in (*ORDERS, *QUESTIONS)}
    known |= {*OUTCOME, *AT_THE_DOOR, *NOT_ONE_ANSWER}
    speaking = {" ".join(path) for path, command in commands() if addresses_of(command)}
    assert known == speaking, "give words for it in tests/unit/cli/orders.py"
    for path, command in commands():
        names = {each.name for each in command.params}
        waits = "source" in names and "COPLACE_INGEST_ADDRESS" in addresses_of(command)
        if waits and " ".join(path) not in (*AT_THE_DOOR, *NOT_ONE_ANSWER):
            assert "wait" in names, f"{path} declares something and does not wait for its owner"


@pytest.mark.parametrize("words", ORDERS)
def test_what_is_ordered_is_done_when_its_owner_has_it_in_force(
    words: str, folder: Path, region: Region
) -> None:
    region.owners.result, region.owners.reason = COMMAND_RESULT_IN_FORCE, ""
    done = at(words, folder, region)
    assert done.exit_code == 0, done.output
    kinds = {event.type for event in region.owners.published}
    assert kinds == {f"coplace.v1.{ORDERS[words]}"}
    assert "in force since round 7 of " in done.output


@pytest.mark.parametrize("words", ORDERS)
def test_what_its_owner_refuses_ends_with_1_and_the_reason(
    words: str, folder: Path, region: Region
) -> None:
    region.owners.result, region.owners.reason = COMMAND_RESULT_REFUSED, WHY
    refused = at(words, folder, region)
    assert refused.exit_code == 1
    assert f"refused it: {WHY}" in refused.stderr.splitlines()[-1]
    assert "in force" not in refused.output
    asked = at_the_door("outcome", region)
    assert (asked.exit_code, f"refused it: {WHY}" in asked.stderr) == (1, True)


@pytest.mark.parametrize("words", ORDERS)
def test_where_its_owner_is_silent_it_ends_with_3_and_how_to_ask_again(
    words: str, folder: Path, region: Region
) -> None:
    for result, reason in ((None, ""), (COMMAND_RESULT_EARLY, "who is it")):
        region.owners.result, region.owners.reason = result, reason
        silent = at(words, folder, region, "--wait", "0.5")
        assert silent.exit_code == 3
        line = silent.stderr.splitlines()[-1]
        [event] = region.owners.published
        assert line.startswith("error: accepted, not yet in force: `coplace outcome ")
        assert event.id in line
        assert reason in line
    asked = at_the_door("outcome", region)
    assert asked.exit_code == 3
    region.owners.result = COMMAND_RESULT_IN_FORCE
    assert "in force since round 7" in at_the_door("outcome", region).stdout


def at_the_door(word: str, region: Region) -> Result:
    """What is asked of the order that was published last."""
    address = {"COPLACE_INGEST_ADDRESS": region.address}
    return coplace(word, region.owners.published[-1].id, **address)


@pytest.mark.parametrize("words", [*ORDERS, *QUESTIONS])
@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, WHY),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
    ],
)
def test_a_service_that_refuses_or_is_silent_ends_it_with_1_and_why(
    words: str, folder: Path, region: Region, code: grpc.StatusCode, details: str
) -> None:
    address = region.ends_with(code, details)
    placement = region.address if words in ORDERS else address
    ended = run(words, folder, placement, address)
    assert ended.exit_code == 1
    assert details in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", AT_THE_DOOR.values())
def test_a_door_that_refuses_a_table_or_is_silent_ends_it_with_1_and_why(
    words: str, folder: Path, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = BearerToken(digest_of(fresh_token()), "olga", 1, 10**18)
    bindings = read_table(folder / "authority.yaml")
    held = AuthorityTable.from_message(message_of(1, bindings, "", 1, [issued]))
    monkeypatch.setattr(tokens, "_table", lambda: held)
    monkeypatch.setattr(declared, "read_table_in_force", lambda _deployment: TableInForce())
    for code, details in (
        (grpc.StatusCode.ABORTED, WHY),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
    ):
        ended = run(words, folder, region.address, region.ends_with(code, details))
        assert ended.exit_code == 1
        assert details in ended.stderr.splitlines()[-1]


def test_an_order_that_ingest_took_is_accepted_though_nobody_can_be_asked(
    folder: Path, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "publish", lambda _address, _event: None)
    for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED):
        address = region.ends_with(code, "gone")
        asked = run("hold waits", folder, region.address, address)
        assert asked.exit_code == 3
        assert "accepted, not yet in force" in asked.stderr


def test_the_table_of_commands_is_up_to_date() -> None:
    assert page() in HOW_TO.read_text(), f"put this into {HOW_TO.name}:\n{page()}"
