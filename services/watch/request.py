"""What a call asks for: messages to what is watched, each refusal naming its field. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from coplace.v1.watch_service_pb2 import WatchDecisionsRequest, WatchedClusters
from google.protobuf.message import DecodeError

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from services.watch.cursor import CursorCodec
from services.watch.model import WatchedManager, WatchedUser

_MOST_CLUSTERS: Final = 256


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A valid request. Without offsets: from now on, or from the earliest."""

    watched: WatchedManager | WatchedUser
    offsets: Sequence[int] | None
    from_earliest: bool


def parse(data: bytes, codec: CursorCodec) -> WatchRequest:
    """Parse the request in a message. Raises RejectedError."""
    try:
        message = WatchDecisionsRequest.FromString(data)
    except DecodeError:
        problem = "must be a WatchDecisionsRequest with UTF-8 strings"
        raise RejectedError("request", problem) from None
    if message.cursor and message.from_earliest:
        raise RejectedError("from_earliest", "goes without a cursor, which says where to begin")
    offsets = codec.decode(message.cursor) if message.cursor else None
    return WatchRequest(_watched(message), offsets, message.from_earliest)


def _watched(message: WatchDecisionsRequest) -> WatchedManager | WatchedUser:
    match message.WhichOneof("watched"):
        case "clusters":
            return _manager(message.clusters, message.with_waiting)
        case "user":
            require_text("user", message.user)
            return WatchedUser(message.user, message.with_waiting)
        case _:
            raise RejectedError("watched", "must be the clusters of a site, or a user")


def _manager(message: WatchedClusters, with_waiting: bool) -> WatchedManager:
    require_text("clusters.site", message.site)
    if not 1 <= len(message.clusters) <= _MOST_CLUSTERS:
        problem = f"must be 1 to {_MOST_CLUSTERS} names, got {len(message.clusters)}"
        raise RejectedError("clusters.clusters", problem)
    for number, name in enumerate(message.clusters):
        require_text(f"clusters.clusters[{number}]", name)
    return WatchedManager(message.site, frozenset(message.clusters), with_waiting)
