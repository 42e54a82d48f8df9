"""A heterogeneous job is published, started and handed over as a whole, wherever the process is
killed."""

from collections.abc import Iterable
from typing import Any, Final

from coplace.v1.placement_pb2 import (
    MISFIT_KIND_PARTS,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Misfit,
    PlacedPart,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    Allocation,
    ListedJob,
)
from hypothesis import given
from hypothesis import strategies as st

from services.slurm.adapters.looks import SlurmLooks
from services.slurm.adapters.notes import JobNotes
from services.slurm.adapters.obedience import Obedience
from services.slurm.adapters.publisher import ShownState, SlurmPublisher
from services.slurm.adapters.runs import RunsSeen
from services.slurm.model.facts import facts_of
from services.slurm.model.het_jobs import with_gangs
from services.slurm.model.jobs import GIVEN_BACK, SlurmJob
from services.slurm.model.shapes import NodeShapes
from services.slurm.model.start_terms import ShownJobs
from services.slurm.processor.orders import Release
from shared.domain.hostlist import expand
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, TERMS, PlayedRegion

JOB_ID = f"north/alpha/17/{SUBMIT_S}"
PARTS = [f"north/alpha/17+{number}/{SUBMIT_S}" for number in (0, 1)]
WORD = {"admin_comment": f"coplace grant=2 started freq_ghz=2.1 submit={SUBMIT_S}"}


def parts(*of_each: dict[str, Any], **of_both: Any) -> list[SlurmJob]:
    """The two parts of the heterogeneous job 17."""
    return [
        SlurmJob(
            {
                **JOB,
                "job_id": 17 + at,
                "het_job_id": 17,
                "het_job_offset": at,
                "het_job_id_set": "17-18",
                "priority": 0,
                **of_both,
                **changes,
            }
        )
        for at, changes in enumerate(of_each or ({}, {}))
    ]


_FIELDS: Final = {
    "ReqNodeList": "required_nodes",
    "ExcNodeList": "excluded_nodes",
    "TimeLimit": "time_limit",
    "Requeue": "requeue",
}


class KilledError(Exception):
    """The process was killed behind a command."""


class PlayedSlurm:
    """Has the job, changes it as it is asked, and starts it when it likes."""

    def __init__(self) -> None:
        self.parts = {17 + at: dict(each.fields) for at, each in enumerate(parts())}
        self.left = 10**9

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        return with_gangs([SlurmJob(dict(fields)) for fields in self.parts.values()])

    def prepare_first(self, job: str, release: Release, excluded: str) -> None:
        said = {"admin_comment": str(release.word), "excluded_nodes": excluded}
        self._change(job, **said, time_limit=release.limit_min)

    def prepare_part(self, job: str, release: Release, excluded: str) -> None:
        said = {"required_nodes": ",".join(release.nodes), "excluded_nodes": excluded}
        self._change(job, **said, time_limit=release.limit_min)

    def let_go(self, job: str) -> None:
        for number in self.parts if job == "17" else ():
            self.parts[number]["priority"] = 9
        self._count()

    def hold(self, job: str) -> None:
        for number in self.parts if job == "17" and not self.runs else ():
            self.parts[number]["priority"] = 0
        self._count()

    def leave(self, job: str, word: GrantAnswer | str, _changes: Iterable[str] = ()) -> None:
        self._change(job, admin_comment=str(word))

    def restore(self, job: str, changes: Iterable[str]) -> None:
        said = dict(each.split("=", 1) for each in changes)
        fields: dict[str, Any] = {_FIELDS[name]: value for name, value in said.items()}
        if limit := fields.pop("time_limit", ""):
            fields["time_limit"] = int(limit)
        self._change(job, **fields)

    def comment(self, jobs: str, field: str, note: str) -> None:
        self._change(jobs, system_comment=note)

    def _change(self, job: str, **changes: Any) -> None:
        """Slurm gives all parts what the first gets."""
        for number in self.parts if job == "17" else [int(job)]:
            if not self.runs:
                self.parts[number].update(changes)
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError

    @property
    def runs(self) -> bool:
        return bool(self.parts[17]["job_state"] == "RUNNING")

    def start(self) -> None:
        if all(fields["priority"] for fields in self.parts.values()) and not self.runs:
            for fields in self.parts.values():
                fields.update({**RUNS, "admin_comment": fields["admin_comment"]})

    @property
    def grants(self) -> set[int]:
        """Under which its parts run."""
        return {GrantAnswer.parse(each["admin_comment"]).grant for each in self.parts.values()}


def start(grant: int) -> PlacementDecided:
    found = PlacementDecided(job_id=JOB_ID, attempt=1, verdict=VERDICT_START, grant=grant)
    found.walltime_s, found.freq_ghz = 300, 2.1
    found.node_names.append("n[1-2]")
    found.parts.extend(PlacedPart(node_names=[f"n{grant}{part}"]) for part in (0, 1))
    return found


def withdrawn(grant: int) -> PlacementDecided:
    return PlacementDecided(job_id=JOB_ID, attempt=1, verdict=VERDICT_WITHDRAWN, grant=grant)


def obedience(slurm: PlayedSlurm, region: PlayedRegion) -> Obedience:
    """A process that was started anew."""
    nodes = [{"name": f"n{n}", "cpus": 4, "partitions": ["all"]} for n in (10, 11, 20, 21)]
    shapes = NodeShapes(nodes)
    notes, looks = JobNotes(slurm), SlurmLooks(slurm)  # type: ignore[arg-type]
    return Obedience(slurm, region, SITE, notes, looks, shapes=lambda: shapes)  # type: ignore[arg-type]


@given(st.data())
def test_it_starts_whole_on_the_nodes_of_one_grant_wherever_the_process_is_killed(
    data: st.DataObject,
) -> None:
    """Killed behind any command it obeys the same decision again."""
    slurm, region = PlayedSlurm(), PlayedRegion()
    for fields in slurm.parts.values():
        fields["partition"] = "all"
    slurm.parts[18] |= {"time_limit": 3, "excluded_nodes": "n7"}
    course = [each(grant) for grant in (1, 2) for each in (start, withdrawn)][:-1]
    for decision in course:
        slurm.left = data.draw(st.integers(0, 8))
        try:
            obedience(slurm, region).obey(decision)
        except KilledError:
            slurm.left = 10**9
            if data.draw(st.booleans()):
                slurm.start()
            obedience(slurm, region).obey(decision)
        slurm.left = 10**9
        if data.draw(st.booleans()):
            slurm.start()
    declined = {event.job_declined.grant for event in region.told if event.HasField("job_declined")}
    slurm.start()
    assert slurm.runs, "the last decision was a start"
    [grant] = slurm.grants
    assert grant not in declined
    first, other = slurm.parts.values()
    assert {*expand(first["excluded_nodes"])} == {"n10", "n11", "n20", "n21"} - {f"n{grant}0"}
    assert (other["required_nodes"], other["excluded_nodes"]) == (f"n{grant}1", "n7")
    assert (first["time_limit"], other["time_limit"]) == (5, 3)


def test_what_no_cluster_can_hold_together_is_slurms_to_start() -> None:
    slurm, region = PlayedSlurm(), PlayedRegion()
    before = "5|0|||n1;9|1||n7|"
    for fields in slurm.parts.values():
        fields["admin_comment"] = f"{WORD['admin_comment']} parts={before}"
        fields |= {"excluded_nodes": "n2", "time_limit": 7}
    slurm.parts[18]["required_nodes"] = "n1"
    rejected = PlacementDecided(job_id=JOB_ID, verdict=VERDICT_REJECTED, reason="fits nowhere")
    rejected.misfits.append(Misfit(kind=MISFIT_KIND_PARTS))
    for _ in range(2):
        obedience(slurm, region).obey(rejected)
    names = ("admin_comment", "time_limit", "requeue", "required_nodes", "excluded_nodes")
    found = [[fields.get(name, "") for name in names] for fields in slurm.parts.values()]
    assert found == [[GIVEN_BACK, 5, "0", "", "n1"], [GIVEN_BACK, 9, "1", "n7", ""]]
    assert slurm.parts[17]["system_comment"] == "coplace: fits nowhere"
    slurm.start()
    assert slurm.runs
    obedience(slurm, region).obey(rejected)
    assert slurm.runs
    assert region.told == []


def told(region: PlayedRegion) -> list[tuple[str, str]]:
    """The kinds of what was published, and of which jobs."""
    kinds = [str(event.WhichOneof("payload")) for event in region.told]
    pairs = zip(kinds, region.told, strict=True)
    return [(kind, getattr(event, kind).job_id.split("/")[2]) for kind, event in pairs]


def test_when_its_parts_run_the_gang_ends_before_they_start_and_once() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    runs = parts(dict(RUNS), {**RUNS, "nodes": "n3"}, **WORD)
    looks = (parts(), parts(**WORD, priority=9), runs, runs)
    for shown in looks:
        publisher.tell(with_gangs(shown))
    handed_over = [
        *(("job_submitted", "17+0"), ("job_finished", "17"), ("job_started", "17+0")),
        *(("job_submitted", "17+1"), ("job_started", "17+1")),
    ]
    assert told(region) == [("job_submitted", "17"), *handed_over]
    finished = region.told[2].job_finished
    assert (finished.grant, finished.ended_as) == (2, "STARTED_IN_PARTS")
    started = [event.job_started for event in region.told if event.HasField("job_started")]
    assert [(list(each.nodes), each.grant, each.freq_ghz) for each in started] == [
        (["n2"], 0, 2.1),
        (["n3"], 0, 2.1),
    ]
    assert publisher.states == {ShownState.RUNS: 2}
    again = PlayedRegion()
    SlurmPublisher(again, TERMS).tell(with_gangs(runs))
    ids = {event.id for event in region.told}
    anew = [event.id for event in again.told if event.id not in ids]
    assert anew == [f"north/coplace.v1.JobSubmitted/{JOB_ID}/1/run/app-lu.C"], "a copy of it"


def test_a_start_or_an_end_that_no_look_showed_ends_the_gang() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    over = {**RUNS, "job_state": "COMPLETED", "end_time": SUBMIT_S + 3}
    publisher.tell(with_gangs(parts(**WORD)))
    publisher.tell(with_gangs(parts(over, over, **WORD)))
    kinds = [pair for pair in told(region) if pair[0] == "job_finished"]
    assert kinds == [("job_finished", "17"), ("job_finished", "17+0"), ("job_finished", "17+1")]


def test_a_requeue_of_its_parts_makes_it_a_gang_again() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    again = parts(submit_time=SUBMIT_S + 62, restart_cnt=1, **WORD)
    for shown in (parts(), parts(dict(RUNS), dict(RUNS), **WORD), again, again):
        publisher.tell(with_gangs(shown))
    assert told(region)[-3:] == [
        *(("job_finished", "17+0"), ("job_finished", "17+1"), ("job_submitted", "17"))
    ]
    ended = [event.job_finished for event in region.told[-3:-1]]
    assert [each.ended_at_us - each.started_at_us for each in ended] == [60_000_000] * 2
    assert region.told[-1].job_submitted.job_id == f"north/alpha/17/{SUBMIT_S + 62}"
    [gang] = with_gangs(parts(submit_time=SUBMIT_S + 62, restart_cnt=1, **{**WORD, "priority": 9}))
    assert gang.is_loose, "Slurm may start it though nobody decided that"


def test_a_start_and_a_requeue_while_nobody_looked_end_the_gang_that_placement_knows() -> None:
    allocation = Allocation(cluster="alpha", grant=2, freq_ghz=2.1)
    listed = ListedJob(job_id=JOB_ID, user="ada", account="none", standing=JOB_STANDING_DECIDED)
    listed.allocation.CopyFrom(allocation)
    requeued = with_gangs(parts(submit_time=SUBMIT_S + 62))
    runs = RunsSeen(SITE, lambda: [listed]).ended(requeued)
    finished = [facts_of(run, TERMS).told[1].job_finished for run in runs]
    assert [(each.job_id, each.grant, each.started_at_us) for each in finished] == [
        *((JOB_ID, 2, 0), (PARTS[0], 0, 0), (PARTS[1], 0, 0))
    ], "a start of its parts may be on its way to placement"
    of_part = ListedJob(job_id=PARTS[1], user="ada", account="none", standing=JOB_STANDING_RUNNING)
    of_part.allocation.CopyFrom(allocation)
    runs = RunsSeen(SITE, lambda: [listed, of_part]).ended(requeued)
    ended = [event.job_finished.job_id for run in runs for event in facts_of(run, TERMS).told]
    assert [each for each in ended if each] == [JOB_ID, PARTS[0], PARTS[1]]


def test_a_part_that_is_changed_changes_the_gang_and_the_start_of_one_does_not() -> None:
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    publisher.tell(with_gangs(parts()))
    publisher.tell(with_gangs(parts({}, {"time_limit": 9})))
    assert told(region)[1:] == [("job_submitted", "17")]
    before, after = (event.job_submitted for event in region.told)
    assert (before.changed_at_us, after.walltime_s) == (0, 540)
    assert after.changed_at_us > 0
    region = PlayedRegion()
    publisher = SlurmPublisher(region, TERMS)
    word = {"admin_comment": f"{WORD['admin_comment']} parts=5|0|||;5|0|||"}
    half = parts(**word, time_limit=9, excluded_nodes="n2")
    for shown in (parts(), half, parts({}, {"required_nodes": "n2"}, **word)):
        publisher.tell(with_gangs(shown))
    assert told(region) == [("job_submitted", "17")]


def test_who_waits_for_it_waits_for_all_its_parts() -> None:
    behind = SlurmJob({**JOB, "job_id": 20, "dependency": "afterok:17(unfulfilled)"})
    for shown in (parts(), parts(dict(RUNS), dict(RUNS))):
        asked = facts_of(behind, TERMS).told[0].job_submitted
        ShownJobs([*with_gangs(shown), behind], SITE).put_terms(behind, asked)
        assert [each.job_id for each in asked.depends_on] == PARTS
    any_of = SlurmJob({**behind.fields, "dependency": "afterok:17?afterok:9"})
    asked = facts_of(any_of, TERMS).told[0].job_submitted
    ShownJobs([*with_gangs(parts()), any_of], SITE).put_terms(any_of, asked)
    assert "heterogeneous job, of which all parts count" in asked.held_because
    over = {**RUNS, "job_state": "COMPLETED"}
    for second, is_met in (
        (over, True),
        (dict(RUNS), False),
        ({**over, "job_state": "FAILED"}, False),
    ):
        beside = ShownJobs([*parts(over, second), behind], SITE)
        assert beside.is_met(behind, SUBMIT_S + 9.0) == is_met


def test_a_part_that_runs_is_found_for_what_is_decided_on_it() -> None:
    slurm, region = PlayedSlurm(), PlayedRegion()
    slurm.let_go("17")
    slurm.start()
    looks = SlurmLooks(slurm)  # type: ignore[arg-type]
    looks.all()
    named = looks.find(17, lambda shown: [job.job_id for job in shown])
    assert named == [17, 18]
    assert obedience(slurm, region).obey(start(1)) == []
