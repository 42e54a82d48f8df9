"""How each job really runs: the truth, with the noise of its run."""

from typing import Final

from lab.emulator.machine import Machine
from lab.emulator.profiling import observe
from lab.emulator.running import ATTEMPT, EmulatedUnits, RunningJob
from lab.emulator.truth.laws import Behaviour
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.request import JobRequest
from shared.scheduling.progress import Progress

# How far below what is drawn a prediction of those jobs is, as a share.
UNDER_PREDICTED: Final = 0.4


class ObservedRuns:
    """The runs of jobs, a function of the truth and the noise. Of a share `under_predicted_share`
    of the jobs predictions are `UNDER_PREDICTED` below what their nodes draw."""

    def __init__(
        self, truth: EmulatedTruth, noise: Noise, under_predicted_share: float = 0.0
    ) -> None:
        self._truth, self._noise = truth, noise
        self._under_predicted_share = under_predicted_share

    def alone(
        self, request: JobRequest, machine: Machine, freq_ghz: float, job: str, nodes: int
    ) -> tuple[Behaviour, float]:
        """Return how a job really runs alone on so many nodes, and how often it repeats that."""
        mean, repetitions = self._truth.job(request, job, machine.model, freq_ghz, nodes)
        seen = observe(mean, self._noise, job)
        is_under = self._noise.generator("under", job).random() < self._under_predicted_share
        if is_under:
            seen = seen._replace(power_w=seen.power_w / (1 - UNDER_PREDICTED))
        return seen, repetitions

    def run_alone(
        self,
        request: JobRequest,
        machine: Machine,
        job: str,
        allocation: EmulatedUnits,
        started_us: int,
        *,
        walltime_s: float,
        grant: int = 0,
        attempt: int = ATTEMPT,
    ) -> RunningJob:
        """Return the run of a job that nobody disturbs."""
        nodes = len(allocation.nodes)
        solo, repetitions = self.alone(request, machine, allocation.freq_ghz, job, nodes)
        return RunningJob(
            job_id=job,
            request=request,
            machine=machine,
            allocation=allocation,
            started_us=started_us,
            solo=solo,
            progress=Progress(solo.time_s * repetitions),
            deadline_us=None,
            grant=grant,
            attempt=attempt,
            walltime_s=walltime_s,
        )
