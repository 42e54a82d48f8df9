"""Statements: the last revision of each charge, and its sum."""

from coplace.v1.pricing_pb2 import ChargeMade
from rich.console import Console

from cli.accounts import latest, statement_table


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
    console = Console(width=80, record=True)
    console.print(statement_table([charge("a", 1, "1.100000"), charge("b", 1, "0.000001", 2)]))
    rows = [line.split("|")[1:-1] for line in console.export_text().splitlines() if "|" in line]
    [total] = [[cell.strip() for cell in row] for row in rows if "in all" in row[0]]
    assert total == ["in all", "", "", "1.100001", "4.000000"]
    assert rows[3][0].strip() == "b (2)"
    assert [row[2].strip() for row in rows[2:4]] == ["10.000", "10.000"]
