import { afterAll, expect, test } from "bun:test";
import type { TransportStats } from "../../../src/protocol/media-node.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";
import { measuredCalls } from "./measured-calls.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock, node } = server;

const { measured, participants, serverBusy, verdictOf } = measuredCalls(server);

test("[17] a verdict is shown during the call, and kept when its participant leaves", async () => {
  const { roomId, subject, client, stats } = await measured("ada");
  stats({});
  expect(await verdictOf(roomId, "ada")).toMatchObject({ cause: "none", quality: "excellent" });
  node.emit({ ...subject, type: "qualityChanged", quality: "poor" });
  for (let n = 0; n < 5; n++) {
    clock.advance(5_000);
    stats({ packetLossPercent: 12, uplinkLossPercent: 12 });
  }
  expect(await verdictOf(roomId, "ada")).toMatchObject({ cause: "uplink_loss", quality: "poor" });
  await client.ask("room.leave");
  await settled();
  const [left] = await participants(roomId);
  expect(left?.leftAt).not.toBeNull();
  expect(left?.verdict).toMatchObject({ cause: "uplink_loss", quality: "poor", evidence: { uplinkLossPercent: 10 } });
});

test("[17] a client's report about its camera or encoder counts only for its own verdict", async () => {
  const device = await measured("dora");
  const slow = await measured("sam");
  const report = (token: string, body: object) => server.call("POST", "/v1/telemetry/events", { key: token, body });
  await report(device.token, { connectionId: "dora-1", type: "error", data: { code: "NotReadableError" } });
  const data = { limitation: "cpu", seconds: 20 };
  await report(slow.token, { connectionId: "sam-1", type: "participant_connection_quality_changed", data });
  expect((await verdictOf(device.roomId, "dora"))?.cause).toBe("device");
  expect((await verdictOf(slow.roomId, "sam"))?.cause).toBe("publisher_cpu");
  // A number that no encoder says is not believed.
  const made = await measured("max");
  const lie = { limitation: "cpu", seconds: -5 };
  await report(made.token, { connectionId: "max-1", type: "participant_connection_quality_changed", data: lie });
  expect((await verdictOf(made.roomId, "max"))?.cause).toBe("none");
  // Something else that went wrong is no word about a camera.
  await report(made.token, { connectionId: "max-1", type: "error", data: { code: "MEDIA_ERROR" } });
  expect((await verdictOf(made.roomId, "max"))?.cause).toBe("none");
});

test("[17] stalled media and an overloaded server are found as causes", async () => {
  const { roomId, subject } = await measured("stan");
  node.emit({ ...subject, type: "mediaStalled" });
  clock.advance(8_000);
  expect(await verdictOf(roomId, "stan")).toMatchObject({ cause: "media_stalled", evidence: { stalledMs: 8_000 } });
  node.emit({ ...subject, type: "mediaFlows" });
  clock.advance(60_000);
  expect(await verdictOf(roomId, "stan")).toMatchObject({ evidence: { stalledMs: 8_000 } });

  const busy = await measured("lou");
  await serverBusy(97);
  busy.stats({ downlinkLossPercent: 9 });
  // Once is a moment: what was measured has to last.
  expect((await verdictOf(busy.roomId, "lou"))?.cause).toBe("downlink_loss");
  clock.advance(5_000);
  busy.stats({ downlinkLossPercent: 9 });
  expect((await verdictOf(busy.roomId, "lou"))?.cause).toBe("server_overload");
  await serverBusy(5);

  // A node's load comes with each measurement: it is newer than the last heartbeat, and arrives even when heartbeats do not.
  const starved = await measured("sue");
  for (let n = 0; n < 2; n++) {
    clock.advance(5_000);
    starved.stats({ downlinkLossPercent: 9, serverBusyPercent: 99 });
  }
  expect((await verdictOf(starved.roomId, "sue"))?.cause).toBe("server_overload");
});

test("[17] an upload that becomes narrow late in a call is not mistaken for a lossy one", async () => {
  const { roomId, stats } = await measured("nora");
  const often = (count: number, change: Partial<TransportStats>) => {
    for (let n = 0; n < count; n++) {
      clock.advance(5_000);
      stats(change);
    }
  };
  often(8, { uplinkWaitMs: 5 });
  often(4, { packetLossPercent: 20, uplinkLossPercent: 20, uplinkWaitMs: 900, rttMs: 930 });
  expect(await verdictOf(roomId, "nora")).toMatchObject({
    cause: "uplink_narrow",
    evidence: { waitWhileLosingMs: 900 },
  });

  const lossy = await measured("lola");
  for (let n = 0; n < 4; n++) {
    clock.advance(5_000);
    lossy.stats({ packetLossPercent: 20, uplinkLossPercent: 20, uplinkWaitMs: 5 });
  }
  expect((await verdictOf(lossy.roomId, "lola"))?.cause).toBe("uplink_loss");
});

test("[17] if the call as a whole shows no cause, the cause of its bad last minutes is taken", async () => {
  const { roomId, subject, stats } = await measured("lars");
  const often = (count: number, change: Partial<TransportStats>) => {
    for (let n = 0; n < count; n++) {
      clock.advance(5_000);
      stats(change);
    }
  };
  often(12, { uplinkWaitMs: 5 });
  expect((await verdictOf(roomId, "lars"))?.cause).toBe("none");
  node.emit({ ...subject, type: "qualityChanged", quality: "poor" });
  often(8, { uplinkWaitMs: 900, rttMs: 930 });
  expect(await verdictOf(roomId, "lars")).toMatchObject({ cause: "uplink_narrow", quality: "poor" });
  // A long good time afterwards, and it is not what is remembered.
  node.emit({ ...subject, type: "qualityChanged", quality: "excellent" });
  often(120, { uplinkWaitMs: 5 });
  expect(await verdictOf(roomId, "lars")).toMatchObject({ cause: "none", quality: "excellent" });
});

test("[17] only the affected participant is notified, once, when its call turns bad and when that is over", async () => {
  const { roomId, subject, client, stats } = await measured("eve");
  const bob = await server.joined(roomId, "bob");
  const told = () => client.of("quality.explained").map(({ cause }) => cause);
  const seconds = (count: number, change: Partial<TransportStats>) => {
    for (let n = 0; n < count; n += 5) {
      clock.advance(5_000);
      stats(change);
    }
  };
  seconds(60, {});
  expect(told()).toEqual([]);
  node.emit({ ...subject, type: "qualityChanged", quality: "poor" });
  seconds(30, { packetLossPercent: 20, downlinkLossPercent: 20 });
  expect(told()).toEqual(["downlink_loss"]);
  expect(client.of("quality.explained")[0]).toMatchObject({
    sentence: expect.stringContaining("of the packets to the participant were lost"),
    evidence: { downlinkLossPercent: expect.any(Number) },
  });
  // An hour of good would have hidden it in the mean of the whole call.
  node.emit({ ...subject, type: "qualityChanged", quality: "excellent" });
  seconds(60, {});
  expect(told()).toEqual(["downlink_loss", "none"]);
  expect(bob.of("quality.explained")).toEqual([]);
});

test("[17] calls are listed with their worst verdict and filtered by it and by date", async () => {
  const { roomId, subject, client, stats } = await measured("vera");
  const from = new Date(clock.now()).toISOString();
  const { key } = server;
  const list = async (query: string) =>
    JSON.parse((await server.call("GET", `/v1/calls?roomId=${roomId}${query}`, { key })).text) as object[];
  const guest = await server.joined(roomId, "guest");
  stats({});
  await guest.ask("room.leave");
  await settled();
  expect(await list("")).toMatchObject([{ quality: "excellent", cause: "none", recordingIds: [] }]);
  node.emit({ ...subject, type: "qualityChanged", quality: "poor" });
  for (let n = 0; n < 5; n++) {
    clock.advance(5_000);
    stats({ packetLossPercent: 12, uplinkLossPercent: 12 });
  }
  const late = await server.joined(roomId, "late");
  await client.ask("room.leave");
  await late.ask("room.leave");
  await settled();
  // The last to leave was well, which does not improve the call.
  expect(await list("&quality=poor&cause=uplink_loss")).toMatchObject([{ quality: "poor", cause: "uplink_loss" }]);
  expect(await list("&quality=excellent")).toEqual([]);
  expect(await list("&cause=none")).toEqual([]);
  const until = new Date(clock.now()).toISOString();
  expect(await list(`&from=${from}&until=${until}`)).toHaveLength(1);
  expect(await list(`&from=${until}`)).toEqual([]);
  expect(await list(`&until=${from}`)).toEqual([]);
  expect((await server.call("GET", "/v1/calls?from=yesterday", { key })).status).toBe(400);
  expect((await server.call("GET", "/v1/calls?quality=fine", { key })).status).toBe(400);
});

type Measured = Awaited<ReturnType<typeof measured>>;

/** What a media node reports about a client that is gone, until the resume window is over. */
function silence({ subject }: Measured): void {
  clock.advance(5_000);
  node.emit({ ...subject, type: "mediaStalled" });
  node.emit({ ...subject, type: "qualityChanged", quality: "lost" });
  clock.advance(10_000);
  node.emit({ ...subject, type: "participantDisconnected", reason: "consent_timeout" });
  clock.advance(5_000);
}

async function goodCall(identity: string): Promise<Measured> {
  const call = await measured(identity);
  node.emit({ ...call.subject, type: "qualityChanged", quality: "excellent" });
  for (let n = 0; n < 6; n++) {
    clock.advance(5_000);
    call.stats({});
  }
  return call;
}

const GOOD = "No problems were measured during the call.";

/** The record of a participant's connection. */
async function connectionOf(identity: string) {
  await server.services.rtcSessions.recorder.flush();
  const { body } = await server.call("GET", `/v1/connections/${identity}-1`, { key: server.key });
  return body as { state: string; disconnectReason: string; errors: { code: string }[] };
}

test.each([1001, 1005])(
  "[24] closing the page (close code %d) counts as leaving: no bad verdict, no failure, no error",
  async (code) => {
    const identity = `closer${code}`;
    const call = await goodCall(identity);
    call.client.cut(code);
    silence(call);
    await settled();
    const [left] = await participants(call.roomId);
    expect(left).toMatchObject({ leaveReason: "left", quality: "excellent" });
    expect(left?.verdict).toEqual({ quality: "excellent", cause: "none", sentence: GOOD, evidence: {} });
    expect(await connectionOf(identity)).toMatchObject({ state: "DISCONNECTED", disconnectReason: "left", errors: [] });
  },
);

test("[24] a page that is closed before its media connects is no failure to connect", async () => {
  const roomId = await server.room();
  const { token } = await server.mint(roomId, "hasty");
  const client = server.connect(token);
  await client.join({ connectionId: "hasty-1" });
  const participantId = node.peers().find((peer) => peer.identity === "hasty")?.participantId ?? "";
  client.cut(1001);
  node.emit({ roomId, participantId, identity: "hasty", type: "participantFailed", reason: "ice_timeout" });
  clock.advance(20_000);
  expect(await connectionOf("hasty")).toMatchObject({ state: "DISCONNECTED", errors: [] });
});

test("[24] a network that goes away is a failure, and a call that was good until then stays good", async () => {
  const call = await goodCall("tina");
  call.client.cut();
  silence(call);
  await settled();
  const [left] = await participants(call.roomId);
  expect(left).toMatchObject({ leaveReason: "timeout", verdict: { quality: "excellent", cause: "none" } });
  const { state, errors } = await connectionOf("tina");
  expect([state, errors.map(({ code }) => code)]).toEqual(["FAILED", ["timeout"]]);
});

test("[24] measurements from the time without a socket count once the client is back", async () => {
  const call = await goodCall("rita");
  const { sessionId, resumeToken } = call.ack as never as { sessionId: string; resumeToken: string };
  call.client.cut();
  node.emit({ ...call.subject, type: "qualityChanged", quality: "lost" });
  clock.advance(15_000);
  expect((await verdictOf(call.roomId, "rita"))?.quality).toBe("excellent");
  const again = server.connect(call.token);
  await again.join({ connectionId: "rita-1", resume: { sessionId, resumeToken, lastSeq: 0 } });
  expect(await verdictOf(call.roomId, "rita")).toEqual({
    quality: "lost",
    cause: "none",
    evidence: {},
    sentence: "The connection was lost, and nothing was measured that explains it.",
  });
});
