"""Logs in the Standard Workload Format, of which little is known."""

from typing import Any

from lab.workloads.swf import SwfRecord

UNKNOWN = SwfRecord(*[-1] * 18)


def record(job: int = 1, **known: Any) -> SwfRecord:
    """A job of four processors and ten minutes."""
    usual = {"submit_s": 100 * job, "run_s": 600, "requested_procs": 4, "user_id": 7}
    return UNKNOWN._replace(job_number=job, **(usual | known))


def text_of(*records: SwfRecord, header: str = "; MaxProcs: 64\n") -> str:
    return header + "".join(" ".join(map(str, each)) + "\n" for each in records)
