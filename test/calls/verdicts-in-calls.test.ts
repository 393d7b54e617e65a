import { afterAll, expect, test } from "bun:test";
import type { TransportStats } from "../../src/protocol/media-node.ts";
import type { CallVerdict } from "../../src/protocol/room-records.ts";
import { rtcServer, settled } from "../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock, key, node } = server;

const QUIET: TransportStats = {
  ...{ transport: "udp", remoteAddress: "127.0.0.1", srtpProfile: null, rttMs: 30, jitterMs: 3 },
  ...{ packetLossPercent: 0, uplinkLossPercent: 0, downlinkLossPercent: 0, availableOutBps: 2_000_000 },
  ...{ bytesIn: 0, bytesOut: 0 },
};

type Participant = { identity: string; verdict: CallVerdict | null; leftAt: string | null };

async function participants(roomId: string): Promise<Participant[]> {
  const list = await server.call("GET", `/v1/calls?roomId=${roomId}`, { key });
  const [call] = JSON.parse(list.text) as { id: string }[];
  const { body } = await server.call("GET", `/v1/calls/${call?.id}`, { key });
  return (body as { participants: Participant[] }).participants;
}

const verdictOf = async (roomId: string, identity: string) =>
  (await participants(roomId)).find((one) => one.identity === identity)?.verdict;

/** Somebody in a room, of whom the media server tells. */
async function measured(identity: string) {
  const roomId = await server.room();
  const { token } = await server.mint(roomId, identity);
  const client = server.connect(token);
  await client.join({ connectionId: `${identity}-1` });
  const participantId = node.peers().find((peer) => peer.identity === identity)?.participantId ?? "";
  node.connect(participantId);
  await settled();
  const subject = { roomId, participantId, identity };
  const stats = (change: Partial<TransportStats>) =>
    node.emit({ ...subject, type: "transportStats", stats: { ...QUIET, ...change } });
  return { roomId, subject, client, token, stats };
}

const serverBusy = (cpuPercent: number) =>
  server.runtime.write((unit) =>
    server.services.fleet.beat(unit, "n1", { activeRooms: 1, activeParticipants: 1, cpuPercent }),
  );

test("[17] a verdict is shown while the call is on, and kept when its participant leaves", async () => {
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

test("[17] what a client says of its camera and its encoder counts for its own verdict alone", async () => {
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
});

test("[17] media that stalls, and a server that is overloaded, are named", async () => {
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
  expect((await verdictOf(busy.roomId, "lou"))?.cause).toBe("server_overload");
  await serverBusy(5);
});

test("[17] whoever is in a call is told why it has turned bad, once, and when that is over; nobody else is", async () => {
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
    sentence: expect.stringContaining("On the way to the participant"),
    evidence: { downlinkLossPercent: expect.any(Number) },
  });
  // An hour of good would have hidden it in the mean of the whole call.
  node.emit({ ...subject, type: "qualityChanged", quality: "excellent" });
  seconds(60, {});
  expect(told()).toEqual(["downlink_loss", "none"]);
  expect(bob.of("quality.explained")).toEqual([]);
});
