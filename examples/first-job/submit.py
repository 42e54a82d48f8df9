"""Declares a cluster, submits a job and prints its id."""

import os
import time

import grpc
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from coplace.v1.jobs_pb2 import JobSubmitted

ingest = IngestServiceStub(grpc.insecure_channel(os.environ["COPLACE_INGEST_ADDRESS"]))


def report(**fact):
    """Send one fact, under an id of its own."""
    [(name, message)] = fact.items()
    now_us = time.time_ns() // 1000
    event_id = f"north/alpha/{name}/{now_us}"
    event = Envelope(id=event_id, source="north/alpha", time_us=now_us, **{name: message})
    ingest.Publish(PublishRequest(event=event))


if __name__ == "__main__":
    cluster = ClusterDeclared(
        cluster="alpha",
        site="north",
        node_model="gold-6354",
        nodes=64,
        cores_per_node=36,
        pstates_ghz=[1.2, 2.0, 3.0],
        idle_power_w=110,
        peak_bandwidth_gbps=410,
        processors_tdp_w=410,
    )
    now_s = int(time.time())
    job = JobSubmitted(
        job_id=f"north/alpha/1/{now_s}",
        attempt=1,
        user="ada",
        account="physics",
        nodes=4,
        walltime_s=3600,
        reference_cluster="alpha",
        clusters=["alpha"],  # run.py starts jobs of this cluster alone
        submitted_at_us=now_s * 1_000_000,
    )
    report(cluster_declared=cluster)
    report(job_submitted=job)
    print(job.job_id)
