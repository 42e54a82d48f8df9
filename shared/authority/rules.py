"""Which role may say and ask what of what. Pure.

For payloads the options of their fields say it, for RPCs a table here. A payload or an RPC that no
rule names is nobody's to say or ask.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.options_pb2 import (
    GUARD_AS_SUBMITTED,
    GUARD_COVERED,
    GUARD_JOB,
    GUARD_OWNER,
    GUARD_RUN,
    GUARD_SELF,
    SUBJECT_KIND_ACCOUNT,
    SUBJECT_KIND_CLUSTER,
    SUBJECT_KIND_NODE_MODEL,
    SUBJECT_KIND_REGION,
    SUBJECT_KIND_SITE,
    SUBJECT_KIND_USER,
    Guard,
    SubjectKind,
)
from google.protobuf.descriptor import Descriptor

from shared.authority.binding import EVERY, Binding, Role, SitedCluster
from shared.authority.holding import HeldRun, RunClaim
from shared.catalogue.guards import PAYLOADS, guarded_fields, kinds_of
from shared.catalogue.options import rule_of

_NO_CLAIM: Final = RunClaim()
_OWN_JOBS: Final = "a user has own jobs posted alone"


@dataclass(frozen=True, slots=True)
class OwnedJob:
    """A job as far as it is known: whose it is, as it was submitted, and its runs with their
    holders, the newest last, and those that were declined. `newest_grant` is the highest number
    that a grant of it had."""

    job_id: str
    user: str = ""
    account: str = ""
    runs: tuple[HeldRun, ...] = ()
    newest_grant: int = 0
    declined: tuple[HeldRun, ...] = ()

    @property
    def holder(self) -> HeldRun | None:
        """Return the newest run, if there is one that was not declined."""
        return self.runs[-1] if self.runs else None

    @property
    def held_on(self) -> tuple[SitedCluster, ...]:
        """Return the cluster whose resource manager holds the job now, if one does."""
        return (self.holder.cluster,) if self.holder else ()

    def run_claimed(self, claim: RunClaim) -> HeldRun | None:
        """Return the run that a claim speaks of, None where it is not known: that of its grant,
        else of its attempt. Of an attempt that nobody has begun it is the newest run: its holder
        alone begins the next one."""
        if claim.grant:
            known = (*self.runs, *self.declined) if claim.is_declined else self.runs
            return next((run for run in known if run.grant == claim.grant), None)
        of = [run for run in self.runs if claim.attempt in (0, run.attempt)]
        is_next = self.holder is not None and claim.attempt > self.holder.attempt
        return self.holder if is_next else of[-1] if of else None


@dataclass(frozen=True, slots=True)
class About:
    """What a payload or a question names. `having_model` are the declared clusters of
    `node_model`; `is_region` says that it concerns all sites. `claim` is the run of the job that it
    speaks of, `beside` are other jobs that ran with it. Of `exceeds` each is a field whose value
    needs one of the roles behind it."""

    is_region: bool = False
    clusters: tuple[SitedCluster, ...] = ()
    site: str = ""
    node_model: str = ""
    having_model: tuple[SitedCluster, ...] = ()
    user: str = ""
    account: str = ""
    job: OwnedJob | None = None
    claim: RunClaim = _NO_CLAIM
    beside: tuple[OwnedJob, ...] = ()
    exceeds: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        words = [f"job {self.job.job_id}"] if self.job else []
        words += [str(cluster) for cluster in self.clusters]
        for name in ("site", "node_model", "user", "account"):
            words += [f"{name} {getattr(self, name)!r}"] if getattr(self, name) else []
        return ", ".join(words) or ("the region" if self.is_region else "nothing")


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """Whether somebody may, and as what; or why not."""

    is_allowed: bool
    reason: str


# Why a binding does not suffice; empty where it does.
_Objection = Callable[[Binding, About], str]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Which roles may at all, and what is asked of a binding then."""

    roles: tuple[Role, ...]
    objection: _Objection


def _none(_binding: Binding, _about: About) -> str:
    return ""


def _of_region(binding: Binding, _about: About) -> str:
    return "" if binding.is_of_region else "it concerns the whole region, sites: ['*']"


def _of_places(binding: Binding, about: About) -> str:
    """Of a user it is not asked: a job may ask for any cluster."""
    if binding.role is Role.USER:
        return ""
    if about.is_region and not binding.is_of_region:
        return _of_region(binding, about)
    for cluster in about.clusters:
        if not binding.covers(cluster):
            return f"{cluster} is outside its scope"
    if about.site and not binding.has_site(about.site) and not _is_site_of(about):
        return f"site {about.site!r} is outside its scope"
    return _of_model(binding, about)


def _is_site_of(about: About) -> bool:
    """A cluster is declared again of the site that it is of."""
    return any(cluster.site == about.site for cluster in about.clusters)


def _of_model(binding: Binding, about: About) -> str:
    if not about.node_model or any(map(binding.covers, about.having_model)):
        return ""
    return f"no cluster of its has nodes of model {about.node_model!r}"


def _of_user(binding: Binding, about: About) -> str:
    if not about.user or binding.speaks_for(about.user):
        return ""
    return f"user {about.user!r} is outside its scope"


def _of_account(binding: Binding, about: About) -> str:
    if not about.account or binding.charges(about.account):
        return ""
    return f"account {about.account!r} is outside its scope"


def _of_itself(binding: Binding, about: About) -> str:
    if binding.role is not Role.USER or binding.speaks_for(about.user):
        return ""
    return f"user {about.user!r} is somebody else"


def _of_owner(binding: Binding, about: About) -> str:
    assert about.job is not None
    if binding.owns(about.job.job_id):
        return ""
    return f"jobs of ids such as {about.job.job_id!r} are none of its"


def _of_run(binding: Binding, about: About) -> str:
    """A run is reported by its holder: the identity that has the cluster of its grant, or of a
    run without a grant the cluster where it is. Where nobody is known to hold one, the owner of the
    job reports it: its resource manager started that by itself. What is measured of no job is not
    asked about one."""
    if about.job is None:
        return ""
    beside = (_of_holder(binding, job, RunClaim()) for job in about.beside)
    return _of_holder(binding, about.job, about.claim) or next(filter(None, beside), "")


def _of_holder(binding: Binding, job: OwnedJob, claim: RunClaim) -> str:
    """Return why a binding may not speak of a run."""
    run = job.run_claimed(claim)
    if claim.grant and run is None and job.user:
        return f"job {job.job_id!r} has no grant {claim.grant}, or it was declined"
    if claim.never_started and binding.owns(job.job_id):
        return ""  # it left the queue of its resource manager: that asks, and ends nothing
    if run is None:
        if binding.owns(job.job_id):
            return ""
        return f"job {job.job_id!r} is somebody else's, and none of its clusters runs it"
    if not binding.covers(run.cluster):
        return f"job {job.job_id!r} is held by none of its clusters: {run}"
    if claim.cluster and claim.cluster != run.cluster.name:
        return f"job {job.job_id!r} is not on cluster {claim.cluster!r}: {run}"
    if claim.grant and claim.attempt not in (0, run.attempt):
        return f"grant {claim.grant} is not of attempt {claim.attempt} of job {job.job_id!r}: {run}"
    return ""


def _of_exceeded(binding: Binding, about: About) -> str:
    """A value above what anybody may say needs a role of the account or the site, a number of the
    region an operator of all of it."""
    for field, roles in about.exceeds:
        of_whole = binding.role is not Role.OPERATOR or binding.is_of_region
        if binding.role not in roles or not of_whole:
            return f"{field} is above what {binding.role} may say: that takes {' or '.join(roles)}"
    return ""


def _of_next_attempt(binding: Binding, about: About) -> str:
    """A job that is known is submitted again as it was, and while somebody holds a run of it by
    nobody else."""
    assert about.job is not None
    job, told = about.job, (about.user, about.account)
    if not job.user or (told == (job.user, job.account) and about.claim.attempt <= 1):
        return ""
    if binding.role is Role.USER:
        return f"job {job.job_id!r} was submitted by {job.user!r} for account {job.account!r}"
    if job.holder is not None and not binding.covers(job.holder.cluster):
        return f"job {job.job_id!r} is held by none of its clusters: {job.holder}"
    return ""


def _as_submitted(binding: Binding, about: About) -> str:
    """Who is charged is who submitted the job; an owner may move it among its accounts."""
    assert about.job is not None
    job, told = about.job, (about.user, about.account)
    is_as_submitted = bool(job.user) and told == (job.user, job.account)
    may_move = binding.owns(job.job_id) and binding.charges(about.account)
    if is_as_submitted or may_move:
        return ""
    if not job.user:
        return f"the submission of job {job.job_id!r} is not known"
    return f"job {job.job_id!r} was submitted by {job.user!r} for account {job.account!r}"


def _of_job(binding: Binding, about: About) -> str:
    """Of who owns the job, has it on a cluster, or pays for it, as the role is."""
    assert about.job is not None
    job = about.job
    by_place = binding.owns(job.job_id) or any(map(binding.covers, job.held_on))
    by_user, by_account = binding.speaks_for(job.user), binding.charges(job.account)
    match binding.role:
        case Role.USER:
            is_its = by_user
        case Role.BILLING:
            is_its = by_account
        case Role.VIEWER:
            is_its = by_place or by_user or by_account
        case _:
            is_its = by_place
    return "" if is_its else f"job {job.job_id!r} is outside its scope"


def _of_list(binding: Binding, about: About) -> str:
    """A list of jobs must be asked for by something of its."""
    if binding.is_of_region:
        return ""
    by_user = bool(about.user) and binding.speaks_for(about.user)
    by_account = bool(about.account) and binding.charges(about.account)
    by_place = bool(about.clusters) and all(map(binding.covers, about.clusters))
    match binding.role:
        case Role.USER:
            return "" if by_user else f"ask for the jobs of user {binding.who!r}"
        case Role.BILLING:
            return "" if by_account else "ask for the jobs of an account of its"
        case Role.VIEWER:
            found = by_user or by_account or by_place
            return "" if found else "ask for the jobs of a cluster, user or account of its"
        case _:
            return "" if by_place else "ask for the jobs of a cluster of its"


def _of_watch(binding: Binding, about: About) -> str:
    """Decisions are watched by who obeys them on clusters of its, or owns the jobs."""
    if about.user:
        return _of_user(binding, about)
    if binding.role is Role.USER:
        return f"watch the jobs of user {binding.who!r}"
    return _of_places(binding, about)


def _of_every_account(binding: Binding, about: About) -> str:
    """A list of accounts has all of them."""
    if EVERY in binding.accounts:
        return ""
    return "ask for one account of its" if binding.accounts else _of_region(binding, about)


def _of_statement(binding: Binding, about: About) -> str:
    """A user sees own runs alone, also where others have the same account charged."""
    if binding.role is Role.USER and not (about.user and binding.speaks_for(about.user)):
        return f"ask for the lines of user {binding.who!r}"
    return _of_account(binding, about)


def _of_webhook(binding: Binding, about: About) -> str:
    """A user has own jobs posted, an operator those of users and accounts of its, or all."""
    if about.is_region:
        return _OWN_JOBS if binding.role is Role.USER else _of_region(binding, about)
    if about.account:
        return _OWN_JOBS if binding.role is Role.USER else _of_account(binding, about)
    return _of_user(binding, about) if about.user else "it is of nobody"


_POSTING: Final = (Role.USER, Role.OPERATOR)
_ASKING: Final = (Role.VIEWER, Role.USER, Role.OPERATOR, Role.BILLING, Role.RESOURCE_MANAGER)
_RUNNING: Final = (Role.OPERATOR, Role.RESOURCE_MANAGER)
_BILLED: Final = (Role.VIEWER, Role.USER, Role.OPERATOR, Role.BILLING)

# What is asked of a binding for each guard of a field, in this order; for what is covered by kind.
_OBJECTIONS: Final[Mapping[Guard.ValueType, _Objection]] = {
    GUARD_OWNER: _of_owner,
    GUARD_AS_SUBMITTED: _as_submitted,
    GUARD_RUN: _of_run,
    GUARD_JOB: _of_job,
    GUARD_SELF: _of_itself,
}
_COVERED: Final[Mapping[SubjectKind.ValueType, _Objection]] = {
    SUBJECT_KIND_USER: _of_user,
    SUBJECT_KIND_ACCOUNT: _of_account,
    SUBJECT_KIND_CLUSTER: _of_places,
    SUBJECT_KIND_SITE: _of_places,
    SUBJECT_KIND_NODE_MODEL: _of_places,
    SUBJECT_KIND_REGION: _of_places,
}


def _payload_rule(message: Descriptor) -> AccessRule:
    """Return who may send a message, as its options and those of its fields say."""
    rule = rule_of(message)
    roles = tuple(map(Role, rule.roles))
    if rule.of_region:
        return AccessRule(roles, _of_region)
    guarded = guarded_fields(message)
    guards = {field.guard for field in guarded}
    covered = {
        kind for one in guarded if one.guard == GUARD_COVERED for kind in kinds_of(message, one)
    }
    asked = [objection for guard, objection in _OBJECTIONS.items() if guard in guards]
    asked += [objection for kind, objection in _COVERED.items() if kind in covered]
    asked += [_of_exceeded]
    asked += [_of_next_attempt] if message is JobSubmitted.DESCRIPTOR else []
    return AccessRule(roles, _all_of(tuple(dict.fromkeys(asked))))


def _all_of(asked: Sequence[_Objection]) -> _Objection:
    def first(binding: Binding, about: About) -> str:
        return next((why for each in asked if (why := each(binding, about))), "")

    return first


def _of_submission(binding: Binding, about: About) -> str:
    return RULES["job_submitted"].objection(binding, about)


# RPCs by their names.
_QUESTIONS: Final[Mapping[str, AccessRule]] = {
    "Explain": AccessRule(_ASKING, _of_job),
    "Quote": AccessRule((Role.USER, Role.RESOURCE_MANAGER), _of_submission),
    "ListJobs": AccessRule(_ASKING, _of_list),
    "ListClusters": AccessRule(_ASKING, _none),
    "ListLimits": AccessRule((Role.VIEWER, *_RUNNING), _of_places),
    "ListReservations": AccessRule((Role.VIEWER, *_RUNNING), _of_places),
    "ListLicences": AccessRule((Role.VIEWER, *_RUNNING), _of_places),
    "ShowNodes": AccessRule((Role.VIEWER, *_RUNNING), _of_places),
    "ShowPower": AccessRule(_ASKING, _none),
    "ShowPolicy": AccessRule(_ASKING, _none),
    "ListTariffs": AccessRule(_ASKING, _none),
    "Project": AccessRule(_ASKING, _none),
    "ListRuns": AccessRule(_ASKING, _of_list),
    "ShowStory": AccessRule(_ASKING, _of_job),
    "ListCharges": AccessRule(_BILLED, _of_list),
    "ListAccounts": AccessRule((Role.VIEWER, Role.OPERATOR, Role.BILLING), _of_every_account),
    "ShowAccount": AccessRule(_BILLED, _of_account),
    "ShowStatement": AccessRule(_BILLED, _of_statement),
    "ListAudit": AccessRule((Role.OPERATOR,), _of_region),
    "AddWebhook": AccessRule(_POSTING, _of_webhook),
    "ListWebhooks": AccessRule(_POSTING, _none),
    **{
        name: AccessRule(_POSTING, _of_webhook)
        for name in (
            *("RemoveWebhook", "TestWebhook", "RotateWebhookSecret"),
            *("ListFailedDeliveries", "RetryDeliveries"),
        )
    },
    "ShowAuthority": AccessRule((Role.OPERATOR,), _of_region),
    "WatchDecisions": AccessRule((Role.VIEWER, Role.USER, *_RUNNING), _of_watch),
}
# Payloads by their names in Envelope, then the RPCs.
RULES: Final[Mapping[str, AccessRule]] = {
    **{name: _payload_rule(message) for name, message in PAYLOADS.items()},
    **_QUESTIONS,
}


def judged(bindings: Iterable[Binding], action: str, about: About) -> AccessVerdict:
    """Return whether an identity with these bindings may: one that suffices is enough."""
    found = list(bindings)
    if not found:
        return AccessVerdict(False, "the table of authority does not name it")
    rule = RULES.get(action)
    if rule is None:
        return AccessVerdict(False, "no rule says who may, so nobody may")
    roles = dict.fromkeys(binding.role for binding in found)
    objections = []
    for binding in found:
        if binding.role in rule.roles:
            objection = rule.objection(binding, about)
            if not objection:
                return AccessVerdict(True, f"as {binding.role}")
            objections.append(f"as {binding.role}: {objection}")
    if objections:
        return AccessVerdict(False, "; ".join(dict.fromkeys(objections)))
    return AccessVerdict(False, f"it is {', '.join(roles)}, which takes {' or '.join(rule.roles)}")
