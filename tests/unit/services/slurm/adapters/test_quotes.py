"""A new job says what it will cost and when it starts."""

import time
from typing import Any

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_WAITING,
    Allocation,
    ExplainResponse,
    Forecast,
    ListedJob,
    QuotedPlacement,
    QuotedPrice,
    QuoteResponse,
)

from services.slurm.adapters.notes import JobNotes, NotesAMinute
from services.slurm.adapters.quotes import NewJob, Quotes
from services.slurm.adapters.reasons import Reasons
from tests.unit.services.slurm.adapters.test_notes import NotingSlurm, job
from tests.unit.services.slurm.fields import SUBMIT_S
from tests.unit.services.slurm.region import SITE, PlayedRegion

START_S = SUBMIT_S + 600
BOOTS = Allocation(cluster="gold", booting=["n[1-2]"], boots_until_us=START_S * 1_000_000)
STARTS = ExplainResponse(standing=JOB_STANDING_DECIDED, allocation=Allocation(cluster="gold"))


def waits(forecast: Forecast | None = None) -> ExplainResponse:
    return ExplainResponse(standing=JOB_STANDING_WAITING, reason="0 free", forecast=forecast)


class Quoted:
    """Quotes in the jobs of a Slurm, a second behind their submission."""

    def __init__(self, per_minute: int = 30) -> None:
        self.slurm, self.region = NotingSlurm("SystemComment"), PlayedRegion()
        self.now_s = SUBMIT_S + 1.0
        prices = (QuotedPrice(low="0.1", expected="0.25", high="0.5"), None)
        self.region.quotes = QuoteResponse(
            placements=[
                QuotedPlacement(shareable=bool(at), price_su=price)
                for at, price in enumerate(prices)
            ]
        )
        notes = JobNotes(self.slurm)  # type: ignore[arg-type]
        commands = NotesAMinute(per_minute, lambda: self.now_s)
        reasons = Reasons(self.region, notes, SITE, ["alpha"], 0.0, commands, lambda: self.now_s)
        self.quotes = Quotes(self.region, notes, reasons, commands, lambda: self.now_s)
        self.reasons = reasons

    def came(self, number: int, explained: ExplainResponse | None = None, **changes: Any) -> None:
        """Let a job come, of which placement says something."""
        if explained is not None:
            self.region.explains[str(number)] = explained
        new = NewJob(job(number, **changes), JobSubmitted(job_id=str(number)))
        self.quotes.came([new])

    def noted(self) -> list[tuple[str, str]]:
        """What is noted now."""
        self.slurm.made.clear()
        self.quotes.note()
        return [(name, words) for name, _, words in self.slurm.made]


def test_a_job_says_its_price_and_where_or_when_it_starts() -> None:
    quoted = Quoted()
    at = time.strftime("%Y-%m-%dT%H:%M", time.localtime(START_S))
    quoted.came(1, STARTS)
    quoted.came(2, waits(Forecast(cluster="rome", start_at_us=START_S * 1_000_000)))
    quoted.came(3, waits())
    quoted.came(4, ExplainResponse(standing=JOB_STANDING_DECIDED, allocation=BOOTS))
    assert quoted.noted() == [
        ("1", "coplace: 0.25 SU (0.1 to 0.5): starts now on gold"),
        ("2", f"coplace: start expected {at}, 0.25 SU (0.1 to 0.5): 0 free"),
        ("3", "coplace: 0.25 SU (0.1 to 0.5): 0 free"),
        ("4", f"coplace: start expected {at}, 0.25 SU (0.1 to 0.5): n[1-2] boot first"),
    ]
    assert quoted.noted() == []


def test_a_reason_that_is_noted_later_keeps_the_price() -> None:
    quoted = Quoted()
    name = f"north/alpha/1/{SUBMIT_S}"
    quoted.region.explains[name] = waits()
    quoted.quotes.came([NewJob(job(1), JobSubmitted(job_id=name))])
    [(_, before)] = quoted.noted()
    quoted.region.listed = [ListedJob(job_id=name, reason="0 free")]
    quoted.reasons.note([job(1, system_comment=before)], {})
    quoted.region.listed[0].reason = "1 free"
    quoted.reasons.note([job(1, system_comment=before)], {})
    assert [words for _, _, words in quoted.slurm.made] == [
        before,
        "coplace: 0.25 SU (0.1 to 0.5): 1 free",
    ]


def test_what_placement_does_not_know_yet_is_asked_for_again_while_somebody_waits() -> None:
    quoted = Quoted()
    quoted.came(1)
    quoted.came(2)
    assert quoted.noted() == []
    quoted.region.explains["1"] = STARTS
    assert [name for name, _ in quoted.noted()] == ["1"]
    quoted.now_s += 3
    quoted.region.explains["2"] = STARTS
    assert quoted.noted() == []


def test_a_job_whose_price_nobody_can_say_says_its_start() -> None:
    quoted = Quoted()
    quoted.region.quotes.placements[0].ClearField("price_su")
    quoted.came(1, STARTS)
    assert quoted.noted() == [("1", "coplace: starts now on gold")]


def test_half_of_the_commands_of_a_minute_are_left_to_jobs_that_wait() -> None:
    quoted = Quoted(per_minute=4)
    for number in range(1, 5):
        quoted.came(number, STARTS)
    assert [name for name, _ in quoted.noted()] == ["1", "2"]
    assert quoted.noted() == []


def test_nothing_is_said_of_jobs_of_before_and_of_those_whose_users_are_told_otherwise() -> None:
    quoted = Quoted()
    quoted.came(1, STARTS, submit_time=SUBMIT_S - 60)
    quoted.came(2, STARTS, batch_flag=False)
    assert quoted.noted() == []
