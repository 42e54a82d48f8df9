"""Manage resources over gRPC alone; killed at any time, it goes on by the cursor in its journal."""

import asyncio
import sys
import time

from coplace.v1 import control_pb2, jobs_pb2, placement_pb2

from coplace_client import channels, decisions, facts, ingest

SITE, CLUSTER, SOURCE, RUN_US = "north", "example", "north/example", 1_000_000
HAS = {"cluster": CLUSTER, "site": SITE, "node_model": "any", "nodes": 16, "cores_per_node": 8}
CLOCKS = {"pstates_ghz": [2.0], "idle_power_w": 100, "peak_bandwidth_gbps": 100}
WHERE = {"reference_cluster": CLUSTER, "clusters": [CLUSTER]}  # it starts no job elsewhere
NEEDS = {"user": "ada", "account": "lab", "nodes": 1, "walltime_s": 9, **WHERE}
FILES, jobs, ends = channels.GrpcFiles.from_environment(), {}, {}
journal = open("resource_manager.journal", "a+", buffering=1)  # noqa: PTH123, SIM115 till the end


async def obey(report, decision, at_us):  # a fact that is reported again is known by its id
    verdict, grant = decision.verdict, (decision.job_id, decision.grant)
    job, cut_us = grant not in ends and jobs.get(grant[0]), 0 if decision.is_void else at_us
    if verdict == placement_pb2.VERDICT_START and job and at_us <= (decision.start_by_us or at_us):
        ends[grant] = (at_us + RUN_US, jobs_pb2.JOB_OUTCOME_COMPLETED)
        nodes = [f"{CLUSTER}-{index:04d}" for index in decision.node_indices]
        await report(facts.started(SOURCE, decision, nodes, at_us))
        while time.time_ns() // 1000 < ends[grant][0]:  # noqa: ASYNC110 it may be cancelled
            await asyncio.sleep(0.05)
        if (end := ends[grant])[0]:  # else the run was void: it is not reported
            await report(facts.ended(SOURCE, job, decision, (at_us, end[0]), outcome=end[1]))
        print("ended", job.job_id, file=journal)
    elif verdict == placement_pb2.VERDICT_ACTION or (decision.grant and grant not in ends):
        no = facts.action_refused if verdict == placement_pb2.VERDICT_ACTION else facts.declined
        await report(no(SOURCE, decision, "it only sleeps, or this is too late", at_us))
    elif decision.grant and (decision.is_void or verdict == placement_pb2.VERDICT_CANCELLED):
        ends[grant] = min(ends[grant], (cut_us, jobs_pb2.JOB_OUTCOME_CANCELLED))


async def main(count, ingest_address, watch_address):
    lines, cursor = [line.split() for line in journal] if journal.seek(0) == 0 else [], ""
    print("begun", begun := int(lines[0][1]) if lines else time.time_ns() // 1000, file=journal)
    sender = ingest.FactSender(ingest.IngestClient(ingest_address, FILES, ingest.Patience()))
    cluster = control_pb2.ClusterDeclared(**HAS, **CLOCKS)
    async with asyncio.TaskGroup() as runs:
        runs.create_task(sender.run())
        runs.create_task(sender.tell(facts.fact(SOURCE, cluster, f"{CLUSTER}/{begun}", begun)))
        for key in (f"{SOURCE}/{number}/{begun}" for number in range(int(count))):
            jobs[key] = jobs_pb2.JobSubmitted(job_id=key, submitted_at_us=begun, attempt=1, **NEEDS)
            runs.create_task(sender.tell(facts.submitted(SOURCE, jobs[key])))
        for _, cursor, at_us, text in (line for line in lines if line[0] == "obeyed"):  # noqa: B007
            decision = placement_pb2.PlacementDecided.FromString(bytes.fromhex(text))
            runs.create_task(obey(sender.tell, decision, int(at_us)))
        request = decisions.of_clusters(SITE, [CLUSTER], cursor, from_earliest=True)
        async for decision, cursor in decisions.AsyncDecisionWatcher(watch_address, FILES, request):
            at_us, text = time.time_ns() // 1000, decision.SerializeToString().hex()
            print("obeyed", cursor, at_us, text, file=journal)
            runs.create_task(obey(sender.tell, decision, at_us))


asyncio.run(main(*sys.argv[1:]))
