"""Manage resources over gRPC alone; killed at any time, it goes on by the cursor in its journal."""

import asyncio
import sys
import time
from pathlib import Path

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from coplace_client import channels, decisions, facts, ingest

SITE, CLUSTER, SOURCE, RUN_US = "north", "example", "north/example", 1_000_000
HAS = {"cluster": CLUSTER, "site": SITE, "node_model": "any", "nodes": 16, "cores_per_node": 8}
DRAWS = {"idle_power_w": 100, "processors_tdp_w": 300, "peak_bandwidth_gbps": 100}
NEEDS = {"attempt": 1, "user": "ada", "account": "physics", "nodes": 1, "walltime_s": 60}
FILES, jobs = channels.GrpcFiles.from_environment(), {}
journal = Path("resource_manager.journal").open("a+", buffering=1)  # noqa: SIM115 till the end


async def run(sender, decision, began_us):  # a fact that is reported again is known by its id
    job = jobs.pop(decision.job_id, None) if decision.verdict == VERDICT_START else None
    if job is not None:
        nodes, ended_us = [f"{CLUSTER}-{n:04d}" for n in decision.node_indices], began_us + RUN_US
        await sender.tell(facts.started(SOURCE, decision, nodes, began_us))
        await asyncio.sleep((ended_us - time.time_ns() // 1000) / 1e6)
        await sender.tell(facts.ended(SOURCE, job, decision, (began_us, ended_us)))
        print("ended", job.job_id, file=journal)


async def main(count, ingest_address, watch_address):
    journal.seek(0)
    if not journal.read():
        print("submitted", count, time.time_ns() // 1000, file=journal)
    journal.seek(0)
    (_, count, begun_us), *lines = (line.split() for line in journal)
    begun_us, obeyed = int(begun_us), [line[1:] for line in lines if line[0] == "obeyed"]
    for number in range(int(count)):
        of = {"job_id": f"{SOURCE}/{number}/{begun_us}", "submitted_at_us": begun_us}
        jobs[of["job_id"]] = JobSubmitted(reference_cluster=CLUSTER, **of, **NEEDS)
    cluster = ClusterDeclared(**HAS, **DRAWS, pstates_ghz=[2.0])
    told = [facts.fact(SOURCE, cluster, f"{CLUSTER}/{begun_us}", begun_us)]
    told += [facts.submitted(SOURCE, job) for job in jobs.values()]
    cursor = obeyed[-1][0] if obeyed else ""
    request = decisions.of_clusters(SITE, [CLUSTER], cursor, from_earliest=True)
    sender = ingest.FactSender(ingest.IngestClient(ingest_address, FILES, ingest.Patience()))
    async with asyncio.TaskGroup() as runs:
        runs.create_task(sender.run())
        await asyncio.gather(*map(sender.tell, told))
        for _, at_us, text in obeyed:
            decision = PlacementDecided.FromString(bytes.fromhex(text))
            runs.create_task(run(sender, decision, int(at_us)))
        async for decision, cursor in decisions.AsyncDecisionWatcher(watch_address, FILES, request):
            at_us, text = time.time_ns() // 1000, decision.SerializeToString().hex()
            print("obeyed", cursor, at_us, text, file=journal)
            runs.create_task(run(sender, decision, at_us))


asyncio.run(main(*sys.argv[1:]))
