"""Jobs that tests submit."""

from typing import Any

from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_testing import Region


def job(region: Region, number: int, **fields: Any) -> JobSubmitted:
    """A job of ada's on one node, unless `fields` say otherwise."""
    usual: dict[str, Any] = {
        "job_id": f"north/alpha/{number}/1767225600",
        "attempt": 1,
        "user": "ada",
        "account": "physics",
        "nodes": 1,
        "walltime_s": 3600,
        "reference_cluster": "alpha",
        "submitted_at_us": region.now_us,
    }
    return JobSubmitted(**{**usual, **fields})
