"""Statements: the last revision of each charge, and its sum."""

from decimal import Decimal

from coplace.v1.pricing_pb2 import ChargeMade

from cli.accounts import balance_rows, latest, statement_rows
from services.pricing.accounts.statement import ChargeEntry, postings, statement_of


def charge(job_id: str, revision: int, price_su: str, attempt: int = 1) -> ChargeMade:
    return ChargeMade(
        job_id=job_id,
        attempt=attempt,
        revision=revision,
        account="physics",
        cluster="alpha",
        price_su=price_su,
        state_of_practice_su="2.000000",
        cores=36,
        runtime_s=1000,
        charged_at_us=revision,
    )


def test_a_later_revision_takes_the_place_of_an_earlier_one_whatever_their_order() -> None:
    first, second, other = charge("a", 1, "2.0"), charge("a", 2, "1.5"), charge("a", 1, "1.0", 2)
    assert latest([second, first, second, other]) == [other, second]


def test_a_statement_adds_up_exactly() -> None:
    posted = postings(
        map(ChargeEntry.from_charge, [charge("a", 1, "1.100000"), charge("b", 1, "0.000001", 2)])
    )
    *rows, total = statement_rows(statement_of("physics", posted, 0, 10))
    assert (total["price SU"], total["in full SU"]) == ("1.100001", "4.000000")
    assert [row["job"] for row in rows] == ["a", "b (2)"]
    assert {row["core h"] for row in rows} == {"10.000"}
    before, total = statement_rows(statement_of("physics", posted, 5, 10))
    assert (before["job"], before["price SU"], total["price SU"]) == (
        "before",
        "1.100001",
        "1.100001",
    )
    spent = {"physics": Decimal("1234567.000001")}
    assert balance_rows(spent) == [{"account": "physics", "spent SU": "1234567.000001"}]
