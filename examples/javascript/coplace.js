// Speaks to Coplace: hands it facts, and hears its decisions.
import { setTimeout as sleep } from "node:timers/promises";
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const SCHEMAS = new URL("../../proto", import.meta.url).pathname;
const SERVICES = ["coplace/v1/ingest_service.proto", "coplace/v1/watch_service.proto"];
const AS = { includeDirs: [SCHEMAS], keepCase: true, longs: String, enums: String, defaults: true };
const ALIVE = { "grpc.keepalive_time_ms": 30_000, "grpc.keepalive_timeout_ms": 10_000 };
const FINAL = [3, 7, 11, 12]; // INVALID_ARGUMENT, PERMISSION_DENIED, OUT_OF_RANGE, UNIMPLEMENTED
const { IngestService, PlacementDecided, WatchService } = loadPackageDefinition(loadSync(SERVICES, AS)).coplace.v1;

export const encode = (decision) => Buffer.from(PlacementDecided.serialize(decision)).toString("hex");
export const decode = (text) => PlacementDecided.deserialize(Buffer.from(text, "hex"));

// What no second try changes ends the program.
async function pauseAfter(error) {
  console.error(error.message);
  if (FINAL.includes(error.code)) process.exit(1);
  await sleep(1000);
}

// Returns a function that reports facts, each until Kafka has it. One that is reported again has the same id.
export function reporter(address, source) {
  const ingest = new IngestService(address, credentials.createInsecure(), ALIVE); // createSsl with TLS
  return async (subject, time_us, payload) => {
    const event = { id: `${source}/${Object.keys(payload)[0]}/${subject}`, source, time_us, ...payload };
    const publish = () => new Promise((done) => ingest.Publish({ event }, done));
    for (let error = await publish(); error; error = await publish()) await pauseAfter(error);
  };
}

// Yields decisions without end, each with the cursor behind it, and goes on behind the last one after a break.
export async function* follow(address, clusters, cursor) {
  const watch = new WatchService(address, credentials.createInsecure(), ALIVE);
  for (;;) {
    try {
      for await (const next of watch.WatchDecisions({ clusters, cursor, from_earliest: !cursor })) {
        cursor = next.cursor;
        if (next.decision) yield [next.decision, cursor];
      }
    } catch (error) {
      await pauseAfter(error);
    }
  }
}
