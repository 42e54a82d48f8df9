"""Effects of assignments of a cluster, at the executor that runs them.

An assignment is claimed before its Job is created: from then on it is the executor's word whether
that ever ran. The Job's finalizer stays until the assignment is deleted, so that no end is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.kubernetes.model import assignments, bodies
from services.kubernetes.model.assignments import JobAssignment
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import ASSIGNMENT, EXECUTOR
from services.kubernetes.model.run_pods import PodDisruption, kept_pods
from services.kubernetes.processor.by_kueue import evicting, has_not_run, is_asked, is_let_run
from services.kubernetes.processor.effects import AdmitCopy, DeleteJob, EvictCopy, PatchJob
from shared.kubernetes.names import JOB_ID
from shared.kubernetes.objects import whole_of
from shared.kubernetes.pods import RunPod
from shared.kueue.workloads import KueueWorkload

_NO_KUEUE = "its executor does not follow the Kueue there: set kueue.enabled in its chart"


@dataclass(frozen=True, slots=True)
class SayOfAssignment:
    """Write into the status of an assignment, where that is as it was seen."""

    assignment: JobAssignment
    status: Body
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class CreateRun:
    """Create the Job of an assignment, where that is as it was seen."""

    assignment: JobAssignment

    def __str__(self) -> str:
        return "created"


ExecutorEffect = SayOfAssignment | CreateRun | PatchJob | DeleteJob | AdmitCopy | EvictCopy


@dataclass(frozen=True, slots=True)
class SeenAssignment:
    """An assignment, the Job of its name, its pods, how Kubernetes ended pods of it, and its
    Workload in Kueue; None: it is not there."""

    assignment: JobAssignment | None
    job: KubernetesJob | None = None
    pods: Sequence[RunPod] = ()
    disruption: PodDisruption | None = None
    workload: KueueWorkload | None = None


def execute(
    seen: SeenAssignment, now_us: int, *, follows_kueue: bool = False
) -> Sequence[ExecutorEffect]:
    """Return what to do about an assignment and the Job that runs for it."""
    assignment, job = seen.assignment, seen.job
    if assignment is None:
        return _let_go(job) if job is not None else ()
    if job is not None and job.annotations.get(ASSIGNMENT) != assignment.uid:
        return _let_go(job) or _refused(assignment, "a Job of its name is there")
    said = assignment.said
    if said.refused:
        return _let_go(job) if job is not None else ()
    if job is None or said.run_uid not in ("", job.uid):
        return _without_run(assignment, now_us, follows_kueue=follows_kueue)
    if not said.run_uid and has_not_run(job, seen.workload):
        return _in_kueue(assignment, job, seen.workload)
    if _has_ended_as_asked(assignment, job) and not job.is_deleted:
        return [DeleteJob(job)]  # before that is said: nobody lets it run again then
    return [*_report(assignment, job, seen), *_set_right(assignment, job, seen.workload)]


def _has_ended_as_asked(assignment: JobAssignment, job: KubernetesJob) -> bool:
    has_no_pods = job.is_quiet or job.keeps_its_start
    return assignment.job.is_suspended and has_no_pods and not job.run_end


def _in_kueue(
    assignment: JobAssignment, job: KubernetesJob, workload: KueueWorkload | None
) -> Sequence[ExecutorEffect]:
    """Have Kueue let a Job run that is assigned. It is claimed so long, and nothing is said of its
    uid: it can be taken back until it runs."""
    if not assignment.is_withdrawn:
        if job.is_deleted:
            return _refused(assignment, "its Job was deleted before it ran")
        if workload is None or not is_asked(workload):
            return ()
        words = f"Coplace: grant {job.granted}, {job.annotations.get(JOB_ID, '')}"
        return [AdmitCopy(workload, words)]
    if is_let_run(workload):
        return evicting(workload)  # what becomes of that is awaited
    return _let_go(job) if job.is_taken or job.is_deleted else [DeleteJob(job)]


def _let_go(job: KubernetesJob) -> Sequence[ExecutorEffect]:
    """End what nobody has assigned any more, and keep nothing of it. Of other Jobs nothing is
    done."""
    is_own = job.labels.get(EXECUTOR) == job.cluster and ASSIGNMENT in job.annotations
    if not (job.is_taken and is_own):
        return ()
    if not job.run_end and not job.is_deleted:
        return [DeleteJob(job)]
    return [PatchJob(job, bodies.releasing(job), "let go")]


def _without_run(
    assignment: JobAssignment, now_us: int, *, follows_kueue: bool
) -> Sequence[ExecutorEffect]:
    said = assignment.said
    if said.run_uid:
        told = assignments.removed(now_us)
        return () if said.deleted_at else [SayOfAssignment(assignment, told, "was removed")]
    if assignment.is_withdrawn:
        return _refused(assignment, "taken back before it ran") if said.is_claimed else ()
    if assignment.is_in_kueue and not follows_kueue:
        return _refused(assignment, _NO_KUEUE)
    if not said.is_claimed:
        return [SayOfAssignment(assignment, assignments.claimed(), "claimed")]
    return [CreateRun(assignment)]


def _refused(assignment: JobAssignment, why: str) -> Sequence[ExecutorEffect]:
    if assignment.said.refused or assignment.said.run_uid:
        return ()
    return [SayOfAssignment(assignment, assignments.refused(why), f"refused: {why}")]


def _report(
    assignment: JobAssignment, job: KubernetesJob, seen: SeenAssignment
) -> Sequence[ExecutorEffect]:
    said = assignment.said
    pods = kept_pods(said.pods, seen.pods, assignment.job.pods)
    disruption = seen.disruption or said.disruption
    is_final = _has_ended_as_asked(assignment, job) and job.is_deleted
    told = assignments.reported(job, pods, disruption, is_final=is_final)
    if assignments.has_said(assignment, told):
        return ()
    return [SayOfAssignment(assignment, told, "reported")]


def _set_right(
    assignment: JobAssignment, job: KubernetesJob, workload: KueueWorkload | None
) -> Sequence[ExecutorEffect]:
    """What runs ends where that is asked for, and has no more than was assigned. What somebody has
    suspended is not let run again."""
    if job.run_end or job.is_deleted:
        return ()
    wanted, spec = assignment.job, dict[str, Any]()
    if job.is_taken and not assignment.is_kept:  # it was released: nobody is charged for it
        return [PatchJob(job, bodies.releasing(job), "let go")]
    if wanted.is_suspended and (evicted := evicting(workload)):
        return evicted
    if wanted.is_suspended and not job.is_suspended:
        return [PatchJob(job, bodies.suspending(job), "suspended: it has to end")]
    if job.pods > wanted.pods:
        spec["parallelism"] = wanted.pods
    most_s = whole_of(wanted.spec.get("activeDeadlineSeconds"))
    told_s = whole_of(job.spec.get("activeDeadlineSeconds"))
    if most_s is not None and (told_s is None or told_s > most_s):
        spec["activeDeadlineSeconds"] = most_s
    if not spec:
        return ()
    return [PatchJob(job, {**bodies.update(job), "spec": spec}, "set back to what was assigned")]
