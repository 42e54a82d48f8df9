"""Many jobs priced by tariffs: how fast, in how much memory, and the same from any delivery.

One delivery is in order. The other one has each round's facts shuffled, a tenth of them twice, and
a processor that begins anew from its state after each hundredth round. Both must give the same
bytes of statements, and balances that were added up without the code, in whole 0.000001 SU.
"""

import hashlib
import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing import get_context
from random import Random
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message

from cli.billing import Format, text_of
from services.pricing.accounts.statement import ChargeEntry, postings, statement_of, trial_balance
from services.pricing.processor import PriceRule, PricingProcessor
from shared.catalogue.event import Event
from shared.process.memory import collect_rarely
from shared.streams.stages.stage import AlreadyAppliedError, Round

T0_US: Final = 1_767_225_600_000_000
HOUR_US: Final = 3_600_000_000
_A_ROUND: Final = 1_000
_ACCOUNTS: Final = tuple(f"account-{number}" for number in range(20))
_RULE: Final = PriceRule(Decimal(0), grace_us=0, remember_us=24 * HOUR_US)
_FOREVER_US: Final = 250_000_000_000_000_000


def tariff() -> TariffDeclared:
    """Return a tariff of cores by the hour of the day, GPUs and energy."""
    return TariffDeclared(
        name="bench",
        version=1,
        from_us=T0_US,
        model=PRICE_MODEL_FAIR,
        rates=[
            TariffRate(resource="core", su="0.733333", cluster="alpha"),
            TariffRate(resource="core", su="1"),
            TariffRate(resource="gpu", su="40.1"),
            TariffRate(resource="energy", su="0.25"),
        ],
        hour_factors=["0.5"] * 8 + ["1"] * 12 + ["0.75"] * 4,
        declared_at_us=T0_US,
    )


def facts_of(number: int, drawn: Random) -> list[Message]:
    """Return a job: its submission, its end, and of every third one shutters."""
    job_id, start_us = f"bench/{number}", T0_US + number // _A_ROUND * HOUR_US
    cores, run_us = drawn.randint(1, 4_000), drawn.randint(1, 40 * HOUR_US)
    account, cluster = drawn.choice(_ACCOUNTS), drawn.choice(["alpha", "beta"])
    finished = JobFinished(
        job_id=job_id,
        attempt=1,
        user="ada",
        account=account,
        cluster=cluster,
        nodes=1,
        cores_per_node=cores,
        energy_j=round(drawn.uniform(0, 1e9), 3),
        submitted_at_us=start_us,
        started_at_us=start_us,
        ended_at_us=start_us + run_us,
        resources={"gpu": 4} if number % 5 == 0 else {},
    )
    facts: list[Message] = [
        JobSubmitted(job_id=job_id, attempt=1, user="ada", account=account, nodes=1),
        finished,
    ]
    if number % 3 == 0:
        shutter = Shutter(ipc_before=1.0, ipc_during=drawn.uniform(1.0, 2.0), ipc_after=1.0)
        facts.append(
            ShuttersMeasured(
                job_id=job_id,
                attempt=1,
                co_runner_job_id=f"bench/{number + 1}",
                began_at_us=start_us,
                ended_at_us=start_us + run_us // 2,
                shutters=[shutter],
            )
        )
    return facts


def played(jobs: int, *, is_disturbed: bool) -> Iterator[ChargeMade]:
    """Yield the charges of a delivery, as they are read back from the topic."""
    drawn, whims = Random(1), Random(2)
    state: dict[str, bytes] = {}
    processor = PricingProcessor(_RULE, state)
    list(processor.handle(_event(tariff())))
    for number in range(0, jobs, _A_ROUND):
        numbers = range(number, min(jobs, number + _A_ROUND))
        per_job = [facts_of(each, drawn) for each in numbers]
        if is_disturbed:
            per_job = [_disturbed(each, whims) for each in per_job]
            whims.shuffle(per_job)
        for event in (_event(fact) for facts in per_job for fact in facts):
            with suppress(AlreadyAppliedError):
                list(processor.handle(event))
        ended = Round(number // _A_ROUND, T0_US + (number // _A_ROUND + 41) * HOUR_US)
        for publish in processor.end_round(ended):
            payload = publish.event.payload
            if isinstance(payload, ChargeMade):
                yield ChargeMade.FromString(payload.SerializeToString())
        _save(state, processor.changes())
        if is_disturbed and number // _A_ROUND % 100 == 99:
            processor = PricingProcessor(_RULE, dict(state))


def _disturbed(facts: list[Message], whims: Random) -> list[Message]:
    """Shutters may come first, and a tenth of all comes twice."""
    submitted, *others = facts
    whims.shuffle(others)
    told = [submitted, *others] if whims.random() < 0.5 else [*others[1:], submitted, others[0]]
    if isinstance(told[0], JobFinished):
        told = [submitted, *others]
    return [fact for fact in told for _ in range(2 if whims.random() < 0.1 else 1)]


def _event(fact: Message) -> Event:
    name = getattr(fact, "job_id", "")
    return Event(f"bench/{fact.DESCRIPTOR.name}/{name}", "bench", T0_US, name, fact)


def _save(state: dict[str, bytes], changes: Mapping[str, bytes | None]) -> None:
    for key, value in changes.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def statements(entries: list[ChargeEntry]) -> dict[str, str]:
    """Return the statement of each account, as CSV, by its SHA-256."""
    posted = postings(entries)
    assert not sum(trial_balance(posted).values())
    found = {}
    for account in _ACCOUNTS:
        text = text_of(statement_of(account, posted, 0, _FOREVER_US), Format.CSV)
        found[account] = hashlib.sha256(text.encode()).hexdigest()
    return found


@dataclass(frozen=True, slots=True)
class PlayedCharges:
    """What came of a delivery: the statements by their SHA-256, what is owed in all, CPU seconds,
    and the most memory that it took."""

    written: dict[str, str]
    owed_micro_su: int
    rated_s: float
    stated_s: float
    most_gib: float


def play_charges(jobs: int, *, is_disturbed: bool = False) -> PlayedCharges:
    """Play a delivery; of the disturbed one a tenth is read twice too, and all in another order."""
    collect_rarely()
    begun_s = time.process_time()
    entries = [
        ChargeEntry.from_charge(charge) for charge in played(jobs, is_disturbed=is_disturbed)
    ]
    rated_s = time.process_time() - begun_s
    assert len(entries) == jobs
    if is_disturbed:
        entries += entries[: jobs // 10]
        Random(3).shuffle(entries)
    begun_s = time.process_time()
    written = statements(entries)
    stated_s = time.process_time() - begun_s
    owed_micro_su = sum(_balances(entries).values())
    most_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return PlayedCharges(written, owed_micro_su, rated_s, stated_s, most_gib)


def rows(jobs: int) -> list[Mapping[str, str]]:
    """Return the results of both deliveries, each in a process of its own. Raises AssertionError
    where they differ."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        one = pool.submit(play_charges, jobs)
        other = pool.submit(play_charges, jobs, is_disturbed=True)
        found, again = one.result(), other.result()
    assert again.written == found.written
    assert again.owed_micro_su == found.owed_micro_su
    return [
        {
            "charges": f"{jobs:,}",
            "rated a second of CPU": f"{jobs / found.rated_s:,.0f}",
            "postings stated a second of CPU": f"{jobs / found.stated_s:,.0f}",
            "most memory, all charges held": f"{found.most_gib:.2f} GiB",
            "owed in all": f"{Decimal(found.owed_micro_su).scaleb(-6):,.6f} SU",
            "duplicated, reordered, restarted": "the same bytes",
        }
    ]


def _balances(entries: list[ChargeEntry]) -> Counter[str]:
    """Add up in integers, and compare with what statements say."""
    balances: Counter[str] = Counter()
    for entry in set(entries):
        balances[entry.account] += int(entry.price_su.scaleb(6))
    said = trial_balance(postings(entries))
    for account, micro_su in balances.items():
        assert said[f"account {account}"] == Decimal(micro_su).scaleb(-6)
    return balances
