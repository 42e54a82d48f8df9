"""The rules that an adapter is held to, and what was found of each."""

from dataclasses import dataclass
from enum import StrEnum


class AdapterRule(StrEnum):
    """What each adapter has to do: a number, and words."""

    SUBMISSIONS = "1 declares its cluster and submits jobs"
    STARTS = "2 reports a start with its grant"
    ENDS = "3 reports an end with its grant"
    UNKNOWN = "4 ignores what it does not know"
    TIMES = "5 reports times in order, as it is now"
    CURSOR = "6 goes on behind the cursor"
    ONCE = "7 obeys each decision once"
    LATE = "8 declines a start that comes too late"
    CANCELLED = "9 ends a cancelled job"
    VOID = "10 does not report a void run"
    ACTIONS = "11 answers actions"
    REQUEUES = "12 requeues as the next attempt"
    RETRIES = "13 reports again what was not answered"
    ACCEPTED = "14 reports nothing that ingest refuses"


ADVICE = {
    AdapterRule.SUBMISSIONS: "report ClusterDeclared, then JobSubmitted of each job that waits",
    AdapterRule.STARTS: "report JobStarted with the job, attempt and grant of the decision",
    AdapterRule.ENDS: "report JobFinished of each run, with its grant",
    AdapterRule.UNKNOWN: "skip fields and verdicts that your schemas lack",
    AdapterRule.TIMES: "report when the job really started and ended, in us since 1970",
    AdapterRule.CURSOR: "keep the cursor of each decision once it is obeyed, and ask behind it",
    AdapterRule.ONCE: "know a start by job_id and grant: the second time do nothing",
    AdapterRule.LATE: "behind start_by_us report JobDeclined with the grant, and never start it",
    AdapterRule.CANCELLED: "end the job, and report JobFinished as JOB_OUTCOME_CANCELLED",
    AdapterRule.VOID: "where is_void is set end the run, and do not report it",
    AdapterRule.ACTIONS: "report JobActionDone or JobActionRefused with the action's number",
    AdapterRule.REQUEUES: "report JobRequeued as the next attempt, or refuse the action",
    AdapterRule.RETRIES: "behind UNAVAILABLE report the same fact and id until it is taken",
    AdapterRule.ACCEPTED: "repair the field that the refusal names",
}
"""What to do where a rule is broken."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a rule was kept, and what was seen."""

    rule: AdapterRule
    is_kept: bool
    seen: str

    def row(self) -> dict[str, str]:
        """Return what is shown of it."""
        number, _, text = self.rule.partition(" ")
        return {
            "rule": number,
            "the adapter": text,
            "result": "passed" if self.is_kept else "failed",
            "seen": self.seen,
            "what to do": "" if self.is_kept else ADVICE[self.rule],
        }
