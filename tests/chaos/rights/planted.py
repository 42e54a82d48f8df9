"""Planted bugs in who may say what: each replaces right code by a realistic mistake, which plays
must find. The door and the folds each keep to the rule, so that a bug in one of them is no harm:
most of these are in both. To add one, write a context manager and list it in PLANTED."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from services.ingest.region import KnownRegion
from services.pricing.processor import PricingProcessor
from services.pricing.runs import KeptRun
from shared.authority import naming, rules
from shared.authority.binding import Binding
from shared.authority.holding import Holdings
from shared.authority.rules import About, OwnedJob
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.placement.state import job_facts
from shared.placement.state.job_facts import JobFacts
from shared.placement.state.job_record import JobRecord, PlacedRun
from shared.streams.stages.stage import AlreadyAppliedError

Planted = Callable[[], AbstractContextManager[Any]]


def _unguarded(action: str) -> AbstractContextManager[Any]:
    """The door asks of some payload for the role alone."""
    rule = replace(rules.RULES[action], objection=lambda _binding, _about: "")
    return patch.dict(rules.RULES, {action: rule})


def _asked_for_its_cluster_alone(action: str) -> AbstractContextManager[Any]:
    """The door looks whether a cluster is of who names it, and not whether it holds the run."""

    def objection(binding: Binding, about: About) -> str:
        if not all(map(binding.covers, about.clusters)):
            return "somebody else's cluster"
        return rules._as_submitted(binding, about)

    rule = replace(rules.RULES[action], objection=objection)
    return patch.dict(rules.RULES, {action: rule})


@contextmanager
def _both(*bugs: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for bug in bugs:
            stack.enter_context(bug)
        yield


def a_submission_ends_a_run() -> AbstractContextManager[Any]:
    """Whoever submits a higher attempt begins it, whoever holds the one before."""

    def submit(facts: JobFacts, event: Any, message: Any) -> None:
        job, awaits = job_of(message), dependencies_of(message)
        known = facts._table.get(job.job_id)
        if known is not None and job.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        facts._table.track(job, event.traceparent, awaits)

    return _both(_unguarded("job_submitted"), patch.object(JobFacts, "submit", submit))


def whose_a_job_is_says_who_submits_last() -> AbstractContextManager[Any]:
    """The door believes the newest submission of a job, which another user of a portal can make."""

    def submit(region: KnownRegion, submitted: Any, time_us: int) -> None:
        job = region._known(submitted.job_id, time_us)
        job.user, job.account = submitted.user, submitted.account

    return _both(_unguarded("job_submitted"), patch.object(KnownRegion, "_submit", submit))


def the_owner_requeues_what_another_holds() -> AbstractContextManager[Any]:
    """A requeue is believed of whoever says it."""
    return _both(_unguarded("job_requeued"), _ends_are_believed())


def whoever_says_so_ends_a_run() -> AbstractContextManager[Any]:
    """The end of a run is believed of any resource manager."""
    return _both(_asked_for_its_cluster_alone("job_finished"), _ends_are_believed())


def declined_grants_give_rights() -> AbstractContextManager[Any]:
    """Who once had a grant of a job may end what runs elsewhere now."""

    def objection(binding: Binding, job: OwnedJob, _claim: Any) -> str:
        found = any(binding.covers(run.cluster) for run in job.runs)
        return "" if found else "it never had it"

    forgotten = patch.object(Holdings, "decline", lambda *_: None)
    had = patch.object(rules, "_of_holder", objection)
    return _both(forgotten, had, _ends_are_believed())


def whoever_says_so_declines() -> AbstractContextManager[Any]:
    """A decline of the newest grant is believed of any resource manager."""
    return _unguarded("job_declined")


def a_run_without_a_grant_replaces_a_granted_one() -> AbstractContextManager[Any]:
    """A start by hand is believed wherever a job was granted."""
    nobody = patch.object(PlacedRun, "held_on", property(lambda _run: ""))
    return _both(_unguarded("job_started"), nobody)


def a_dependency_tells_of_jobs_of_others() -> AbstractContextManager[Any]:
    """Everybody may wait for everything."""
    return patch.object(JobRecord, "may_see", lambda *_: True)


def sites_declare_as_many_clusters_as_they_like() -> AbstractContextManager[Any]:
    """Nobody counts them."""
    return patch.object(KnownRegion, "is_one_too_many", lambda *_: False)


def anybody_goes_first() -> AbstractContextManager[Any]:
    """A priority needs no role."""
    return patch.object(naming, "_exceeding", lambda _payload: iter(()))


def an_account_is_whose_the_holder_says() -> AbstractContextManager[Any]:
    """Who reports the end of a run names whoever is to pay."""
    return _unguarded("job_finished")


def whoever_is_named_cancels() -> AbstractContextManager[Any]:
    """An order about a job needs a role, and not that the job is its own."""
    return _unguarded("job_cancelled")


def every_pair_is_believed() -> AbstractContextManager[Any]:
    """Agents name any job as the neighbour of any run, and its account pays."""
    beside = patch.object(KeptRun, "time_beside", lambda _run, _other, measured: measured)
    return _both(_unguarded("shutters_measured"), beside)


def who_lost_its_power_stays() -> AbstractContextManager[Any]:
    """A run is on its nodes until somebody says that it ended, whoever began there since."""
    return patch.object(KeptRun, "_outlasts_the_start_of", lambda *_: True)


def the_first_end_is_charged() -> AbstractContextManager[Any]:
    """Pricing asks nobody whether he holds the run that he says is over."""
    believed = patch.object(PricingProcessor, "_require_holder", lambda *_: None)
    return _both(_asked_for_its_cluster_alone("job_finished"), believed)


def runs_are_free_by_anybodys_word() -> AbstractContextManager[Any]:
    """That nodes failed, so that the operator pays, is believed of any resource manager."""
    believed = patch.object(KeptRun, "holds", lambda *_: True)
    return _both(_unguarded("job_requeued"), believed)


def _ends_are_believed() -> AbstractContextManager[Any]:
    return patch.object(job_facts, "require_holder", lambda *_: None)


PLANTED: Final[tuple[Planted, ...]] = (
    a_submission_ends_a_run,
    whose_a_job_is_says_who_submits_last,
    the_owner_requeues_what_another_holds,
    whoever_says_so_ends_a_run,
    declined_grants_give_rights,
    whoever_says_so_declines,
    a_run_without_a_grant_replaces_a_granted_one,
    a_dependency_tells_of_jobs_of_others,
    sites_declare_as_many_clusters_as_they_like,
    anybody_goes_first,
    an_account_is_whose_the_holder_says,
    whoever_is_named_cancels,
    every_pair_is_believed,
    who_lost_its_power_stays,
    the_first_end_is_charged,
    runs_are_free_by_anybodys_word,
)
