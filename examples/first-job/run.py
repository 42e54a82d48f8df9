"""Waits for the decision to start a job, runs it for three seconds and reports both.

Usage: run.py JOB
"""

import os
import sys
import time

from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from kafka import KafkaConsumer
from submit import report


def start_of(job_id):
    """Wait for the decision that starts a job."""
    for record in KafkaConsumer(
        "placement.decisions",
        bootstrap_servers=os.environ["COPLACE_KAFKA_BOOTSTRAP"],
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ):
        if dict(record.headers)["ce_type"] == b"coplace.v1.PlacementDecided":
            decision = PlacementDecided.FromString(record.value)
            if (decision.job_id, decision.verdict) == (job_id, VERDICT_START):
                return decision
    raise SystemExit(f"no decision of {job_id}")


start = start_of(sys.argv[1])
print(f"start {start.job_id} on {len(start.node_indices)} nodes at {start.freq_ghz} GHz")
run = {
    "job_id": start.job_id,
    "attempt": start.attempt,
    "cluster": start.cluster,
    "grant": start.grant,
    "started_at_us": time.time_ns() // 1000,
    "freq_ghz": start.freq_ghz,
}
report(job_started=JobStarted(nodes=[f"alpha-{i:04}" for i in start.node_indices], **run))
time.sleep(3)
report(
    job_finished=JobFinished(
        outcome=JOB_OUTCOME_COMPLETED,
        user="ada",
        account="physics",
        nodes=4,
        cores_per_node=36,
        node_model="gold-6354",
        submitted_at_us=int(start.job_id.split("/")[-1]) * 1_000_000,
        ended_at_us=time.time_ns() // 1000,
        **run,
    )
)
print(f"finished {start.job_id}")
