"""Submissions bring their place in the order of Slurm; later those are said that have others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from structlog.testing import capture_logs

from coplace_client.calls import UnansweredError
from services.slurm.adapters.commands import SlurmError
from services.slurm.adapters.order import SlurmOrder
from services.slurm.adapters.order_terms import OrderTerms
from services.slurm.adapters.publisher import SlurmPublisher
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.priority import Association
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import TERMS, PlayedRegion, unanswered

_CONFIG: Final = {
    "ClusterName": "alpha",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "PriorityType": "priority/multifactor",
    "PriorityMaxAge": "7-00:00:00",
    "PriorityWeightAge": "604800",
    "PriorityWeightFairShare": "10000",
    "PriorityWeightQOS": "1000",
}
_AHEAD: Final = 6_048


class PlayedSlurm:
    """Says what is set, and counts what it is asked."""

    def __init__(self, **config: str) -> None:
        self.set = {**_CONFIG, **config}
        self.shares = {"ada": "0.5", "bob": "0.25"}
        self.fails: set[str] = set()
        self.asked: list[str] = []

    def config(self) -> Mapping[str, str]:
        """What is set."""
        self._answer("config")
        return self.set

    def shown(self, kind: str) -> list[dict[str, str]]:
        """One partition and two nodes."""
        self._answer(kind)
        if kind == "partition":
            return [{"PartitionName": "all", "PriorityTier": "1", "PriorityJobFactor": "1"}]
        return [{"NodeName": name, "CPUTot": "2"} for name in ("n1", "n2")]

    def table(self, program: str, *arguments: str) -> list[list[str]]:
        """What accounts say."""
        self._answer(f"{program} {arguments[1]}" if program == "sacctmgr" else program)
        if program == "sshare":
            return [["chem", name, "", share] for name, share in self.shares.items()]
        return [["normal", "0"], ["high", "50"]]

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        if what in self.fails:
            raise SlurmError(f"{what}: it is away")


class _Beside:
    """An order, with what publishes jobs."""

    def __init__(self, slurm: PlayedSlurm) -> None:
        self.slurm, self.region, self.now_s = slurm, PlayedRegion(), float(SUBMIT_S)
        terms = OrderTerms(slurm)  # type: ignore[arg-type]
        of = ("north", "Slurm alpha of north", ["alpha"])
        self.order = SlurmOrder(self.region, terms, of, 120.0, lambda: self.now_s)
        self.publisher = SlurmPublisher(self.region, TERMS, None, self.order)

    def tell(self, *jobs: SlurmJob) -> None:
        """Publish a look at all jobs."""
        self.publisher.tell(jobs)

    def said(self) -> dict[str, int]:
        """Say the order; return what was said of which number of Slurm's."""
        before = len(self.region.told)
        self.order.look()
        return _reordered(self.region.told[before:])

    def submitted(self) -> dict[str, int]:
        """What submissions brought."""
        told = (event.job_submitted for event in self.region.told)
        return {each.sequence: each.manager_priority for each in told if each.job_id}


def _reordered(events: Sequence[Envelope]) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in events:
        message = event.jobs_reordered
        names = (job_id.split("/")[2] for job_id in message.job_ids)
        found |= dict(zip(names, message.manager_priorities, strict=True))
    return found


def waiting(number: int, user: str = "ada", **fields: Any) -> SlurmJob:
    known = {"account": "chem", "qos": "normal", "partition": "all", "user_name": user}
    return SlurmJob({**JOB, **known, "job_id": number, "submit_time": SUBMIT_S, **fields})


def test_a_submission_brings_its_place_and_only_what_moved_is_said_later() -> None:
    beside = _Beside(PlayedSlurm())
    beside.order.look()
    beside.tell()
    beside.tell(waiting(1), waiting(2, "bob"), waiting(3, qos="high"))
    assert beside.submitted() == {"1": 5_000 + _AHEAD, "2": 2_500 + _AHEAD, "3": 6_000 + _AHEAD}
    assert beside.said() == {}
    beside.now_s += 200
    beside.slurm.shares = {"ada": "0.5", "bob": "0.9"}
    assert beside.said() == {"2": 9_000 + _AHEAD}
    assert beside.said() == {}


def test_after_a_restart_all_are_said_once() -> None:
    beside = _Beside(PlayedSlurm())
    beside.tell(waiting(1), waiting(2, "bob"))
    assert beside.said() == {"1": 5_000 + _AHEAD, "2": 2_500 + _AHEAD}
    assert beside.said() == {}


def test_what_is_said_does_not_change_while_all_become_older_and_is_said_anew_at_last() -> None:
    beside = _Beside(PlayedSlurm())
    beside.tell(waiting(1), waiting(2, "bob"))
    beside.said()
    beside.now_s += 6_000
    assert beside.said() == {}
    beside.now_s += 100
    assert beside.said() == {"1": 5_000 + 6_100 + _AHEAD, "2": 2_500 + 6_100 + _AHEAD}
    beside.now_s -= 50_000  # a clock that was set back
    assert beside.said() == {"1": 5_000 + _AHEAD, "2": 2_500 + _AHEAD}


def test_slurm_is_asked_once_at_first_and_then_only_while_jobs_wait() -> None:
    beside = _Beside(PlayedSlurm())
    for _ in range(100):
        beside.said()
        beside.now_s += 100
    assert beside.slurm.asked == ["config", "partition", "sshare", "sacctmgr qos"]
    beside.tell(waiting(1))
    for _ in range(6):
        beside.said()
        beside.now_s += 40
    assert len(beside.slurm.asked) == 3 * 4


def test_what_is_missing_is_0_and_said_once() -> None:
    beside = _Beside(PlayedSlurm(AccountingStorageType="accounting_storage/none"))
    with capture_logs() as logs:
        beside.tell(waiting(1))
        assert beside.said() == {"1": 1 + _AHEAD}
        beside.now_s += 200
        beside.said()
    assert sorted(each["factor"] for each in logs) == ["QOS", "fair share"]
    assert beside.slurm.asked == ["config", "partition"] * 2


def test_what_does_not_answer_stays_as_it_was() -> None:
    beside = _Beside(PlayedSlurm())
    beside.tell(waiting(1))
    beside.said()
    beside.slurm.fails = {"sshare"}
    beside.now_s += 200
    with capture_logs() as logs:
        assert beside.said() == {}
    assert [each["problem"] for each in logs] == ["sshare: it is away"]
    beside.slurm.fails = {"config"}
    beside.now_s += 200
    with pytest.raises(SlurmError):
        beside.order.look()


def test_what_was_not_taken_is_said_again() -> None:
    beside = _Beside(PlayedSlurm())
    beside.tell(waiting(1))
    beside.region.failures = [unanswered(grpc.StatusCode.UNAVAILABLE, "away")]
    with pytest.raises(UnansweredError):
        beside.order.look()
    assert beside.said() == {"1": 5_000 + _AHEAD}


def test_jobs_that_started_are_said_no_more() -> None:
    beside = _Beside(PlayedSlurm())
    beside.tell(waiting(1), waiting(2))
    beside.said()
    beside.tell(waiting(1), SlurmJob({**waiting(2).fields, **RUNS}))
    beside.now_s += 7_000
    assert beside.said().keys() == {"1"}


def test_a_job_that_waited_for_another_becomes_older_from_then_on() -> None:
    beside = _Beside(PlayedSlurm())
    beside.order.look()
    beside.tell(waiting(1, dependency="afterok:7(unfulfilled)"))
    beside.now_s += 1_000
    beside.tell(waiting(1))
    beside.now_s += 500
    assert beside.said() == {"1": 5_000 + 500 + _AHEAD - 1_500}


def test_priorities_that_only_grow_stay_where_a_share_falls() -> None:
    beside = _Beside(PlayedSlurm(PriorityFlags="INCR_ONLY"))
    beside.tell(waiting(1), waiting(2, "bob"))
    beside.said()
    beside.now_s += 200
    beside.slurm.shares = {"ada": "0.1", "bob": "0.25"}
    assert beside.said() == {}


def test_thousands_of_jobs_are_said_in_few_messages() -> None:
    beside = _Beside(PlayedSlurm())
    beside.tell(*(waiting(number) for number in range(1, 4_501)))
    before = len(beside.region.told)
    beside.order.look()
    lengths = [len(event.jobs_reordered.job_ids) for event in beside.region.told[before:]]
    assert lengths == [2_000, 2_000, 500]


def test_associations_and_nodes_are_read_where_they_have_a_weight() -> None:
    slurm = PlayedSlurm(PriorityWeightAssoc="3", PriorityWeightJobSize="3")
    terms = OrderTerms(slurm).read()  # type: ignore[arg-type]
    assert (terms.nodes, terms.cpus) == (2, 4)
    assert terms.fair_shares[Association("chem", "ada")] == 0.5
    assert "sacctmgr associations" in slurm.asked
