"""What Coplace has of a job that waits is what Slurm has, whoever changes it, and whenever the
process is killed."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import JOB_STANDING_WAITING, ListedJob
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.calls import UnansweredError
from services.slurm.adapters.kept_terms import TermsFile
from services.slurm.adapters.publisher import SlurmPublisher
from services.slurm.adapters.runs import RunsSeen
from services.slurm.model.changes import WaitingTerms
from services.slurm.model.facts import facts_of
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.start_terms import ShownJobs
from shared.domain.array_tasks import as_task
from tests.unit.services.slurm.fields import JOB, SUBMIT_S
from tests.unit.services.slurm.region import SITE, TERMS, PlayedRegion, unanswered

# The jobs whose users change them, and those that they may wait for.
NUMBERS: Final = (17, 18)
AWAITED: Final = (9, 10)
_YEAR_3000_S: Final = 32_503_680_000
_TERMS: Final = (
    *("walltime_s", "partitions", "features", "nodes_excluded", "begin_at_us", "deadline_at_us"),
    "qos",
)
_CHANGES: Final = st.one_of(
    st.fixed_dictionaries({"time_limit": st.integers(1, 3)}),
    st.fixed_dictionaries({"partition": st.sampled_from(["all", "big", "big,all"])}),
    st.fixed_dictionaries({"features": st.sampled_from(["", "gpu"])}),
    st.fixed_dictionaries({"excluded_nodes": st.sampled_from(["", "n1", "n2"])}),
    st.fixed_dictionaries({"deadline": st.sampled_from([0, _YEAR_3000_S, _YEAR_3000_S + 1])}),
    st.fixed_dictionaries({"eligible_time": st.sampled_from([SUBMIT_S, 0, _YEAR_3000_S])}),
    st.fixed_dictionaries(
        {
            "dependency": st.sampled_from(
                ["", "afterok:9", "afterany:10", "afterok:9,afterany:10", "afterok:9?afterok:10"]
            )
        }
    ),
)
_Act = tuple[str, int, dict[str, Any]]
_ACTS: Final = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(NUMBERS), _CHANGES),
    st.tuples(st.just("end"), st.sampled_from(AWAITED), st.just({})),
    st.tuples(st.sampled_from(["look", "kill", "lose", "away"]), st.just(0), st.just({})),
)


class Placement(PlayedRegion):
    """Has of each job what was said last, and answers some calls only when it has taken all."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, JobSubmitted] = {}
        self.by_id: dict[str, Envelope] = {}
        self.is_away = False

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        super().publish_all(events)
        for event in events:
            assert self.by_id.setdefault(event.id, event) == event
        for said in (event.job_submitted for event in events if event.HasField("job_submitted")):
            before = self.asked.get(said.job_id)
            if before is None or said.changed_at_us > before.changed_at_us:
                self.asked[said.job_id] = said
        if self.is_away:
            raise unanswered(grpc.StatusCode.UNAVAILABLE, "away")
        return {}

    def waits(self) -> Iterable[ListedJob]:
        """What is listed of them."""
        return [
            ListedJob(job_id=job_id, standing=JOB_STANDING_WAITING, attempt=1)
            for job_id in self.asked
        ]


def process(region: Placement, file: Path) -> SlurmPublisher:
    """A process that was started."""
    return SlurmPublisher(region, TERMS, RunsSeen(SITE, region.waits), None, TermsFile(file))


class Beside:
    """A Slurm whose jobs users change, and a process beside it that is killed."""

    def __init__(self, file: Path) -> None:
        self.jobs: dict[int, dict[str, Any]] = {
            number: {**JOB, "job_id": number, "name": f"job {number}", "partition": "all"}
            for number in (*NUMBERS, *AWAITED)
        }
        self.region, self._file = Placement(), file
        self._publisher = process(self.region, file)

    def shown(self) -> list[SlurmJob]:
        """What Slurm shows."""
        return [SlurmJob({**fields}) for fields in self.jobs.values()]

    def change(self, number: int, change: Mapping[str, Any]) -> None:
        """A user says something else of a job."""
        self.jobs[number].update(change)

    def end(self, number: int, _: object) -> None:
        """A job that others wait for ends."""
        self.jobs[number].update(job_state="COMPLETED", end_time=SUBMIT_S + 9)
        for each in NUMBERS:
            _take_out(self.jobs[each], number)

    def look(self, *_: object) -> None:
        """The process looks at Slurm."""
        self._publisher.tell(self.shown())

    def away(self, *_: object) -> None:
        """It looks, and gets no answer to what it said."""
        self.region.is_away = True
        with suppress(UnansweredError):
            self.look()
        self.region.is_away = False

    def kill(self, *_: object) -> None:
        """It is killed, and another one started."""
        self._publisher = process(self.region, self._file)

    def lose(self, *_: object) -> None:
        """The same, and what it kept is lost."""
        self._file.unlink(missing_ok=True)
        self.kill()


def played(kind: type[Beside], acts: Iterable[_Act]) -> Beside:
    """What a course leaves, behind which a look has nothing to say any more."""
    with tempfile.TemporaryDirectory() as folder:
        beside = kind(Path(folder) / "terms")
        beside.look()
        for act, number, change in acts:
            getattr(beside, act)(number, change)
        beside.look()
        before = len(beside.region.told)
        beside.look()
        assert len(beside.region.told) == before
        return beside


@given(st.lists(_ACTS, max_size=14))
def test_what_users_change_at_any_moment_coplace_has_in_the_end(
    acts: Sequence[_Act],
) -> None:
    beside = played(Beside, acts)
    _require_same(beside.region, beside.shown())


ARRAY: Final = 20
_OF_ARRAYS: Final = st.one_of(
    st.fixed_dictionaries({"time_limit": st.integers(1, 3)}),
    st.fixed_dictionaries({"partition": st.sampled_from(["all", "big"])}),
    st.fixed_dictionaries({"features": st.sampled_from(["", "gpu"])}),
)
_THROTTLES: Final = st.fixed_dictionaries({"array_max_tasks": st.integers(0, 2)})
_ACTS_ON_ARRAYS: Final[st.SearchStrategy[_Act]] = st.one_of(
    st.tuples(st.just("change_array"), st.just(0), _OF_ARRAYS | _THROTTLES),
    st.tuples(st.just("change_task"), st.integers(1, 4), _OF_ARRAYS),
    st.tuples(st.sampled_from(["look", "kill", "lose", "away"]), st.just(0), st.just({})),
)


class BesideArray(Beside):
    """The same with an array of four tasks: what is said of it Slurm does to all that wait."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._left = [1, 2, 3, 4]
        array = {"job_id": ARRAY, "array_job_id": ARRAY, "array_max_tasks": 0}
        self.jobs = {ARRAY: {**JOB, **array, "partition": "all"}}
        self._show_left()

    def change_array(self, _: object, change: Mapping[str, Any]) -> None:
        """Its user says something else of all tasks."""
        for number, fields in self.jobs.items():
            fields.update(change if number == ARRAY else {**change, "array_max_tasks": 0})

    def change_task(self, index: int, change: Mapping[str, Any]) -> None:
        """Or of one, which Slurm shows by itself then; the last keeps the number of the array."""
        if index in self._left and len(self._left) > 1:
            self._left.remove(index)
            alone = {"job_id": ARRAY + index, "array_task_id": index, "array_task_string": ""}
            self.jobs[ARRAY + index] = {**self.jobs[ARRAY], **alone, "array_max_tasks": 0}
            self._show_left()
        if ARRAY + index in self.jobs:
            self.jobs[ARRAY + index].update(change)

    def _show_left(self) -> None:
        self.jobs[ARRAY]["array_task_string"] = ",".join(map(str, self._left))


@given(st.lists(_ACTS_ON_ARRAYS, max_size=14))
def test_what_users_change_of_arrays_and_of_their_tasks_coplace_has_in_the_end(
    acts: Sequence[_Act],
) -> None:
    beside = played(BesideArray, acts)
    for job in beside.shown():
        wanted = facts_of(job, TERMS).told[0].job_submitted
        has = _as_placement_has(beside.region, wanted.job_id)
        for name in _TERMS:
            assert getattr(has, name) == getattr(wanted, name), name
        assert not job.is_array or has.array_at_most == wanted.array_at_most


def _as_placement_has(region: Placement, job_id: str) -> JobSubmitted:
    """A task asks for what its array does, unless something newer was said of it alone."""
    named = as_task(job_id)
    both = region.asked.get(job_id), region.asked.get(named[0] if named else "")
    return max(filter(None, both), key=lambda said: said.changed_at_us)


def _take_out(fields: dict[str, Any], ended: int) -> None:
    """Slurm takes out what has happened, and all where that is enough."""
    said = fields.get("dependency", "")
    parts = said.replace("?", ",").split(",") if said else []
    left = [each for each in parts if not each.endswith(f":{ended}")]
    if len(left) < len(parts):
        fields["dependency"] = "" if "?" in said else ",".join(left)


def _require_same(region: Placement, shown: Sequence[SlurmJob]) -> None:
    wanted = Placement()
    SlurmPublisher(wanted, TERMS).tell(shown)
    for job in shown:
        if job.job_id not in NUMBERS:
            continue
        job_id = f"north/alpha/{job.job_id}/{SUBMIT_S}"
        has, shall_have = region.asked[job_id], wanted.asked[job_id]
        for name in _TERMS:
            assert getattr(has, name) == getattr(shall_have, name), name
        assert _outstanding(has, shown) == _outstanding(shall_have, shown)


def _outstanding(said: JobSubmitted, shown: Iterable[SlurmJob]) -> tuple[set[str], bool]:
    """What it has to wait for yet, and whether one of these is enough."""
    ended = {f"north/alpha/{job.job_id}/{SUBMIT_S}" for job in shown if not job.is_pending}
    awaited = {each.job_id for each in said.depends_on}
    left = set() if said.depends_on_any and awaited & ended else awaited - ended
    return left, said.depends_on_any and len(left) > 1


def test_what_slurm_takes_out_of_a_dependency_is_no_change_and_what_users_do_is() -> None:
    def job(number: int, **of: Any) -> SlurmJob:
        return SlurmJob({**JOB, "job_id": number, "name": str(number), **of})

    done = {"job_state": "COMPLETED", "end_time": SUBMIT_S + 1}
    beside = ShownJobs([job(9, **done), job(10), job(11, **done)], SITE)
    for before, now, is_changed in (
        ("afterok:9(unfulfilled),afterok:10(unfulfilled)", "afterok:10(unfulfilled)", False),
        ("afterok:9,afterok:10", "afterok:9", True),
        ("afterok:10", "", True),
        ("afterok:10(unfulfilled)", "afterok:10(failed)", False),
        ("afterok:9?afterok:10", "", False),
        ("afterok:10?afterok:12", "", True),
        ("afterok:10,afterok:12", "afterok:10?afterok:12", True),
        ("", "afterok:9", False),
        ("", "afterok:10", True),
        ("afterok:8", "", False),
        ("singleton", "", False),
        ("what:1", "afterok:10", True),
    ):
        found = beside.depends_on_others(job(17, dependency=now), before)
        assert found is is_changed, (before, now)


def test_what_is_kept_of_jobs_outlives_a_process_and_a_line_that_was_not_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "of" / "terms"
    file = TermsFile(path)
    assert file.read() == {}
    first = WaitingTerms({"features": "gpu", "memory_per_cpu": {"set": False}}, 3)
    file.keep({"a": first, "b": first})
    changed = first._replace(held_at_us=7, changed_at_us=8)
    file.keep({"a": changed, "c": first})
    with path.open("a") as torn:
        torn.write('["d", {"feat')
    assert TermsFile(path).read() == {"a": changed, "c": first}


def test_the_file_of_what_is_kept_grows_with_the_jobs_and_not_with_their_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "terms"
    file = TermsFile(path)
    for at_us in range(5_000):
        file.keep({"a": WaitingTerms({}, 0, changed_at_us=at_us)})
    assert len(path.read_text().splitlines()) < 1_010
    assert TermsFile(path).read()["a"].changed_at_us == 4_999
