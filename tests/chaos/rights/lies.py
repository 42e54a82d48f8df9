"""What users, sites and agents say by their own credentials of what is not theirs, or not so. To
add a kind, write a function of the region and give it a weight in LIES."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.control_pb2 import (
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    NodesDrained,
    NodesResumed,
)
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    Dependency,
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobLimitChanged,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSuspended,
)

from shared.domain.node import node_name
from tests.chaos.clock import BEGIN_US, DAY_US, HOUR_US, SECOND_US, some_time_us
from tests.chaos.journal import End, Run
from tests.chaos.rights.cast import (
    BILLING,
    CLUSTERS,
    SITES,
    STRANGER,
    USERS,
    VIEWER,
    accounts_of,
    agents_of,
)
from tests.chaos.rights.lawful import (
    CORES,
    RECENT,
    cluster_of,
    open_runs,
    overlap_us,
    shutters,
    submission_of,
    together,
)
from tests.chaos.rights.region import Region, Target

_ODD_US: Final = (0, 1, 946_684_800_000_000, BEGIN_US - 400 * DAY_US, BEGIN_US - DAY_US)


def submit_the_next_attempt(region: Region) -> None:
    """A user submits a job of her own again while it waits or runs, and cancels it then or not."""
    rng, job = region.rng, _job_of_users(region)
    if job is None:
        return
    user = next(each for each in USERS if each.name == job.user)
    attempt = rng.choice([2, 2, 2, 3, 100])
    told = submission_of(region, user, job.job_id, attempt=attempt)
    region.say(user.name, "next attempt", is_rightful=False, job_submitted=told)


def submit_as_another(region: Region) -> None:
    """A user submits under a job id of another one of the same portal, or in its name."""
    rng, job = region.rng, _job_of_users(region)
    if job is None:
        return
    victim = next(each for each in USERS if each.name == job.user)
    mates = [user for user in USERS if user.portal == victim.portal and user is not victim]
    user = rng.choice(mates or [each for each in USERS if each is not victim])
    named = rng.choice([user, victim])
    told = submission_of(
        region,
        user,
        rng.choice([job.job_id, job.job_id, ""]),
        attempt=rng.choice([1, 2, 2, 3]),
        user=named.name,
        account=rng.choice([user, victim]).account,
    )
    if (told.user, told.account) == (user.name, user.account) and told.job_id != job.job_id:
        return  # that is its own
    time_us = rng.choice([0, region.clock.now_us - some_time_us(rng, 1000, HOUR_US)])
    region.say(user.name, "another's job", is_rightful=False, time_us=time_us, job_submitted=told)
    if told.job_id == job.job_id and rng.random() < 0.5:
        cancelled = JobCancelled(job_id=job.job_id, cancelled_at_us=region.clock.now_us)
        name, delay_us = "cancelled of others", some_time_us(rng, 1000, HOUR_US)
        region.say(user.name, name, is_rightful=False, delay_us=delay_us, job_cancelled=cancelled)


def submit_as_a_site(region: Region) -> None:
    """A site submits the next attempt of a job that it does not hold."""
    target = _target(region)
    if target is None:
        return
    others = [site for site in SITES if site != region.sites.get(target.cluster)]
    site = region.rng.choice(others)
    job = region.submission(target.job_id)
    told = submission_of(region, site, target.job_id, attempt=target.attempt + 1)
    if job is not None and region.rng.random() < 0.7:
        told.user, told.account = job.user, job.account
    region.say(site, "next attempt", is_rightful=False, job_submitted=told)


def report_what_it_does_not_hold(region: Region) -> None:
    """A site says something of a run that another one holds, or by a grant never given."""
    target, rng = _target(region), region.rng
    if target is None:
        return
    site = rng.choice([*SITES, target.job_id.partition("/")[0]])
    own = [name for name, (of, _) in CLUSTERS.items() if of == site]
    holds = region.sites.get(target.cluster) == site
    kind = rng.choice([*_REPORTS])
    cluster = rng.choice([target.cluster, *own])
    grant = rng.choice([target.grant] * 3 + [0, 0, target.grant + 1, target.grant - 1, 2**40])
    attempt = rng.choice([target.attempt] * 3 + [target.attempt + 1, max(1, target.attempt - 1)])
    if holds:
        # Of what it holds it says the truth: a lie is what it says under another grant.
        attempt, grant = target.attempt, rng.choice([target.grant + 7, target.grant - 1, 2**40])
        if kind == "job_requeued" or grant <= 0 or not target.grant:
            return
    live = region.newest.get(target.job_id, target)
    if region.sites.get(live.cluster) == site and grant in (0, live.grant):
        return  # it holds the job now
    told = _REPORTS[kind](region, target, site, max(1, attempt), max(0, grant), cluster)
    if kind == "job_finished" and not told.started_at_us and target.job_id.startswith(f"{site}/"):
        region.ordered.add(target.job_id)  # it left the queue of its owner
    if target.job_id.startswith(f"{site}/"):
        region.told_by_owner.add(target.job_id)
    source = rng.choice([site, f"{site}/{own[0]}"])
    name = f"{kind.removeprefix('job_')} by no holder"
    said: dict[str, Any] = {kind: told}
    region.say(source, name, is_rightful=False, time_us=_time(region), **said)


def charge_another(region: Region) -> None:
    """The holder of a run of another site's job says that it ended, for an account of its own."""
    runs = [run for run in open_runs(region) if run.grant]
    runs = [run for run in runs if not run.job_id.startswith(region.sites[run.cluster])]
    if not runs:
        return
    run, site = runs[0], region.sites[runs[0].cluster]
    user = region.rng.choice([user for user in USERS if user.site == site])
    told = _finished(region, Target.of(run), site, run.attempt, run.grant, run.cluster)
    told.user, told.account = user.name, region.rng.choice(accounts_of(site))
    region.say(f"{site}/{run.cluster}", "false account", is_rightful=False, job_finished=told)


def order_for_others(region: Region) -> None:
    """Somebody orders something for a job of somebody else."""
    rng, now_us = region.rng, region.clock.now_us
    jobs = list(region.journal.submissions.values())[-RECENT:]
    jobs += [job for run in open_runs(region) if (job := region.submission(run.job_id))]
    if not jobs:
        return
    job = rng.choice(jobs)
    # Where a run truly is, and the cluster that was granted last, which may start yet. A door that
    # lags behind lets who held a job order something for a moment longer.
    holders = {region.sites.get(run.cluster) for run in _running(region, job.job_id)}
    granted = list(region.granted.get(job.job_id, ()))
    holders |= {region.sites.get(name) for name in (granted if region.lag_us else granted[-1:])}
    sites = [site for site in SITES if site not in holders and not job.job_id.startswith(site)]
    users = [user.name for user in USERS if user.name != job.user]
    source = rng.choice([*users, *sites, *map(agents_of, SITES), BILLING, VIEWER, STRANGER])
    of: dict[str, Any] = {"job_id": job.job_id}
    kind, told = rng.choice(
        [
            ("job_cancelled", JobCancelled(**of, cancelled_at_us=now_us)),
            ("job_cancelled", JobCancelled(**of, cancelled_at_us=now_us)),
            ("job_held", JobHeld(**of, held_at_us=now_us)),
            ("job_released", JobReleased(**of, released_at_us=now_us)),
            ("job_requeue_asked", JobRequeueAsked(**of, attempt=1, asked_at_us=now_us)),
            ("job_suspended", JobSuspended(**of, suspended_at_us=now_us)),
            ("job_resumed", JobResumed(**of, resumed_at_us=now_us)),
            ("job_prioritized", JobPrioritized(**of, priority=100, prioritized_at_us=now_us)),
            ("job_seized", JobSeized(**of, attempt=1, reason="mine", seized_at_us=now_us)),
        ]
    )
    name = f"{kind.removeprefix('job_')} of others"
    said: dict[str, Any] = {kind: told}
    region.say(source, name, is_rightful=False, time_us=_time(region), **said)


def prioritize_oneself(region: Region) -> None:
    """A user wants to go before all others."""
    rng, user = region.rng, region.rng.choice(USERS)
    if rng.random() < 0.7:
        told = submission_of(region, user, priority=rng.choice([1, 50, 100]))
        region.say(user.name, "priority", is_rightful=False, job_submitted=told)
        return
    own = [job for job in region.journal.submissions.values() if job.user == user.name]
    if own:
        job_id, now_us = rng.choice(own[-RECENT:]).job_id, region.clock.now_us
        higher = JobPrioritized(job_id=job_id, priority=100, prioritized_at_us=now_us)
        region.say(user.name, "priority", is_rightful=False, job_prioritized=higher)


def depend_on_others(region: Region) -> None:
    """A user, or a site in the name of one, has a job wait for somebody else's, or for one that
    there never was, to hear of it."""
    rng, user = region.rng, region.rng.choice(USERS)
    jobs = [*region.journal.submissions.values()][-RECENT:]
    jobs += [job for run in open_runs(region) if (job := region.submission(run.job_id))]
    site = rng.choice(SITES)
    by_site = rng.random() < 0.3
    named = user if by_site and site != user.site else None
    others = [job for job in jobs if (job.user == user.name) == bool(named)]
    accounts = accounts_of(site) if named else (user.account,)
    secrets = [job.job_id for job in others if job.account not in accounts]
    owner = site if named else user
    nobody = [f"{site}/alpha/none-{region.events}/1", f"{site}/portal/no/1"]
    secret = rng.choice([*secrets, *nobody])
    if secret in region.probes:
        return
    condition = rng.choice([DEPENDENCY_CONDITION_AFTER_OK, DEPENDENCY_CONDITION_AFTER_ANY])
    told = submission_of(
        region,
        owner,
        user=user.name,
        nodes=1,
        shareable=False,
        architectures=[],
        depends_on=[Dependency(job_id=secret, condition=condition)],
    )
    region.probes[told.job_id] = secret
    source = site if named else user.name
    region.say(source, "dependency", is_rightful=False, job_submitted=told)


def name_a_co_runner(region: Region) -> None:
    """Agents name a pair that was never together, or not then, or on another site's nodes."""
    rng, now_us = region.rng, region.clock.now_us
    runs = [run for run in region.journal.runs[-RECENT:] if run.began_us < now_us]
    if not runs:
        return
    run, other = rng.choice(runs), rng.choice(runs)
    site = rng.choice([region.sites.get(run.cluster, "north"), rng.choice(SITES)])
    began_us = rng.choice([run.began_us, run.began_us - some_time_us(rng, SECOND_US, HOUR_US)])
    ended_us = rng.choice([run.ended_us or now_us, now_us])
    pairs = together(region)
    if (run, other) in pairs:
        if site == region.sites.get(run.cluster):
            # They were together, for a shorter time than is said.
            from_us, to_us = overlap_us(run, other, now_us)
            began_us, ended_us = from_us - HOUR_US, to_us
    elif rng.random() < 0.5:
        own = [each for each in runs if region.sites.get(each.cluster) == site]
        run = rng.choice(own) if own else run
        if run is other or (run, other) in pairs:
            return
    co_runner = rng.choice([other.job_id, other.job_id, f"{site}/alpha/none/1"])
    if co_runner == run.job_id:
        return
    told = shutters(region, run, co_runner, min(began_us, ended_us), max(began_us, ended_us))
    region.say(agents_of(site), "false pair", is_rightful=False, shutters_measured=told)


def name_the_dead(region: Region) -> None:
    """Agents name a run whose nodes had lost their power as the neighbour of the next one there."""
    rng, now_us = region.rng, region.clock.now_us
    runs = [run for run in region.journal.runs[-RECENT:] if run.began_us < now_us]
    dead = [run for run in runs if run.end is End.POWER]
    if not dead:
        return
    gone = rng.choice(dead)
    later = [
        run
        for run in runs
        if run.cluster == gone.cluster
        and {*run.nodes} & {*gone.nodes}
        and run.job_id != gone.job_id
        and (gone.ended_us or 0) <= run.began_us
    ]
    if later:
        run, most_us = later[0], some_time_us(rng, SECOND_US, HOUR_US)
        ended_us = min(run.began_us + most_us, run.ended_us or now_us)
        told = shutters(region, run, gone.job_id, run.began_us, ended_us)
        agents = agents_of(region.sites.get(run.cluster, "north"))
        region.say(agents, "dead neighbour", is_rightful=False, shutters_measured=told)


def declare_too_much(region: Region) -> None:
    """A site declares cluster after cluster, or another site's."""
    rng, site = region.rng, region.rng.choice(SITES)
    if rng.random() < 0.5:
        others = [name for name, (of, _) in CLUSTERS.items() if of != site]
        name = rng.choice(others)
        told = cluster_of(name, rng.choice([site, CLUSTERS[name][0]]), 64)
        region.say(site, "another's cluster", is_rightful=False, cluster_declared=told)
        return
    for _ in range(rng.choice([1, 1, 1, 12])):
        name = f"{site}-more-{rng.randrange(200)}"
        region.sites[name] = site
        region.journal.cores[name] = CORES
        told = cluster_of(name, site, 1)
        region.say(site, "more clusters", is_rightful=False, cluster_declared=told)


def rule_others(region: Region) -> None:
    """Somebody drains, loses or removes what is another site's, or declares who may what."""
    rng, now_us = region.rng, region.clock.now_us
    name = rng.choice([*CLUSTERS])
    others = [site for site in SITES if site != CLUSTERS[name][0]]
    users = [user.name for user in USERS]
    source = rng.choice([*others, *map(agents_of, SITES), *users, VIEWER, BILLING, STRANGER])
    kind, told = rng.choice(
        [
            ("nodes_drained", NodesDrained(cluster=name, reason="x", drained_at_us=now_us)),
            ("nodes_resumed", NodesResumed(cluster=name, resumed_at_us=now_us)),
            ("cluster_lost", ClusterLost(cluster=name, reason="x", lost_at_us=now_us)),
            ("cluster_returned", ClusterReturned(cluster=name, returned_at_us=now_us)),
            (
                "cluster_undeclared",
                ClusterUndeclared(cluster=name, reason="x", undeclared_at_us=now_us),
            ),
            ("authority_declared", AuthorityDeclared(version=2, declared_at_us=now_us)),
        ]
    )
    said: dict[str, Any] = {kind: told}
    region.say(source, f"{kind} of others", is_rightful=False, **said)


def submit_at_an_odd_time(region: Region) -> None:
    """A user says that a job was handed in years ago, or will be."""
    user, now_us = region.rng.choice(USERS), region.clock.now_us
    at_us = region.rng.choice([*_ODD_US, now_us + 60 * SECOND_US, now_us + 30 * DAY_US])
    told = submission_of(region, user, submitted_at_us=at_us)
    region.say(user.name, "odd time", is_rightful=False, job_submitted=told)


def _started(
    region: Region, target: Target, site: str, attempt: int, grant: int, cluster: str
) -> JobStarted:
    there = CLUSTERS.get(cluster, (site, 1))[1]
    nodes = region.rng.choice(
        [list(target.nodes), [node_name(cluster, region.rng.randrange(there))]]
    )
    return JobStarted(
        job_id=target.job_id,
        attempt=attempt,
        cluster=cluster,
        nodes=nodes or [node_name(cluster, 0)],
        freq_ghz=2.0,
        started_at_us=_odd(region, target.began_us),
        grant=grant,
    )


def _finished(
    region: Region, target: Target, site: str, attempt: int, grant: int, cluster: str
) -> JobFinished:
    rng, job = region.rng, region.submission(target.job_id)
    is_true = job is not None and rng.random() < 0.7
    began_us = rng.choice([target.began_us, 0, _odd(region, target.began_us)])
    return JobFinished(
        job_id=target.job_id,
        attempt=attempt,
        outcome=rng.choice([JOB_OUTCOME_COMPLETED, JOB_OUTCOME_FAILED]),
        cluster=cluster,
        user=job.user if is_true and job else rng.choice(USERS).name,
        account=job.account if is_true and job else rng.choice(accounts_of(site)),
        nodes=max(1, len(target.nodes)),
        cores_per_node=rng.choice([CORES, 1]),
        submitted_at_us=min(began_us, target.began_us) or target.began_us,
        started_at_us=began_us,
        ended_at_us=max(began_us, region.clock.now_us),
        grant=grant,
        failed_nodes=rng.choice([[], list(target.nodes), ["whatever"]]),
    )


def _requeued(
    region: Region, target: Target, _site: str, attempt: int, grant: int, cluster: str
) -> JobRequeued:
    return JobRequeued(
        job_id=target.job_id,
        attempt=attempt + 1,
        reason="x",
        requeued_at_us=_odd(region, region.clock.now_us),
        cluster=region.rng.choice(["", cluster]),
        failed_nodes=region.rng.choice([[], list(target.nodes), ["whatever"]]),
        grant=grant,
    )


def _declined(
    region: Region, target: Target, _site: str, attempt: int, grant: int, _cluster: str
) -> JobDeclined:
    now_us = _odd(region, region.clock.now_us)
    return JobDeclined(
        job_id=target.job_id, attempt=attempt, grant=max(1, grant), declined_at_us=now_us
    )


def _action_done(
    region: Region, target: Target, _site: str, attempt: int, grant: int, _cluster: str
) -> JobActionDone:
    return JobActionDone(
        job_id=target.job_id,
        attempt=attempt,
        grant=grant,
        number=region.rng.choice([1, 2, 1000]),
        done_at_us=region.clock.now_us,
    )


def _action_refused(
    region: Region, target: Target, _site: str, attempt: int, grant: int, _cluster: str
) -> JobActionRefused:
    return JobActionRefused(
        job_id=target.job_id,
        attempt=attempt,
        grant=grant,
        number=region.rng.choice([1, 2, 1000]),
        refused_at_us=region.clock.now_us,
    )


def _limit_changed(
    region: Region, target: Target, _site: str, attempt: int, grant: int, _cluster: str
) -> JobLimitChanged:
    now_us = region.clock.now_us
    return JobLimitChanged(
        job_id=target.job_id,
        attempt=attempt,
        grant=grant,
        ends_by_us=now_us + region.rng.choice([1, 60_000_000, 86_400_000_000]),
        changed_at_us=now_us,
    )


_REPORTS: Final[Mapping[str, Callable[..., Any]]] = {
    "job_started": _started,
    "job_finished": _finished,
    "job_requeued": _requeued,
    "job_declined": _declined,
    "job_action_done": _action_done,
    "job_action_refused": _action_refused,
    "job_limit_changed": _limit_changed,
}


def _target(region: Region) -> Target | None:
    """Mostly what runs, or is granted and not started; sometimes what ran."""
    found = list(map(Target.of, open_runs(region)))
    if not found or region.rng.random() < 0.3:
        found += list(map(Target.of, region.journal.runs[-RECENT:]))
        found += region.starts[-10:]
    return region.rng.choice(found) if found else None


def _running(region: Region, job_id: str) -> list[Run]:
    """Those that run."""
    return [run for run in open_runs(region) if run.job_id == job_id]


def _job_of_users(region: Region) -> Any:
    """A job that a user submitted: one that runs, where there is any."""
    rng, names = region.rng, {user.name for user in USERS}
    running = [region.submission(run.job_id) for run in open_runs(region)]
    recent = list(region.journal.submissions.values())[-RECENT:]
    found = [job for job in running if job and job.user in names]
    if not found or rng.random() < 0.3:
        found += [job for job in recent if job.user in names]
    return rng.choice(found) if found else None


def _odd(region: Region, right_us: int) -> int:
    return region.rng.choice([right_us] * 5 + [*_ODD_US[1:]])


def _time(region: Region) -> int:
    """When something was said, as its sender says; 0: now."""
    rng, now_us = region.rng, region.clock.now_us
    before_us = now_us - some_time_us(rng, 1000, DAY_US)
    return rng.choice([0, 0, 0, before_us, now_us + some_time_us(rng, 1000, HOUR_US)])


LIES: Final[Mapping[Callable[[Region], None], float]] = {
    submit_the_next_attempt: 5,
    submit_as_another: 5,
    submit_as_a_site: 3,
    report_what_it_does_not_hold: 25,
    charge_another: 3,
    order_for_others: 8,
    prioritize_oneself: 3,
    depend_on_others: 3,
    name_the_dead: 4,
    name_a_co_runner: 8,
    declare_too_much: 1,
    rule_others: 3,
    submit_at_an_odd_time: 1,
}
