import { afterAll, expect, test } from "bun:test";
import { type Frame, type RtcClient, rtcServer, settled } from "../harness/rtc.ts";

const server = await rtcServer({ RATE_LIMIT_VIEWER_TOKENS: 10_000, RATE_LIMIT_LIVE_STREAMS: 10_000 });
afterAll(server.close);
const { key, node, clock } = server;

type Creds = { rtc: { token: string; tokenId: string } };
type Signal = { streamId: string; status: string; viewerCount: number | null };

const signals: Signal[] = [];
server.runtime.bus.on("chatSignal", ({ signal }) => {
  if (signal.type === "stream.updated") signals.push(signal);
});
const signalsOf = (id: string) =>
  signals.filter(({ streamId }) => streamId === id).map(({ status, viewerCount }) => [status, viewerCount]);

const api = async (method: string, path: string, body?: unknown) =>
  (await server.call(method, `/v1/live-streams${path}`, { key, body })).body;

async function stream() {
  const { id, roomId } = await api("POST", "", { title: "t", hostIdentity: "host" });
  return { id: String(id), roomId: String(roomId) };
}

async function join(
  id: string,
  kind: "hosts" | "viewer-tokens",
  identity: string,
): Promise<RtcClient & { ack: Frame }> {
  const { rtc } = (await api("POST", `/${id}/${kind}`, { identity })) as unknown as Creds;
  const client = server.connect(rtc.token);
  const ack = await client.join();
  expect(ack.type).toBe("ack");
  return Object.assign(client, { ack });
}

/** The client's media is up, as the node tells it. */
async function connectMedia(client: { ack: Frame }, roomId: string, identity: string): Promise<void> {
  const participantId = String(client.ack.sessionId);
  node.emit({
    type: "participantConnected",
    roomId,
    participantId,
    identity,
    transport: "udp",
    remoteAddress: "",
    connectMs: 1,
  });
  await settled();
}

const camera = {
  id: "track-1",
  kind: "video",
  source: "camera",
  name: null,
  muted: false,
  simulcast: true,
  codec: "VP8",
} as const;

async function publish(client: { ack: Frame }, roomId: string, identity: string): Promise<void> {
  const participantId = String(client.ack.sessionId);
  node.emit({ type: "trackPublished", roomId, participantId, identity, track: camera });
  await settled();
}
const permissionsAt = (client: { ack: Frame }) =>
  node.peers().find(({ participantId }) => participantId === client.ack.sessionId)?.permissions;

test("[4.5] before the start a viewer waits in the room without a track or a packet", async () => {
  const { id, roomId } = await stream();
  const host = await join(id, "hosts", "host");
  await connectMedia(host, roomId, "host");
  await publish(host, roomId, "host");
  const early = await join(id, "viewer-tokens", "early");
  expect(early.ack.participants).toMatchObject([{ identity: "host", tracks: [] }]);
  expect(early.ack.permissions).toMatchObject({ subscribe: true, publish: false });
  // The node itself would refuse whatever the client asks for.
  expect(permissionsAt(early)).toMatchObject({ subscribe: false, publish: false });
  expect(permissionsAt(host)).toMatchObject({ subscribe: true, publish: true });

  const co = await join(id, "hosts", "co");
  expect(co.ack.participants).toMatchObject([{ identity: "host", tracks: [{ id: "track-1" }] }]);
  const participantId = String(host.ack.sessionId);
  node.emit({ type: "trackMuted", roomId, participantId, identity: "host", trackId: "track-1" });
  node.emit({ type: "speakersChanged", roomId, speakers: [{ identity: "host", level: 1 }] });
  await settled();
  expect(early.frames.filter(({ type }) => type.startsWith("track.") || type === "speakers.changed")).toEqual([]);
  expect(JSON.stringify(early.frames)).not.toContain("track-1");
  expect(co.of("track.muted")).toHaveLength(1);
});

test("[4.5] at the start waiting viewers get the tracks, and viewers who join later find them", async () => {
  const { id, roomId } = await stream();
  const host = await join(id, "hosts", "host");
  await connectMedia(host, roomId, "host");
  await publish(host, roomId, "host");
  const early = await join(id, "viewer-tokens", "early");
  await connectMedia(early, roomId, "early");
  await api("POST", `/${id}/start`);
  await settled();
  expect(early.of("track.published")).toMatchObject([{ identity: "host", track: { id: "track-1" } }]);
  expect(permissionsAt(early)).toMatchObject({ subscribe: true, publish: false });
  const late = await join(id, "viewer-tokens", "late");
  expect(late.ack.participants).toMatchObject([{ identity: "host", tracks: [{ id: "track-1" }] }]);
  expect(permissionsAt(late)).toMatchObject({ subscribe: true, publish: false });
  node.emit({
    type: "trackUnpublished",
    roomId,
    participantId: String(host.ack.sessionId),
    identity: "host",
    trackId: "track-1",
  });
  await settled();
  for (const viewer of [early, late]) expect(viewer.of("track.unpublished")).toHaveLength(1);
});

test("[4.5] a viewer cannot publish, before or after the start", async () => {
  const { id } = await stream();
  const viewer = await join(id, "viewer-tokens", "v");
  const offer = {
    sdp: "v=0",
    publish: [{ mid: "0", clientTrackId: "c", kind: "audio", source: "microphone" }],
    subscribe: [],
  };
  expect(await viewer.ask("media.offer", offer)).toMatchObject({ type: "error", code: "PERMISSION_DENIED" });
  await api("POST", `/${id}/start`);
  expect(await viewer.ask("media.offer", offer)).toMatchObject({ type: "error", code: "PERMISSION_DENIED" });
  expect(await viewer.ask("data.send", { payload: "x" })).toMatchObject({ type: "error", code: "PERMISSION_DENIED" });
});

test("[4.5] end sends bye with stream_ended to all participants, closes with 4410, and admits no one any more", async () => {
  const { id } = await stream();
  await api("POST", `/${id}/start`);
  const { rtc } = (await api("POST", `/${id}/viewer-tokens`, { identity: "late" })) as unknown as Creds;
  const everyone = [await join(id, "hosts", "host"), await join(id, "viewer-tokens", "v")];
  await api("POST", `/${id}/end`);
  await settled();
  for (const client of everyone) {
    expect(client.of("bye")).toMatchObject([{ reason: "stream_ended", action: "stop" }]);
    expect(client.closed).toEqual({ code: 4410, reason: "stream_ended" });
  }
  const late = server.connect(rtc.token);
  expect(await late.join()).toMatchObject({ type: "error", code: "ROOM_CLOSED" });
});

test("[4.5] viewerCount is the current number of viewers without hosts, and its peak is kept", async () => {
  const { id, roomId } = await stream();
  await join(id, "hosts", "host");
  await api("POST", `/${id}/start`);
  const callsBefore = node.calls.length;
  const viewers = [await join(id, "viewer-tokens", "a"), await join(id, "viewer-tokens", "b")];
  await connectMedia({ ack: viewers[0]?.ack ?? { type: "" } }, roomId, "a");
  expect(await api("GET", `/${id}`)).toMatchObject({ viewerCount: 2, peakViewerCount: 2 });
  // A snapshot of the room lists every viewer, so counting takes none.
  expect(node.calls.slice(callsBefore)).not.toContain("room");
  clock.advance(250);
  await settled();
  await viewers[0]?.ask("room.leave");
  expect(await api("GET", `/${id}`)).toMatchObject({ viewerCount: 1, peakViewerCount: 2 });
  const listed = (await server.call("GET", "/v1/live-streams?status=LIVE", { key })).body as unknown as {
    id: string;
  }[];
  expect(listed.find((one) => one.id === id)).toMatchObject({ viewerCount: 1, peakViewerCount: 2 });
  await api("POST", `/${id}/end`);
  expect(await api("GET", `/${id}`)).toMatchObject({ viewerCount: 0, peakViewerCount: 2 });
});

test("[4.5] viewerCount is null while the media server cannot be reached, and nothing fails", async () => {
  const { id } = await stream();
  await join(id, "viewer-tokens", "a");
  Object.assign(node, { reachable: false, remote: { connected: false } });
  expect(await api("GET", `/${id}`)).toMatchObject({ viewerCount: null, status: "CREATED" });
  expect(await api("POST", `/${id}/start`)).toMatchObject({ viewerCount: null, status: "LIVE" });
  Object.assign(node, { reachable: true, remote: undefined });
  expect(await api("GET", `/${id}`)).toMatchObject({ viewerCount: 1 });
});

test("[8] stream.updated reports start, end and every change of the count to the chat, a few times per second at most", async () => {
  const { id } = await stream();
  await join(id, "hosts", "host");
  await settled();
  await api("POST", `/${id}/start`);
  await settled();
  expect(signalsOf(id).at(-1)).toEqual(["LIVE", 0]);
  clock.advance(1000);
  await settled();
  const before = signalsOf(id).length;
  for (let n = 0; n < 30; n++) await join(id, "viewer-tokens", `v${n}`);
  await settled();
  clock.advance(250);
  await settled();
  clock.advance(250);
  await settled();
  expect(signalsOf(id).at(-1)).toEqual(["LIVE", 30]);
  expect(signalsOf(id).length - before).toBeLessThanOrEqual(3);
  await api("POST", `/${id}/end`);
  await settled();
  clock.advance(1000);
  await settled();
  expect(signalsOf(id).at(-1)).toEqual(["ENDED", 0]);
  expect(signalsOf(id).filter(([status]) => status === "ENDED")).toHaveLength(1);
});

test("[4.5] a removed co-host and a removed viewer are disconnected at once, with the reason", async () => {
  const { id } = await stream();
  await api("POST", `/${id}/start`);
  const co = await join(id, "hosts", "co");
  const troll = await join(id, "viewer-tokens", "troll");
  await server.call("DELETE", `/v1/live-streams/${id}/hosts/co`, { key });
  await server.call("DELETE", `/v1/live-streams/${id}/viewers/troll`, { key });
  await settled();
  for (const client of [co, troll]) {
    expect(client.of("bye")).toMatchObject([{ reason: "removed", action: "stop" }]);
    expect(client.closed?.code).toBe(4410);
  }
});
