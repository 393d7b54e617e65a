import { afterAll, expect, test } from "bun:test";
import { rtcServer, settled } from "../../harness/rtc.ts";
import { measuredCalls } from "./measured-calls.ts";
import { PROVOKED, type ProvokedCall, provokedCall, SAMPLE_MS } from "./provoked-causes.ts";

const ROUNDS = 20;

const server = await rtcServer({ RATE_LIMIT_TELEMETRY: 100_000 });
afterAll(server.close);
const { clock, node } = server;
const { measured, participants, serverBusy } = measuredCalls(server);

/** Plays a call through the whole server, and answers its verdict and what the participant was told meanwhile. */
async function play({ transport, samples }: ProvokedCall, identity: string) {
  const { roomId, subject, client, ack, token, stats, report } = await measured(identity, transport);
  let [line, joined] = [client, ack];
  const told = new Set<string>();
  const hear = () => {
    for (const { cause } of line.of("quality.explained")) told.add(String(cause));
  };
  const connectionId = `${identity}-1`;
  let missing = "";
  for (const sample of samples) {
    await serverBusy(sample.cpuPercent);
    if (sample.stalled) node.emit({ ...subject, type: "mediaStalled" });
    node.emit({ ...subject, type: "qualityChanged", quality: sample.quality });
    for (let n = 0; n < sample.reconnects; n++) {
      hear();
      line.cut();
      line = server.connect(token);
      const { sessionId, resumeToken } = joined;
      joined = await line.join({ connectionId, resume: { sessionId, resumeToken, lastSeq: 0 } });
    }
    clock.advance(SAMPLE_MS);
    stats(sample.stats);
    if (sample.limited) await report("participant_connection_quality_changed", sample.limited);
    if (sample.missingKeysOf.join() !== missing) {
      missing = sample.missingKeysOf.join();
      await report("participant_connection_quality_changed", { missingKeysOf: sample.missingKeysOf });
    }
    if (sample.deviceError) await report("error", { code: sample.deviceError });
    if (sample.stalled) node.emit({ ...subject, type: "mediaFlows" });
  }
  hear();
  await line.ask("room.leave");
  await settled();
  const left = (await participants(roomId)).filter((one) => one.identity === identity);
  return { verdict: left.at(-1)?.verdict, told: [...told] };
}

test.each(["none" as const, ...PROVOKED])(
  `[17] ${ROUNDS} calls of ${ROUNDS} with the same fault get the same verdict: %s`,
  async (cause) => {
    const wrong: string[] = [];
    for (let seed = 1; seed <= ROUNDS; seed++) {
      const { verdict, told } = await play(provokedCall(cause, seed), `${cause}-${seed}`);
      if (verdict?.cause !== cause) wrong.push(`seed ${seed}: ${JSON.stringify(verdict)}`);
      // A participant in a healthy call is told nothing; all others are told the cause while it lasts.
      if (cause === "none" ? told.length > 0 : !told.includes(cause)) wrong.push(`seed ${seed}: told ${told}`);
    }
    expect(wrong).toEqual([]);
  },
  60_000,
);
