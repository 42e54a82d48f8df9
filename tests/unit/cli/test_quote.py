"""`coplace quote`, beside a placement that the test plays rounds of."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest
from coplace.v1.accounts_pb2 import STANDING_REFUSED, AccountStanding
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import QuoteRequest
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate
from google.protobuf.json_format import ParseDict
from yaml import safe_load

from shared.catalogue.answer_json import answer_json
from shared.domain.eamc_policy import Policy
from shared.pricing.settings import RateSettings
from shared.pricing.terms import PriceTerms
from tests.unit.cli.command_line import coplace, refusal, said
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
def terms() -> PriceTerms:
    """By what is charged: nothing is declared, until a test declares it."""
    return PriceTerms(RateSettings().rate_su_per_core_s)


@pytest.fixture(scope="module")
def address(terms: PriceTerms) -> Iterator[str]:
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
    with Served(processor, terms) as found:
        yield found


def tariff(su: str, name: str, until_us: int = 0) -> TariffDeclared:
    rates = [TariffRate(resource="core", su=su)]
    return TariffDeclared(
        name=name, version=1, until_us=until_us, model=PRICE_MODEL_FAIR, rates=rates
    )


@pytest.fixture
def words(tmp_path: Path, address: str) -> list[object]:
    """Of the quote of a job."""
    (tmp_path / "job.yaml").write_text(_JOB)
    return ["quote", tmp_path / "job.yaml", "--placement", address]


def quoted(words: list[object], *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(*words, *options, "--output", "json"))
    return found


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


def test_the_price_is_that_of_the_tariff_in_force_or_of_another_by_its_name(
    words: list[object], terms: PriceTerms
) -> None:
    terms.declare(tariff("2.5", "plain"))
    found = quoted(words)
    assert found["tariff"] == "plain/1"
    [exclusive, shared] = found["placements"]
    assert exclusive["priceSu"]["high"] == "480.000000"
    # Half of each node's cores, for a limit that holds for the worst slowdown.
    assert Decimal(shared["priceSu"]["high"]) == 300
    terms.declare(tariff("1", "past", until_us=T0_US))
    found = quoted(words, "--tariff", "past")
    assert found["tariff"] == "past/1"
    assert found["placements"][0]["priceSu"]["high"] == "192.000000"
    assert "is not declared: past/1, plain/1" in refusal(*words, "--tariff", "nobody's")
    shown = json.loads(said("tariff", "show", "--placement", words[-1], "--output", "json"))
    assert [each["name"] for each in shown["tariffs"]] == ["past", "plain"]
    assert shown["rateSuPerCoreS"].startswith("0.000277")


def test_the_documents_of_the_command_and_of_the_service_are_the_same_bytes(
    words: list[object], address: str
) -> None:
    written = said(*words, "--output", "json").encode()
    job = ParseDict(safe_load(_JOB), JobSubmitted(job_id="quote", attempt=1))
    job.submitted_at_us = T0_US
    with grpc.insecure_channel(address) as channel:
        answer = PlacementServiceStub(channel).Quote(QuoteRequest(job=job), timeout=10)
    assert written.splitlines()[0] == answer_json(answer)
