"""What placement knows of power, folded from the record of its inputs."""

from collections import defaultdict, deque
from contextlib import suppress

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import SignatureUpdated
from coplace.v1.prediction_pb2 import PowerHistoryUpdated, PowerModelPublished, PowerTreesChosen
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.catalogue.payloads.domain_types import cluster_of
from shared.catalogue.payloads.power_history import kind_of, update_of
from shared.catalogue.payloads.power_trees import chosen_trees
from shared.domain.cluster import Cluster
from shared.power_prediction.kinds import MOST_NEWEST, Key
from shared.power_prediction.power_model import PowerModel

_NewestJobs = deque[tuple[str, float]]


class KnownPower:
    """The power model, clusters by name, applications with signatures by (name, node model), and of
    each subject of a row the newest jobs that it was learned from: (id, W), the newest last."""

    def __init__(self) -> None:
        self.model, self.clusters = PowerModel(), dict[str, Cluster]()
        self.signatures = set[tuple[str, str]]()
        self.jobs: defaultdict[Key | None, _NewestJobs] = defaultdict(_newest)

    def fold(self, message: Message) -> None:
        """Apply a cluster's declaration or a publication; what placement refuses it refuses
        silently, too."""
        match message:
            case ClusterDeclared():
                self.clusters[message.cluster] = cluster_of(message)
            case SignatureUpdated():
                self.signatures.add((message.app_id, message.node_model))
            case PowerModelPublished():
                self.model.fallback_power_w = dict(message.fallback_power_w)
            case PowerTreesChosen():
                with suppress(RejectedError):
                    self.model.tables.take_trees(chosen_trees(message))
            case PowerHistoryUpdated():
                with suppress(RejectedError):
                    self.model.tables.fold(update_of(message))
                    self._note_jobs(message)

    def _note_jobs(self, message: PowerHistoryUpdated) -> None:
        for subject in kind_of(message).subjects():
            self.jobs[subject].extend(zip(message.job_ids, message.powers_w, strict=True))


def _newest() -> _NewestJobs:
    return deque(maxlen=MOST_NEWEST)
