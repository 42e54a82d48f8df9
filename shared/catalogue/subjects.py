"""What a message is about, for who hands on messages and knows no contents."""

from coplace.v1.control_pb2 import ClusterDeclared
from google.protobuf.message import Message


def job_of(payload: Message) -> str:
    """Return the id of the job that a message is about; empty for one that is about none."""
    job_id: str = getattr(payload, "job_id", "")
    return job_id


def is_awaited_by_all(payload: Message) -> bool:
    """Return whether early facts of any job may wait for this message: starts wait for their
    clusters too."""
    return isinstance(payload, ClusterDeclared)
