"""What a payload is about: the clusters, sites, accounts, users and jobs that it names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.options_pb2 import (
    SUBJECT_KIND_ACCOUNT,
    SUBJECT_KIND_REGION,
    SUBJECT_KIND_USER,
    SubjectKind,
)
from coplace.v1.options_pb2 import SUBJECT_KIND_CLUSTER as _CLUSTER
from coplace.v1.options_pb2 import SUBJECT_KIND_JOB as _JOB
from coplace.v1.options_pb2 import SUBJECT_KIND_NODE_MODEL as _NODE_MODEL
from coplace.v1.options_pb2 import SUBJECT_KIND_SITE as _SITE
from google.protobuf.message import Message

from shared.authority.binding import Role, SitedCluster
from shared.authority.holding import claim_of
from shared.authority.rules import About, OwnedJob
from shared.catalogue.guards import guarded_fields
from shared.catalogue.options import kinds_by_value, roles_above, roles_without

Payload = TypeVar("Payload", bound=Message)


class NamesInRegion(Protocol):
    """What a door knows of clusters and jobs."""

    def cluster(self, name: str) -> SitedCluster:
        """Return a cluster with its site."""
        ...

    def is_one_too_many(self, cluster: SitedCluster) -> bool:
        """Return whether a cluster would be one more than its site may have declared."""
        ...

    def having(self, node_model: str) -> Sequence[SitedCluster]:
        """Return the declared clusters of a node model."""
        ...

    def job(self, job_id: str) -> OwnedJob:
        """Return a job, as far as it is known."""
        ...


def about_of(payload: Message, region: NamesInRegion) -> About:
    """Return what a payload names, completed by what is known of it: fields that need no
    permission, of which nobody is asked, are left out."""
    named: dict[SubjectKind.ValueType, list[str]] = {}
    for kind, name in _named(payload):
        named.setdefault(kind, []).append(name)
    job_id, site, node_model = (_one(named, kind) for kind in (_JOB, _SITE, _NODE_MODEL))
    clusters = tuple(_cluster(name, site, region) for name in named.get(_CLUSTER, ()))
    exceeds = [*_exceeding(payload)]
    if isinstance(payload, ClusterDeclared) and any(map(region.is_one_too_many, clusters)):
        exceeds.append(("the number of clusters of the site", (Role.OPERATOR,)))
    return About(
        is_region=SUBJECT_KIND_REGION in named,
        clusters=clusters,
        site=site,
        node_model=node_model,
        having_model=tuple(region.having(node_model)) if node_model else (),
        user=_one(named, SUBJECT_KIND_USER),
        account=_one(named, SUBJECT_KIND_ACCOUNT),
        job=region.job(job_id) if job_id else None,
        claim=claim_of(payload),
        beside=tuple(map(region.job, named.get(_JOB, ())[1:])),
        exceeds=tuple(exceeds),
    )


def _exceeding(payload: Message) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the fields whose values only some roles may say, with these roles."""
    for name, bound in roles_above(payload.DESCRIPTOR).items():
        if getattr(payload, name) > bound.value:
            yield name, tuple(bound.roles)
    for name in _left_out(payload):
        yield name, tuple(roles_without(payload.DESCRIPTOR)[name].roles)


def said_by_others(payload: Payload) -> Payload | None:
    """Return what a payload says of whoever may not leave out what it leaves out; None where it
    leaves out nothing of that kind."""
    names = _left_out(payload)
    if not names:
        return None
    said = type(payload)()
    said.CopyFrom(payload)
    for name in names:
        numbers = roles_without(payload.DESCRIPTOR)[name].others_say
        if payload.DESCRIPTOR.fields_by_name[name].is_repeated:
            getattr(said, name).extend(numbers)
        else:
            setattr(said, name, numbers[0])
    return said


def _left_out(payload: Message) -> list[str]:
    return [name for name in roles_without(payload.DESCRIPTOR) if not getattr(payload, name)]


def _named(payload: Message) -> Iterator[tuple[SubjectKind.ValueType, str]]:
    for field in guarded_fields(payload.DESCRIPTOR):
        if field.unless and getattr(payload, field.unless):
            continue
        found, kind = getattr(payload, field.name), field.kind
        if field.by:
            kinds = kinds_by_value(payload.DESCRIPTOR, field.by)
            # A value of a later release: it may concern anything.
            kind = kinds.get(getattr(payload, field.by), SUBJECT_KIND_REGION)
        names = (found,) if isinstance(found, str) else tuple(found)
        for name in names or ("",):
            if name or kind == SUBJECT_KIND_REGION:
                yield kind, name


def _one(named: Mapping[SubjectKind.ValueType, list[str]], kind: SubjectKind.ValueType) -> str:
    return named.get(kind, [""])[0]


def _cluster(name: str, site: str, region: NamesInRegion) -> SitedCluster:
    """A name that nobody has is of the site that it is declared of."""
    known = region.cluster(name)
    return known if known.site or not site else SitedCluster(name, site)
