"""A row of the AppDB: what is known of an application on a node model, and runs that doubt it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coplace_client.signature import Signature
from services.energy.processor.conformity import Verdict, compare_run
from services.energy.processor.profile import SignatureProfile

# Copies of a row's last runs are recognised. A copy that is older counts as one more run.
REMEMBERED_IDS: Final = 64
# So many jobs in a row that contradict the row and agree with each other are a new version of the
# application, and become the row: few enough for a new version, too many for a slip of the pen.
AGREEING_JOBS: Final = 5


class MeasuredRun(NamedTuple):
    """One measurement that waits for its round's end; `job_id` is empty for a profiling run."""

    time_us: int
    event_id: str
    traceparent: str
    job_id: str
    signature: Signature

    @property
    def row(self) -> str:
        """Return the key of its row."""
        return f"{self.signature.app_id}|{self.signature.node_model}"

    @property
    def key(self) -> str:
        """Return its own key among the runs of all rows."""
        return f"{self.row}|{self.event_id}"


class Mismatch(NamedTuple):
    """A run that the row did not take in."""

    run: MeasuredRun
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Rival:
    """Jobs in a row that contradict the row and agree with each other."""

    profile: SignatureProfile
    jobs: tuple[str, ...]


@dataclass(slots=True)
class AppDBRow:
    """A profile, None before the first run, and the events last seen of it.

    `rivals` are kept by the P-state that their runs were compared with: where several P-states are
    in use, runs at one of them say nothing about the means of another.
    """

    profile: SignatureProfile | None = None
    rivals: dict[float, Rival] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    @property
    def means(self) -> Mapping[float, Signature]:
        """Return mean signatures by P-state."""
        return self.profile.means if self.profile else {}

    def fold(self, waiting: Iterable[MeasuredRun]) -> tuple[MeasuredRun | None, list[Mismatch]]:
        """Take runs in, in the order of (event time, id): the newest that was taken, and those that
        were not."""
        runs = sorted(waiting, key=lambda run: (run.time_us, run.event_id))
        newest, mismatches = None, []
        for run in runs:
            verdict = self._taken(run)
            if verdict is None:
                newest = run
            else:
                mismatches.append(Mismatch(run, verdict))
        self.seen = [*self.seen, *(run.event_id for run in runs)][-REMEMBERED_IDS:]
        return newest, mismatches

    def _taken(self, run: MeasuredRun) -> Verdict | None:
        """None when the run was taken in, else what speaks against it.

        Who profiles an application on purpose knows what runs. TPI in another unit cannot be
        compared: measure anew.
        """
        new = run.signature
        if self.profile is None or any(m.tpi_scale != new.tpi_scale for m in self.means.values()):
            self.profile, self.rivals = SignatureProfile.from_run(new), {}
            return None
        verdict = compare_run(self.profile, new)
        if run.job_id and not verdict.conforms:
            return self._doubted(self.profile, run, verdict)
        self.rivals.pop(verdict.compared_ghz, None)
        self.profile = self.profile.taking(new)
        return None

    def _doubted(
        self, profile: SignatureProfile, run: MeasuredRun, verdict: Verdict
    ) -> Verdict | None:
        """Count a run that contradicts the row; None when it was the last that this took."""
        freq_ghz = verdict.compared_ghz
        rival = _joined(self.rivals.get(freq_ghz), run)
        self.rivals[freq_ghz] = rival
        if len(rival.jobs) < AGREEING_JOBS:
            return verdict
        others = profile.without(freq_ghz)
        if _bears_out(others, rival.profile):  # the mean of that one P-state was wrong
            del self.rivals[freq_ghz]
            self.profile = SignatureProfile(
                {**others.means, **rival.profile.means}, others.variances
            )
        else:
            self.profile, self.rivals = rival.profile, {}
        return None


def _joined(rival: Rival | None, run: MeasuredRun) -> Rival:
    """A rival with one more run; a new one when the run does not agree with it."""
    if rival is None or not compare_run(rival.profile, run.signature).conforms:
        return Rival(SignatureProfile.from_run(run.signature), (run.job_id,))
    if run.job_id in rival.jobs:
        return rival  # one job that is measured often is still one job
    return Rival(rival.profile.taking(run.signature), (*rival.jobs, run.job_id))


def _bears_out(others: SignatureProfile, rival: SignatureProfile) -> bool:
    means = rival.means.values()
    return bool(others.means) and all(compare_run(others, mean).conforms for mean in means)
