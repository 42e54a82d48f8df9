"""`coplace quote`, beside a placement that the test plays rounds of."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.accounts_pb2 import STANDING_REFUSED, AccountStanding
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate

from cli import quote as command
from shared.domain.eamc_policy import Policy
from tests.unit.cli.command_line import coplace, refusal, rows_of, said
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import T0_US, event, placement, round_of, started, submitted

_JOB = """
user: ada
account: physics
app_id: app-0
nodes: 4
walltime_s: 3600
reference_cluster: p1
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a placement where job a has all four nodes of p1 for an hour, and the account of chemistry
    is empty."""
    processor = placement(policy=Policy.BASE)
    empty = AccountStanding(
        account="chemistry", number=1, standing=STANDING_REFUSED, allocated_su="5"
    )
    decided = round_of(
        processor, 0, submitted("a", nodes=4), event("standing/chemistry", empty, T0_US)
    )
    round_of(processor, 1, *map(started, decided))
    with Served(processor) as found:
        yield found


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[TariffDeclared]:
    """The tariffs that the topic holds: none, until the test puts one in."""
    found: list[TariffDeclared] = []
    monkeypatch.setattr(command, "tariffs", lambda _deployment: found)
    return found


def tariff(su: str, name: str = "plain") -> TariffDeclared:
    rates = [TariffRate(resource="core", su=su)]
    return TariffDeclared(name=name, version=1, model=PRICE_MODEL_FAIR, rates=rates)


@pytest.fixture
def words(tmp_path: Path, address: str) -> list[object]:
    """Of the quote of a job."""
    (tmp_path / "job.yaml").write_text(_JOB)
    return ["quote", tmp_path / "job.yaml", "--placement", address]


def rows(words: list[object], *options: str) -> list[dict[str, Any]]:
    return rows_of(said(*words, *options, "--output", "json"))


@pytest.mark.usefixtures("declared")
def test_both_ways_are_quoted_with_intervals(words: list[object]) -> None:
    result = coplace(*words)
    assert result.exit_code == 0, result.output
    exclusive, shared = [line for line in result.stdout.splitlines() if "p1" in line]
    assert "| exclusive |" in exclusive
    assert "0.99 h (0.00 to 0.99)" in exclusive
    assert "192.00 SU (0.00 to 192.00)" in exclusive  # 4 x 48 cores for an hour
    assert "| shared " in shared
    assert "no tariff is in force" in result.stderr
    assert "too few jobs have ended" in result.stderr


def test_the_price_is_that_of_the_tariff_in_force_or_of_another_by_its_name(
    words: list[object], declared: list[TariffDeclared]
) -> None:
    declared.append(tariff("2.5"))
    [exclusive, shared] = rows(words)
    assert exclusive["high_price_su"] == "480.000000"
    # Half of each node's cores, for a limit that holds for the worst slowdown.
    assert Decimal(str(shared["high_price_su"])) == 300
    declared.append(tariff("1", name="next"))
    assert rows(words, "--tariff", "plain")[0]["high_price_su"] == "480.000000"
    assert "is not declared: plain/1, next/1" in refusal(*words, "--tariff", "nobody's")


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("nodes: 400", "fits on no cluster"),
        ("nodes: 0", "nodes"),
        ("reference_cluster: p9", "its reference cluster p9 is not declared"),
        ("account: chemistry", "account chemistry has used up its 5 SU"),
        ("wishes: all", "is not a valid JobSubmitted"),
        ("walltime_s: -1", "walltime_s"),
    ],
)
def test_what_would_not_be_run_is_refused_in_a_line(
    words: list[object], tmp_path: Path, change: str, told: str
) -> None:
    (tmp_path / "job.yaml").write_text(f"{_JOB}{change}\n")
    assert told in refusal(*words)
