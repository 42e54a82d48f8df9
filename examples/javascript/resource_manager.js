// Manages resources over gRPC alone; killed at any time, it goes on by the cursor in its journal.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { decode, encode, follow, reporter } from "./coplace.js";

const [site, cluster, source, journal, RUN_US] = ["north", "example", "north/example", "resource_manager.journal", 1e6];
const [, , count, ingestAddress, watchAddress] = process.argv;
const [report, jobs, endsUs] = [reporter(ingestAddress, source), new Map(), new Map()];
const nowUs = () => Date.now() * 1000;
const keep = (...words) => appendFileSync(journal, `${words.join(" ")}\n`);

async function obey(decision, atUs) {
  const { verdict, job_id, attempt, grant } = decision;
  const [key, job, of] = [`${job_id}/${grant}`, jobs.get(job_id), { job_id, attempt, grant }];
  if (verdict === "VERDICT_START" && !endsUs.has(key) && job && atUs <= (Number(decision.start_by_us) || atUs)) {
    endsUs.set(key, atUs + RUN_US);
    await run(decision, job, of, atUs, key);
  } else if (verdict === "VERDICT_ACTION") {
    const refused = { ...of, number: decision.action.number, reason: "its jobs only sleep", refused_at_us: atUs };
    await report(`${job_id}/${attempt}/${refused.number}`, atUs, { job_action_refused: refused });
  } else if (grant > 0 && !endsUs.has(key)) {
    await report(key, atUs, { job_declined: { ...of, reason: "it is too late", declined_at_us: atUs } });
  } else if (grant > 0 && (decision.is_void || verdict === "VERDICT_CANCELLED")) {
    endsUs.set(key, decision.is_void ? 0 : Math.min(endsUs.get(key), atUs));
  }
}

async function run({ freq_ghz, node_indices, cores_per_node }, job, of, started_at_us, key) {
  const [{ user, account, submitted_at_us }, subject] = [job, `${of.job_id}/${of.attempt}`];
  const nodes = node_indices.map((index) => `${cluster}-${String(index).padStart(4, "0")}`);
  await report(subject, started_at_us, { job_started: { ...of, cluster, freq_ghz, nodes, started_at_us } });
  while (nowUs() < endsUs.get(key)) await sleep(50);
  const ended_at_us = endsUs.get(key);
  const outcome = ended_at_us < started_at_us + RUN_US ? "JOB_OUTCOME_CANCELLED" : "JOB_OUTCOME_COMPLETED";
  const times = { submitted_at_us, started_at_us, ended_at_us, outcome };
  const finished = { ...of, cluster, freq_ghz, ...times, nodes: nodes.length, cores_per_node, user, account };
  if (ended_at_us) await report(subject, ended_at_us, { job_finished: finished }); // else the run was void
  keep("ended", of.job_id);
}

const lines = existsSync(journal) ? readFileSync(journal, "utf8").split("\n").map((line) => line.split(" ")) : [];
const begunUs = Number(lines[0]?.[1] ?? nowUs());
keep("begun", begunUs);
const draws = { pstates_ghz: [2], idle_power_w: 100, peak_bandwidth_gbps: 100 };
const has = { cluster, site, node_model: "any", nodes: 16, cores_per_node: 8, ...draws };
const where = { reference_cluster: cluster, clusters: [cluster] }; // it starts no job elsewhere
const needs = { attempt: 1, user: "ada", account: "lab", nodes: 1, walltime_s: 60, ...where };
await report(`${cluster}/${begunUs}`, begunUs, { cluster_declared: has });
for (const job_id of Array.from({ length: Number(count) }, (_, number) => `${source}/${number}/${begunUs}`)) {
  jobs.set(job_id, { job_id, submitted_at_us: begunUs, ...needs });
}
(async () => { for (const job of jobs.values()) await report(`${job.job_id}/1`, begunUs, { job_submitted: job }); })();
const obeyed = lines.filter(([kind]) => kind === "obeyed");
for (const [, , atUs, text] of obeyed) obey(decode(text), Number(atUs));
for await (const [decision, cursor] of follow(watchAddress, { site, clusters: [cluster] }, obeyed.at(-1)?.[1] ?? "")) {
  const atUs = nowUs();
  keep("obeyed", cursor, atUs, encode(decision));
  obey(decision, atUs);
}
