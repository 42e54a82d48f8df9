"""What neighbours took off a run is put on their accounts: exactly, bounded, in any order."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade, RepriceAsked
from coplace.v1.tariffs_pb2 import TariffDeclared
from coplace.v1.telemetry_pb2 import ShuttersMeasured
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.price import lines
from coplace_client.errors import RejectedError
from services.pricing.account_book import ROWS
from services.pricing.accounts.model import entry_of, spent_micro_su
from services.pricing.accounts.statement import ChargeEntry, postings, statement_of, trial_balance
from services.pricing.explanation import explain_charge
from services.pricing.processor import PriceRule
from services.pricing.restoring import recall_outputs
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event, Publish
from shared.pricing.charge import audit
from shared.streams.state.state import State
from tests.support.lives import Life
from tests.support.messaging import START_US
from tests.unit.services.changelog import fold
from tests.unit.services.pricing import support
from tests.unit.services.pricing.support import HOUR_US, finished, shutters, stage, submitted

MINUTE_US = 60_000_000
CORES = 20
RATE_SU = "0.733333"
REGION = "region"
ACCOUNTS = {"a": "physics", "b": "bio", "c": "bio", "d": "climate"}


@dataclass(frozen=True)
class Beside:
    """Ten minutes of a run beside another one, or beside several of which one is named."""

    job_id: str
    co_runner: str
    slot: int
    jobs: int = 1

    @property
    def slowdown(self) -> float:
        """The same for a pair at any time; exact as a double."""
        return 1 + (1 + ord(self.co_runner) % 4) / 4

    @property
    def message(self) -> ShuttersMeasured:
        began_us = START_US + self.slot * 10 * MINUTE_US
        return shutters(
            self.slowdown,
            self.co_runner,
            job_id=self.job_id,
            began_at_us=began_us,
            ended_at_us=began_us + 10 * MINUTE_US,
            co_runners=self.jobs,
        )


def tariff(share: str, most_su: str = "", version: int = 1) -> TariffDeclared:
    surcharge = {"surcharge_share": share, "surcharge_most_su": most_su}
    return support.tariff("t", version, RATE_SU, from_us=START_US - HOUR_US, **surcharge)


def run_of(job_id: str) -> list[Message]:
    own: dict[str, Any] = {"job_id": job_id, "account": ACCOUNTS[job_id], "nodes": 1}
    return [submitted(**own), finished(**own, cores_per_node=CORES)]


STAGE = stage(PriceRule(Decimal(1), grace_us=0, remember_us=1000 * HOUR_US))


def publish(fact: Message) -> Publish:
    topics = {
        ShuttersMeasured: "telemetry.shutters",
        JobSubmitted: "jobs.events",
        JobFinished: "jobs.events",
    }
    key = next((getattr(fact, name) for name in ("job_id", "name") if hasattr(fact, name)), REGION)
    event_id = f"{fact.DESCRIPTOR.name}/{fact.SerializeToString(deterministic=True).hex()}"
    where = topics.get(type(fact), "billing")
    return Publish(where, Event(event_id, "test", START_US, key, fact))


def last_of(told: Iterable[Message]) -> dict[str, ChargeMade]:
    last: dict[str, ChargeMade] = {}
    for one in told:
        if isinstance(one, ChargeMade):
            audit(one)
            assert one.revision > (last[one.job_id].revision if one.job_id in last else 0)
            last[one.job_id] = one
    return last


def expected(told: Iterable[Beside], share: str, most_su: str) -> Mapping[str, int]:
    """0.000001 SU of each account, from what was published and nothing of the code."""
    owed: Counter[str] = Counter()
    beside = set(told)
    for job_id, account in ACCOUNTS.items():
        spans: dict[str, list[Beside]] = {}
        for each in sorted((one for one in beside if one.job_id == job_id), key=lambda e: e.slot):
            spans.setdefault(each.co_runner, []).append(each)
        lost_h = {
            name: len(found) * Fraction(1, 6) * (1 - 1 / Fraction(found[0].slowdown))
            for name, found in spans.items()
        }
        full = Fraction(CORES) * Fraction(RATE_SU) * 1_000_000
        price, in_full = round(full * (1 - sum(lost_h.values())) ** 2), round(full)
        owed[account] += price
        if not lost_h:
            continue
        whole = int((in_full - price) * Fraction(share))
        exact = {name: whole * each / sum(lost_h.values()) for name, each in lost_h.items()}
        parts = {name: int(each) for name, each in exact.items()}
        order = sorted(parts, key=lambda name: (parts[name] - exact[name], spans[name][0].slot))
        for name in order[: whole - sum(parts.values())]:
            parts[name] += 1
        for name, part in parts.items():
            if name in ACCOUNTS and all(each.jobs == 1 for each in spans[name]):
                most = int(Fraction(most_su or 10**6) * 1_000_000 * len(spans[name]) / 6)
                owed[ACCOUNTS[name]] += min(part, most)
    return {account: micro_su for account, micro_su in owed.items() if micro_su}


def books(state: Mapping[str, bytes]) -> dict[str, int]:
    accounts = State(state).table("account", ROWS)
    return {name: row.charged_micro_su for name, row in accounts.items() if row.charged_micro_su}


_BESIDE = st.lists(
    st.builds(
        Beside,
        st.sampled_from("abcd"),
        st.sampled_from("bcdaz"),
        st.integers(0, 5),
        st.sampled_from([1, 1, 1, 2]),
    ).filter(lambda each: each.job_id != each.co_runner),
    max_size=10,
    unique_by=lambda each: (each.job_id, each.slot),
)


@settings(max_examples=60, deadline=None)
@given(
    beside=_BESIDE,
    share=st.sampled_from(["0.37", "1", "0.000001"]),
    most_su=st.sampled_from(["", "0", "1.5", "0.123457"]),
    data=st.data(),
)
def test_in_any_order_all_books_result_in_what_a_plain_sum_gives(
    beside: list[Beside], share: str, most_su: str, data: st.DataObject
) -> None:
    facts = [fact for job_id in ACCOUNTS for fact in run_of(job_id)]
    facts += [each.message for each in beside]
    again = data.draw(st.lists(st.sampled_from(facts), max_size=4))
    life, told = Life(STAGE), list[Message]()
    life.tell(publish(tariff(share, most_su)))
    for step, fact in enumerate(data.draw(st.permutations([*facts, *again]))):
        told += life.tell(publish(fact))
        what = data.draw(st.sampled_from(["", "round", "kill"]))
        if what:
            told += life.end_round(START_US + step)
        if what == "kill":
            life.restart()
    told += life.end_round(START_US + 100)
    assert not [one for one in told if isinstance(one, DeadLetter)]
    charges = [one for one in told if isinstance(one, ChargeMade)]
    # Nobody says where z ran: who names it is not believed.
    owed = expected([each for each in beside if each.co_runner in ACCOUNTS], share, most_su)
    last = last_of(told)
    assert books(life.state) == owed
    spent = spent_micro_su(map(entry_of, charges))
    assert {name: su for name, su in spent.items() if su} == owed
    posted = postings([ChargeEntry.from_charge(one) for one in (*charges, *charges[::-1])])
    balances = trial_balance(posted)
    assert sum(balances.values()) == 0
    for account, micro_su in owed.items():
        assert balances[f"account {account}"] == Decimal(micro_su).scaleb(-6)
        stated = statement_of(account, posted, 0, START_US + 2 * HOUR_US)
        assert stated.closing_su == Decimal(micro_su).scaleb(-6)
    for one in last.values():
        posted_su = sum(Decimal(row.surcharge_su or 0) for row in one.evidence)
        assert 0 <= posted_su <= Decimal(one.state_of_practice_su) - Decimal(one.price_su)
    of_ledger = (Event(str(n), "pricing", START_US, c.job_id, c) for n, c in enumerate(charges))
    fold(life.state, recall_outputs(life.state, of_ledger))
    assert books(life.state) == owed


def played(*facts: Message, declared: TariffDeclared) -> tuple[Life, list[Message]]:
    life = Life(STAGE)
    told = life.tell(*map(publish, (declared, *facts)))
    return life, [*told, *life.end_round(START_US + HOUR_US)]


def test_without_a_surcharge_nobody_is_named_and_asking_for_one_later_puts_it_on_accounts() -> None:
    beside = Beside("a", "b", 0).message
    life, told = played(*run_of("b"), *run_of("a"), beside, declared=tariff(""))
    charge = last_of(told)["a"]
    assert not charge.evidence[0].co_runner_account
    by_another = RepriceAsked(charge=charge, tariff="t", tariff_version=2, asked_at_us=START_US)
    told += life.tell(publish(tariff("0.5", version=2)), publish(by_another))
    charge = last_of(told)["a"]
    assert Decimal(charge.evidence[0].surcharge_su) > 0
    back = RepriceAsked(charge=charge, tariff="t", tariff_version=1, asked_at_us=START_US + 1)
    told += life.tell(publish(back))
    assert not last_of(told)["a"].evidence[0].surcharge_su
    price_micro_su = int(Decimal(charge.price_su).scaleb(6))
    assert books(life.state) == {"physics": price_micro_su, "bio": round(CORES * 733333)}


def test_a_surcharge_is_explained_and_proved_by_the_charge() -> None:
    beside, declared = Beside("a", "b", 0).message, tariff("0.5", "2")
    _, told = played(*run_of("b"), *run_of("a"), beside, declared=declared)
    charge, finished = last_of(told)["a"], run_of("a")[1]
    assert isinstance(finished, JobFinished)
    found = explain_charge(charge, finished, {"e": beside}, [declared])
    assert found.is_reproduced
    shown = list(lines(found))
    assert (
        "surcharge: 0.5 of the discount on the jobs that slowed it down, at most 2 SU for an hour "
        in (shown[-4] + " ")
    )
    assert shown[-3] == "surcharged: 0.333333 SU to bio, for b"
    charge.evidence[0].surcharge_su = "0.333334"
    with pytest.raises(RejectedError, match="surcharge_su"):
        audit(charge)


@pytest.mark.parametrize(
    ("share", "most_su"), [("1.1", ""), ("0", ""), ("", "3"), ("-1", ""), ("0.5", "much")]
)
def test_a_surcharge_that_cannot_be_is_refused_at_the_door(share: str, most_su: str) -> None:
    with pytest.raises(RejectedError, match="surcharge"):
        check_contents(tariff(share, most_su))
