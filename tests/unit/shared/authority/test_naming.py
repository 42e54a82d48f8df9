"""What a payload names is read in each of its fields, one name or several."""

from collections.abc import Sequence

import pytest
from coplace.v1.control_pb2 import ManagerAlive
from coplace.v1.options_pb2 import SUBJECT_KIND_CLUSTER
from google.protobuf.message_factory import GetMessageClass

from shared.authority.binding import SitedCluster
from shared.authority.naming import about_of
from shared.authority.rules import OwnedJob
from shared.catalogue.guards import PAYLOADS, guarded_fields


class Anything:
    """A region that knows every cluster and job."""

    def cluster(self, name: str) -> SitedCluster:
        return {name: SitedCluster(name, "north")}[name]  # as a region looks it up

    def is_one_too_many(self, cluster: SitedCluster) -> bool:
        return not cluster.name

    def having(self, node_model: str) -> Sequence[SitedCluster]:
        return [self.cluster(node_model)]

    def job(self, job_id: str) -> OwnedJob:
        return OwnedJob(job_id)


@pytest.mark.parametrize("payload", sorted(PAYLOADS))
def test_every_field_that_is_guarded_is_read(payload: str) -> None:
    message = GetMessageClass(PAYLOADS[payload])()
    clusters = 0
    for field in guarded_fields(message.DESCRIPTOR):
        if isinstance(getattr(message, field.name), str):
            setattr(message, field.name, f"some {field.name}")
            clusters += field.kind == SUBJECT_KIND_CLUSTER
        else:
            getattr(message, field.name).extend(["one", "another"])
            clusters += 2 * (field.kind == SUBJECT_KIND_CLUSTER)
    assert len(about_of(message, Anything()).clusters) == clusters


def test_a_manager_speaks_for_all_clusters_that_it_names() -> None:
    about = about_of(ManagerAlive(manager="x", clusters=["alpha", "sigma"]), Anything())
    assert [cluster.name for cluster in about.clusters] == ["alpha", "sigma"]
