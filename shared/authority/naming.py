"""What a payload is about: the clusters, sites, accounts, users and jobs that it names."""

from collections.abc import Sequence
from typing import Final, Protocol

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_USER,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_SITE,
    ClusterDeclared,
    LimitsDeclared,
    PowerCapDeclared,
)
from coplace.v1.telemetry_pb2 import NodeSamples, ShuttersMeasured, SignatureMeasured
from google.protobuf.message import Message

from shared.authority.binding import SitedCluster
from shared.authority.rules import About, OwnedJob

_CLUSTERS: Final = ("cluster", "reference_cluster")
# Only what is measured counts for a model; elsewhere it is a remark.
_OF_MODELS: Final = (NodeSamples, ShuttersMeasured, SignatureMeasured)


class NamesInRegion(Protocol):
    """What a door knows of clusters and jobs."""

    def cluster(self, name: str) -> SitedCluster:
        """A cluster with its site."""
        ...

    def having(self, node_model: str) -> Sequence[SitedCluster]:
        """The declared clusters of a node model."""
        ...

    def job(self, job_id: str) -> OwnedJob:
        """A job, as far as it is known."""
        ...


def about_of(payload: Message, region: NamesInRegion) -> About:
    """What a payload names, completed by what is known of it."""
    match payload:
        case LimitsDeclared() if payload.subject == LIMIT_SUBJECT_USER:
            return About(user=payload.name)
        case LimitsDeclared():
            return About(account=payload.name)
        case PowerCapDeclared():
            return _of_cap(payload, region)
        case ClusterDeclared():
            known = region.cluster(payload.cluster)
            # A name that nobody has is of the site that it is declared of.
            found = known if known.site else SitedCluster(payload.cluster, payload.site)
            return About(clusters=(found,), site=payload.site)
        case _:
            return _of_fields(payload, region)


def _of_cap(cap: PowerCapDeclared, region: NamesInRegion) -> About:
    if cap.scope == POWER_SCOPE_CLUSTER:
        return About(clusters=(region.cluster(cap.name),))
    if cap.scope == POWER_SCOPE_SITE:
        return About(site=cap.name)
    return About(is_region=True)


def _of_fields(payload: Message, region: NamesInRegion) -> About:
    named = [_text(payload, name) for name in _CLUSTERS]
    job_id = _text(payload, "job_id")
    node_model = _text(payload, "node_model") if isinstance(payload, _OF_MODELS) else ""
    return About(
        clusters=tuple(region.cluster(name) for name in named if name),
        node_model=node_model,
        having_model=tuple(region.having(node_model)) if node_model else (),
        user=_text(payload, "user"),
        account=_text(payload, "account"),
        job=region.job(job_id) if job_id else None,
    )


def _text(payload: Message, name: str) -> str:
    """A field of the payload, empty where its kind has none."""
    value: str = getattr(payload, name) if name in payload.DESCRIPTOR.fields_by_name else ""
    return value
