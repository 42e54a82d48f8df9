"""Which role may say and ask what of what: the one table, and what is asked of it. Pure.

A payload or an RPC that no rule names is nobody's to say or ask.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from shared.authority.binding import Binding, Role, SitedCluster


@dataclass(frozen=True, slots=True)
class OwnedJob:
    """A job as far as it is known: whose it is, as it was submitted, and the clusters that it was
    granted to."""

    job_id: str
    user: str = ""
    account: str = ""
    granted: tuple[SitedCluster, ...] = ()


@dataclass(frozen=True, slots=True)
class About:
    """What a payload or a question names. `having_model` are the declared clusters of
    `node_model`; `is_region` says that it concerns all sites."""

    is_region: bool = False
    clusters: tuple[SitedCluster, ...] = ()
    site: str = ""
    node_model: str = ""
    having_model: tuple[SitedCluster, ...] = ()
    user: str = ""
    account: str = ""
    job: OwnedJob | None = None

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
    if about.is_region and not binding.is_of_region:
        return _of_region(binding, about)
    for cluster in about.clusters:
        if not binding.covers(cluster):
            return f"{cluster} is none of its"
    if about.site and not binding.has_site(about.site) and not _is_site_of(about):
        return f"site {about.site!r} is none of its"
    return _of_model(binding, about)


def _is_site_of(about: About) -> bool:
    """A cluster is declared again of the site that it is of."""
    return any(cluster.site == about.site for cluster in about.clusters)


def _of_model(binding: Binding, about: About) -> str:
    if not about.node_model or any(map(binding.covers, about.having_model)):
        return ""
    return f"no cluster of its has nodes of model {about.node_model!r}"


def _of_limited(binding: Binding, about: About) -> str:
    if about.user and not binding.stands_for(about.user):
        return f"user {about.user!r} is none of its"
    if about.account and not binding.charges(about.account):
        return f"account {about.account!r} is none of its"
    return ""


def _of_submission(binding: Binding, about: About) -> str:
    assert about.job is not None
    if not binding.owns(about.job.job_id):
        return f"jobs of ids such as {about.job.job_id!r} are none of its"
    if not binding.charges(about.account):
        return f"account {about.account!r} is none that it may have charged"
    if binding.role is not Role.USER:
        return _of_places(binding, about)
    return "" if binding.stands_for(about.user) else f"user {about.user!r} is somebody else"


def _of_run(binding: Binding, about: About) -> str:
    """A run is told of by who has the cluster that the job was granted to, or owns a job that was
    granted nowhere: its resource manager started that by itself."""
    assert about.job is not None
    job = about.job
    if any(map(binding.covers, job.granted)) or (binding.owns(job.job_id) and not job.granted):
        return _of_places(binding, about)
    where = ", ".join(cluster.name for cluster in job.granted) or "no cluster"
    owned = "its own" if binding.owns(job.job_id) else "somebody else's"
    return f"job {job.job_id!r} is {owned} and was granted to {where}, to none of its clusters"


def _of_finish(binding: Binding, about: About) -> str:
    """Who is charged is who submitted the job; an owner may move it among its accounts."""
    assert about.job is not None
    job, told = about.job, (about.user, about.account)
    is_as_submitted = bool(job.user) and told == (job.user, job.account)
    may_move = binding.owns(job.job_id) and binding.charges(about.account)
    if is_as_submitted or may_move:
        return _of_run(binding, about)
    if not job.user:
        return f"the submission of job {job.job_id!r} is not known"
    return f"job {job.job_id!r} was submitted by {job.user!r} for account {job.account!r}"


def _of_job(binding: Binding, about: About) -> str:
    """Of who owns the job, has it on a cluster, or pays for it, as the role is."""
    assert about.job is not None
    job = about.job
    by_place = binding.owns(job.job_id) or any(map(binding.covers, job.granted))
    by_user, by_account = binding.stands_for(job.user), binding.charges(job.account)
    match binding.role:
        case Role.USER:
            is_its = by_user
        case Role.BILLING:
            is_its = by_account
        case Role.VIEWER:
            is_its = by_place or by_user or by_account
        case _:
            is_its = by_place
    if not is_its:
        return f"job {job.job_id!r} is none of its"
    return "" if binding.role is Role.USER else _of_places(binding, about)


def _of_measured_job(binding: Binding, about: About) -> str:
    return _of_places(binding, about) if about.job is None else _of_run(binding, about)


def _of_list(binding: Binding, about: About) -> str:
    """A list of jobs must be asked for by something of its."""
    if binding.is_of_region:
        return ""
    by_user = bool(about.user) and binding.stands_for(about.user)
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


_ASKING: Final = (Role.VIEWER, Role.USER, Role.OPERATOR, Role.BILLING, Role.RESOURCE_MANAGER)
_OWNING: Final = (Role.USER, Role.OPERATOR, Role.RESOURCE_MANAGER)
_RUNNING: Final = (Role.OPERATOR, Role.RESOURCE_MANAGER)

# What somebody asks of a job, unlike what a resource manager tells of it.
ORDERS: Final = frozenset(
    {
        "job_seized",
        "job_cancelled",
        "job_held",
        "job_released",
        "job_requeue_asked",
        "job_suspended",
        "job_resumed",
    }
)

# Payloads by their names in Envelope, then the RPCs.
RULES: Final[Mapping[str, AccessRule]] = {
    "job_submitted": AccessRule((Role.USER, Role.RESOURCE_MANAGER), _of_submission),
    "job_started": AccessRule((Role.RESOURCE_MANAGER,), _of_run),
    "job_finished": AccessRule((Role.RESOURCE_MANAGER,), _of_finish),
    "job_requeued": AccessRule((Role.RESOURCE_MANAGER,), _of_job),
    "job_declined": AccessRule((Role.RESOURCE_MANAGER,), _of_run),
    "job_action_done": AccessRule((Role.RESOURCE_MANAGER,), _of_run),
    "job_action_refused": AccessRule((Role.RESOURCE_MANAGER,), _of_run),
    "job_seized": AccessRule((Role.OPERATOR,), _of_job),
    "job_cancelled": AccessRule(_OWNING, _of_job),
    "job_held": AccessRule(_OWNING, _of_job),
    "job_released": AccessRule(_OWNING, _of_job),
    "job_requeue_asked": AccessRule(_OWNING, _of_job),
    "job_suspended": AccessRule(_RUNNING, _of_job),
    "job_resumed": AccessRule(_RUNNING, _of_job),
    "signature_measured": AccessRule((Role.AGENT,), _of_measured_job),
    "shutters_measured": AccessRule((Role.AGENT,), _of_measured_job),
    "node_samples": AccessRule((Role.AGENT,), _of_places),
    "cluster_declared": AccessRule(_RUNNING, _of_places),
    "cluster_lost": AccessRule(_RUNNING, _of_places),
    "cluster_returned": AccessRule(_RUNNING, _of_places),
    "cluster_undeclared": AccessRule((Role.OPERATOR,), _of_places),
    "nodes_drained": AccessRule(_RUNNING, _of_places),
    "nodes_resumed": AccessRule(_RUNNING, _of_places),
    "limits_declared": AccessRule((Role.OPERATOR,), _of_limited),
    "power_cap_declared": AccessRule((Role.OPERATOR,), _of_places),
    "policy_declared": AccessRule((Role.OPERATOR,), _of_region),
    "coefficients_declared": AccessRule((Role.OPERATOR,), _of_region),
    "plan_proposed": AccessRule((Role.OPERATOR,), _of_region),
    "model_pinned": AccessRule((Role.OPERATOR,), _of_region),
    "model_rolled_back": AccessRule((Role.OPERATOR,), _of_region),
    "pairs_allowed": AccessRule((Role.OPERATOR,), _of_region),
    "tariff_declared": AccessRule((Role.OPERATOR,), _of_region),
    "allocation_declared": AccessRule((Role.OPERATOR,), _of_limited),
    "period_closed": AccessRule((Role.OPERATOR,), _of_region),
    "reprice_asked": AccessRule((Role.OPERATOR,), _of_region),
    "authority_declared": AccessRule((Role.OPERATOR,), _of_region),
    "Explain": AccessRule(_ASKING, _of_job),
    "Quote": AccessRule((Role.USER, Role.RESOURCE_MANAGER), _of_submission),
    "ListJobs": AccessRule(_ASKING, _of_list),
    "ListClusters": AccessRule(_ASKING, _none),
    "ListLimits": AccessRule((Role.VIEWER, Role.OPERATOR), _of_region),
    "ShowNodes": AccessRule((Role.VIEWER, *_RUNNING), _of_places),
    "ShowPower": AccessRule(_ASKING, _none),
    "ShowPolicy": AccessRule(_ASKING, _none),
    "Project": AccessRule(_ASKING, _none),
}


def judged(bindings: Iterable[Binding], action: str, about: About) -> AccessVerdict:
    """Whether who has these bindings, all of one identity, may: one that suffices is enough."""
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
