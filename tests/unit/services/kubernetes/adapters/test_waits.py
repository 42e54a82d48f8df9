"""Records of Jobs that wait say why, and placement is asked no more often than it may."""

from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.adapters.waits import WaitNotes
from shared.kubernetes.explained_wait import ExplainedWait
from tests.support.kubernetes_api import MemoryApiServer, suspended_job
from tests.unit.services.kubernetes.adapters.test_reconciler import Region, started
from tests.unit.services.kubernetes.objects import JOB_ID
from tests.unit.shared.kubernetes.objects import NOW_US


class Explaining:
    """Says this about every job."""

    def __init__(self, told: ExplainedWait | None) -> None:
        self.told, self.asked = told, list[str]()

    async def explain(self, job_id: str) -> ExplainedWait | None:
        self.asked.append(job_id)
        return self.told


async def waiting() -> Region:
    region = Region()
    region.key = region.alpha.submit(suspended_job("lu"))
    await region.settle()
    return region


def status(server: MemoryApiServer) -> dict[str, object]:
    [record] = server.records.values()
    found: dict[str, object] = record["status"]
    return found


async def test_why_a_job_waits_is_in_its_record_until_it_starts() -> None:
    region, now_s = await waiting(), 0.0
    explainer = Explaining(ExplainedWait("alpha is full", NOW_US + 61_000_000))
    notes = WaitNotes(region.manager, explainer, lambda: now_s)
    await notes.look()
    assert not explainer.asked, "it may start at once"
    now_s = 5.0
    await notes.look()
    assert status(region.alpha)["why"] == "alpha is full"
    assert str(status(region.alpha)["expectedAt"]).endswith(":00Z")
    await region.manager.obey([started("alpha")])
    await region.settle()
    assert "why" not in status(region.alpha)
    now_s = 100.0
    await notes.look()
    assert explainer.asked == [JOB_ID], "what runs is not asked about"


async def test_placement_is_asked_every_minute_and_what_is_not_new_is_not_written() -> None:
    region, now_s = await waiting(), 0.0
    explainer = Explaining(ExplainedWait("alpha is full", NOW_US))
    notes = WaitNotes(region.manager, explainer, lambda: now_s)
    await notes.look()
    now_s = 5.0
    await notes.look()
    await notes.look()
    assert len(explainer.asked) == 1
    version, now_s = region.alpha.version, 66.0
    explainer.told = ExplainedWait("alpha is full", NOW_US + 1_000_000)
    await notes.look()
    assert len(explainer.asked) == 2
    assert region.alpha.version == version, "to the minute it is the same"


async def test_where_nobody_knows_why_nothing_is_written() -> None:
    region = await waiting()
    version = region.alpha.version
    now_s, explainer = 0.0, Explaining(None)
    notes = WaitNotes(region.manager, explainer, lambda: now_s)
    await notes.look()
    now_s = 5.0
    await notes.look()
    assert explainer.asked
    assert region.alpha.version == version


async def test_an_older_view_of_a_record_writes_nothing() -> None:
    region = await waiting()
    behind: JobReconciler = region.another()
    await region.manager.obey([started("alpha")])
    await region.settle()
    [uid] = [each.id for each in region.manager.mirror.records()]
    await behind.note_wait(uid, ExplainedWait("alpha is full"))
    assert "why" not in status(region.alpha)
