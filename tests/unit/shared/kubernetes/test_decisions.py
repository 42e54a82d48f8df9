"""Decisions on a job are obeyed in order, and one that fails holds up no other."""

import asyncio
from collections import Counter

from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError
from coplace_client.ingest import FactRefusedError
from shared.kubernetes.api import ApiUnavailableError
from shared.kubernetes.decisions import DecisionsInOrder


class _Played:
    """Says of each decision what comes of it, try by try."""

    def __init__(self, **outcomes: list[object]) -> None:
        self.outcomes, self.tried = outcomes, list[tuple[str, int]]()
        self.aside = Counter[str]()

    async def of_id(self, job_id: str) -> str | None:
        return None if job_id == "gone" else f"uid of {job_id}"

    async def obey_one(self, decision: PlacementDecided, uid: str | None) -> bool:
        self.tried.append((decision.job_id, decision.grant))
        outcomes = self.outcomes.get(decision.job_id, [])
        outcome = outcomes.pop(0) if outcomes else True
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    def set_aside(self, uid: str, error: Exception) -> None:
        self.aside[uid] += 1

    def obey(self, *decisions: tuple[str, int]) -> None:
        obeyed = DecisionsInOrder(self.of_id, self.obey_one, self.set_aside, 0.0)
        found = [PlacementDecided(job_id=name, grant=grant) for name, grant in decisions]
        asyncio.run(obeyed.obey(found))


def test_a_decision_is_tried_until_it_is_dealt_with_before_the_next_one_of_its_job() -> None:
    played = _Played(a=[False, ApiUnavailableError("cut"), True])
    played.obey(("a", 1), ("b", 1), ("a", 2))
    assert [each for each in played.tried if each[0] == "a"] == [("a", 1)] * 3 + [("a", 2)]
    assert ("b", 1) in played.tried
    assert not played.aside


def test_what_fails_for_good_sets_its_object_aside_and_holds_up_no_other() -> None:
    played = _Played(a=[RejectedError("spec", "odd")], gone=[RejectedError("spec", "odd")])
    played.obey(("a", 1), ("a", 2), ("gone", 1), ("b", 1))
    assert Counter(name for name, _ in played.tried) == {"a": 2, "gone": 1, "b": 1}
    assert played.aside == {"uid of a": 1}


def test_a_fact_that_ingest_refuses_is_not_tried_again() -> None:
    played = _Played(a=[FactRefusedError("no")])
    played.obey(("a", 1))
    assert played.tried == [("a", 1)]
    assert not played.aside
