"""What the schemas say of messages."""

from coplace.v1.jobs_pb2 import JobSubmitted

from shared.catalogue.options import follows_decisions, ranks
from shared.catalogue.schemas import MESSAGES


def test_no_two_messages_have_one_rank() -> None:
    assert len(set(ranks().values())) == len(ranks())


def test_what_gives_nodes_back_is_before_what_takes_them() -> None:
    found = ranks()
    order = ["ClusterDeclared", "SignatureUpdated", "JobFinished", "JobSubmitted", "JobStarted"]
    assert sorted(order, key=lambda name: found[f"coplace.v1.{name}"]) == order


def test_what_a_what_if_makes_anew_is_what_comes_of_decisions() -> None:
    anew = {name for name, kind in MESSAGES.items() if follows_decisions(kind())}
    assert anew == {
        f"coplace.v1.{name}"
        for name in (
            *("JobFinished", "JobDeclined", "JobRequeued", "JobSubmitted", "JobStarted"),
            *("JobSeized", "JobActionDone", "JobActionRefused", "JobRequeueAsked"),
            "JobLimitChanged",
            "PlanProposed",
        )
    }
    assert JobSubmitted.DESCRIPTOR.full_name in anew
