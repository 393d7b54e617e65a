/** A media node that was taken over: it is trusted with its own media, and with nothing else. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { NodeFrameQueue } from "../../src/nodes/node-frame-queue.ts";
import { createNodeLinks } from "../../src/nodes/node-links.ts";
import { RemoteMedia } from "../../src/nodes/remote-media.ts";
import type { RecordedFile } from "../../src/protocol/media/recording.ts";
import type { RelayedData, RelayedTrack } from "../../src/protocol/media/relay.ts";
import { MEDIA_METHODS, MediaError, type MediaEvent, type MediaMethod } from "../../src/protocol/media-node.ts";
import type { Recording } from "../../src/protocol/recordings.ts";
import { type Api, createApi } from "../harness/api.ts";
import { fakeClock } from "../harness/clock.ts";
import { type RealServer, realServer } from "../harness/real-server.ts";
import { Member } from "../nodes/remote/member.ts";
import { until } from "../nodes/remote/until.ts";
import { foreign, HostileNode, MediaRefusal, malformed, SILENCE } from "./hostile-node.ts";

const LONG = 60_000;
const CANARY = "the secret of the control plane";
const dataDir = mkdtempSync(join(tmpdir(), "stoa-hostile-node-"));
const canary = join(dataDir, "canary.txt");

let server: RealServer;
/** A stage of another project, on a node that behaves. */
let bystander: Stage;
let honest: HostileNode;
let rogue: HostileNode;
const members: Member[] = [];

beforeAll(async () => {
  server = await realServer({
    DATA_DIR: dataDir,
    LOG_LEVEL: "silent",
    SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000,
    RATE_LIMIT_RTC_TOKENS: 10_000,
    SFU_HEARTBEAT_TIMEOUT_SECONDS: 3_600,
  });
  writeFileSync(canary, CANARY);
  honest = await node("honest");
  rogue = await node("rogue");
  bystander = await stage(await project(), "honest", "bob");
  const { fileId } = await record(honest, bystander);
  honest.files = () => partial("what bob said");
  honest.say({ type: "recordingFileEnded", ...bystander.recordingRef, file: fileOf(fileId, "bob") });
}, LONG);

afterEach(() => {
  rogue.answers = {};
  rogue.files = () => new Response("no such file", { status: 404 });
  for (const member of members.splice(0)) member.close();
});

afterAll(async () => {
  bystander.member.close();
  await rogue.close();
  await honest.close();
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
}, LONG);

async function node(name: string, rooms: unknown[] = []): Promise<HostileNode> {
  const { secret } = await server.runtime.write((unit) => server.services.nodeKeys.create(unit, name));
  return HostileNode.register({ url: server.url, name, secret, rooms });
}

/** The node of another operator, with a key of its own. */
async function project(): Promise<Api & { projectId: string }> {
  const { runtime, services, url } = server;
  return runtime.write((unit) => {
    const account = { email: `${crypto.randomUUID()}@example.com`, passwordHash: null, emailVerified: true };
    const owner = services.users.create(unit, { ...account, isOperator: false });
    const { id: projectId } = services.projects.create(unit, owner.id, { name: "bystander" });
    const { key } = services.apiKeys.create(unit, projectId, { name: "test", environment: "DEVELOPMENT" });
    return { ...createApi(url, key), projectId };
  });
}

type Stage = {
  api: Api;
  roomId: string;
  member: Member;
  participantId: string;
  /** The id by which both the API and the node name it. */
  publicId: string;
  recordingRef: { roomId: string; recordingId: string };
  read(): Promise<Recording>;
};

/** A room on that node, a participant in it, and a recording that the node was asked to make. */
async function stage(api: Api, region: string, identity: string): Promise<Stage> {
  const { id } = (await api.call("POST", "/v1/rooms", { name: crypto.randomUUID(), region })).body;
  const roomId = String(id);
  const { token } = await api.mint(roomId, identity);
  const member = new Member(server.url, token);
  const { serverName, sessionId } = await member.join();
  expect(serverName).toBe(region);
  const publicId = String((await api.call("POST", `/v1/rooms/${roomId}/recordings`, {})).body.id);
  const at = region === "rogue" ? rogue : honest;
  const request = await until(
    () => at.calls.findLast(({ method, request }) => method === "startRecording" && request.roomId === roomId)?.request,
  );
  const recordingRef = { roomId, recordingId: String(request.recordingId) };
  const read = async () => (await api.call("GET", `/v1/recordings/${publicId}`)).body as unknown as Recording;
  return { api, roomId, member, participantId: sessionId, publicId, recordingRef, read };
}

async function attacked(): Promise<Stage> {
  const made = await stage(server, "rogue", "ada");
  members.push(made.member);
  return made;
}

function fileOf(fileId: string, identity: string, changes: Partial<RecordedFile> = {}): RecordedFile {
  return {
    fileId,
    fileName: `${fileId}.webm`,
    identity,
    trackId: "trk_1",
    kind: "audio",
    source: "microphone",
    codec: "opus",
    mimeType: "audio/webm",
    offsetMs: 0,
    durationMs: 1_000,
    bytes: 13,
    width: null,
    height: null,
    ...changes,
  };
}

/** A file of that recording, as an honest node tells of it. */
async function record(at: HostileNode, { recordingRef, read }: Stage, identity = "bob"): Promise<RecordedFile> {
  const file = fileOf(crypto.randomUUID(), identity);
  at.say({ type: "recordingFileStarted", ...recordingRef, file });
  await until(async () => (await read()).files.some(({ id }) => id === file.fileId));
  return file;
}

function partial(text: string): Response {
  const headers = { "content-range": `bytes 0-${text.length - 1}/${text.length}` };
  return new Response(text, { status: 206, headers });
}

/** Resolves when everything that was sent has been read, because the answer to a request comes after it. */
async function heard({ api, roomId }: Stage): Promise<void> {
  const { answers } = rogue;
  rogue.answers = {};
  expect((await api.call("GET", `/v1/rooms/${roomId}/participants`)).status).toBe(200);
  rogue.answers = answers;
  await server.runtime.writer.drain();
}

async function download({ api, publicId }: Stage, fileId: string): Promise<Response> {
  const { body } = await api.call("GET", `/v1/recordings/${publicId}/files/${fileId}/download-url`);
  return typeof body.url === "string" ? fetch(body.url) : new Response(JSON.stringify(body), { status: 404 });
}

/** Files below the data directory with what is in them, apart from the database and what recordings of the rogue hold. */
function tree(): Record<string, string> {
  const found: Record<string, string> = {};
  for (const entry of readdirSync(dataDir, { recursive: true, withFileTypes: true })) {
    const path = relative(dataDir, join(entry.parentPath, entry.name));
    if (!entry.isFile() || /\.db(-wal|-shm)?$|\.sqlite|^recordings\//.test(path)) continue;
    found[path] = createHash("sha256")
      .update(readFileSync(join(dataDir, path)))
      .digest("hex");
  }
  return found;
}

/** Everything about the bystander that could have been changed. */
async function outside() {
  const { api, roomId, publicId, member, read } = bystander;
  const { durationMs: _, ...recording } = await read();
  return {
    room: (await api.call("GET", `/v1/rooms/${roomId}`)).body,
    participants: (await api.call("GET", `/v1/rooms/${roomId}/participants`)).body,
    timeline: (await api.call("GET", `/v1/recordings/${publicId}/timeline`)).body,
    recording,
    pushes: member.pushes.length,
    closed: member.client.closeCode,
    files: tree(),
    beside: readdirSync(tmpdir()).filter((name) => name.includes("canary")),
  };
}

async function refusals(why = ""): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const lines = text.matchAll(/^stoa_media_node_messages_refused_total\{reason="([^"]*)"\} (\d+)/gm);
  return [...lines].reduce((total, [, reason, count]) => total + (why === "" || why === reason ? Number(count) : 0), 0);
}

const NAMES = [
  "../../canary.txt",
  "../../../../../../../../etc/passwd",
  "/etc/passwd",
  canary,
  "..",
  ".",
  "",
  "..\\..\\canary.txt",
  "..%2f..%2fcanary.txt",
  "hls/../../../canary.txt",
  "ok.webm/../../../canary.txt",
  "../../canary.webm",
  "../other/file.webm",
  "file.webm\u0000.txt",
  "file.html",
  ".webm",
  `${"x".repeat(300)}.webm`,
];

describe("[18] a media node that turned hostile", () => {
  test(
    "names files that are not its own: none is read, written or deleted, whatever it answers",
    async () => {
      for (const answer of [() => new Response("gone", { status: 404 }), () => partial("written by the node")]) {
        const before = await outside();
        const target = await attacked();
        rogue.files = answer;
        for (const fileName of NAMES) {
          const file = fileOf(crypto.randomUUID(), "ada", { fileName });
          rogue.tell({ type: "recordingFileStarted", ...target.recordingRef, file });
          rogue.tell({ type: "recordingFileEnded", ...target.recordingRef, file });
          // The row is made only of names that this server chose.
          const own = { ...fileOf(crypto.randomUUID(), "ada"), recordingId: "x", id: "y", location: "disk" };
          rogue.tell({ type: "recordingProgress", ...target.recordingRef, files: [{ ...own, fileName }] });
        }
        await heard(target);
        await target.api.call("POST", `/v1/recordings/${target.publicId}/stop`);
        await server.services.recordings.locations.moveFiles();
        for (const { id } of (await target.read()).files)
          expect(await (await download(target, id)).text()).not.toContain(CANARY);
        expect((await target.read()).files).toEqual([]);
        expect(rogue.requests.filter((line) => line.includes("canary"))).toEqual([]);
        expect((await target.api.call("DELETE", `/v1/recordings/${target.publicId}`)).status).toBe(204);
        expect(readFileSync(canary, "utf8")).toBe(CANARY);
        expect(await outside()).toEqual(before);
      }
    },
    LONG,
  );

  test(
    "has left rows of an older build behind: they open, write and delete nothing outside their folder",
    async () => {
      const before = await outside();
      const target = await attacked();
      const { recordingId } = target.recordingRef;
      const insert = server.runtime.db.$client.prepare(
        `INSERT INTO recording_files (recording_id, id, file_name, identity, track_id, kind, source, codec, mime_type,
           offset_ms, duration_ms, bytes, width, height, location, server_name)
         VALUES (?, ?, ?, 'ada', 'trk_1', 'audio', 'microphone', 'opus', 'audio/webm', 0, 1, 1, NULL, NULL, ?, ?)`,
      );
      const rows = ["disk", "node"].flatMap((location) =>
        ["../../canary.txt", canary, "..", "../../made.webm"].map((fileName) => ({
          id: crypto.randomUUID(),
          fileName,
          location,
        })),
      );
      for (const { id, fileName, location } of rows)
        insert.run(recordingId, id, fileName, location, location === "node" ? "rogue" : null);
      rogue.files = () => partial("written by the node");
      await target.api.call("POST", `/v1/recordings/${target.publicId}/stop`);
      await server.services.recordings.locations.moveFiles();
      for (const { id } of rows) {
        const response = await download(target, id);
        expect([response.status >= 400, (await response.text()).includes(CANARY)]).toEqual([true, false]);
      }
      expect(await outside()).toEqual(before);
      expect((await target.api.call("DELETE", `/v1/recordings/${target.publicId}`)).status).toBe(204);
      expect(readFileSync(canary, "utf8")).toBe(CANARY);
      expect(await outside()).toEqual(before);
    },
    LONG,
  );

  test(
    "does not have the file that it wrote: it is lost, and nothing else is delivered in its place",
    async () => {
      const target = await attacked();
      const { fileId, fileName } = await record(rogue, target, "ada");
      const folder = join(dataDir, "recordings", target.recordingRef.recordingId);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, fileName), "something that lay there before");
      await target.api.call("POST", `/v1/recordings/${target.publicId}/stop`);
      await until(async () => (await target.read()).files[0]?.status === "LOST");
      expect((await target.read()).files).toMatchObject([{ id: fileId, status: "LOST", bytes: 0 }]);
      const { status, body } = await target.api.call(
        "GET",
        `/v1/recordings/${target.publicId}/files/${fileId}/download-url`,
      );
      expect([status, body.code]).toEqual([404, "SVC_RECORDING_FILE_NOT_FOUND"]);
    },
    LONG,
  );

  test(
    "answers for a file with redirects, foreign ranges, other lengths or no end: the file stays where it is",
    async () => {
      const reached: string[] = [];
      const elsewhere = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        fetch(request) {
          reached.push(request.url);
          return partial(CANARY);
        },
      });
      const endless = () => new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) });
      const range = (text: string) => ({ status: 206, headers: { "content-range": text } });
      const answers: (() => Response)[] = [
        ...[301, 302, 303, 307, 308].map(
          (status) => () => new Response(null, { status, headers: { location: `${elsewhere.url}` } }),
        ),
        () => new Response(null, { status: 302, headers: { location: `file://${canary}` } }),
        () => new Response("whole", { status: 200 }),
        () => new Response("denied", { status: 403 }),
        () => new Response("broken", { status: 500 }),
        () => new Response("no range", { status: 206 }),
        () => new Response("abc", range("bytes 5-7/8")),
        () => new Response("abc", range("bytes 0-2/-3")),
        () => new Response("abc", range(`bytes 0-2/${"9".repeat(30)}`)),
        () => new Response("longer than it says", range("bytes 0-2/3")),
        () => new Response(endless(), range("bytes 0-99/100")),
        () => new Response(endless(), range(`bytes 0-1/${2 ** 49}`)),
        () => new Response(null, { status: 416, headers: { "content-range": "bytes */x" } }),
      ];
      const target = await attacked();
      const { fileId } = await record(rogue, target, "ada");
      rogue.files = () => new Response("runs", { status: 423 });
      await target.api.call("POST", `/v1/recordings/${target.publicId}/stop`);
      for (const answer of answers) {
        rogue.files = answer;
        await server.services.recordings.locations.moveFiles();
        expect((await target.read()).files).toMatchObject([{ id: fileId, status: "PENDING" }]);
        expect((await download(target, fileId)).status).toBe(503);
      }
      expect(reached).toEqual([]);
      // An honest answer still brings it.
      rogue.files = () => partial("thirteen byte");
      await server.services.recordings.locations.moveFiles();
      expect((await target.read()).files).toMatchObject([{ id: fileId, status: "READY", bytes: 13 }]);
      expect(await (await download(target, fileId)).text()).toBe("thirteen byte");
      await elsewhere.stop(true);
    },
    LONG,
  );

  test(
    "never answers for its files: those of other nodes come all the same",
    async () => {
      const target = await attacked();
      const other = await stage(bystander.api, "honest", "bob");
      members.push(other.member);
      const delivered = honest.files;
      rogue.files = honest.files = () => new Response("runs", { status: 423 });
      await record(rogue, target, "ada");
      const { fileId } = await record(honest, other);
      for (const { api, publicId } of [target, other]) await api.call("POST", `/v1/recordings/${publicId}/stop`);
      const silent = Promise.withResolvers<void>();
      rogue.files = () => silent.promise.then(() => new Response("gone", { status: 404 }));
      honest.files = delivered;
      const run = server.services.recordings.locations.moveFiles();
      await until(async () => (await other.read()).files[0]?.status === "READY");
      expect(await (await download(other, fileId)).text()).toBe("what bob said");
      expect((await target.read()).files[0]?.status).toBe("PENDING");
      silent.resolve();
      await run;
      expect((await target.read()).files[0]?.status).toBe("LOST");
    },
    LONG,
  );
});

/** Every event of the protocol, about what the node was really given. */
function events({ recordingRef, participantId }: Stage): {
  [T in MediaEvent["type"]]: Extract<MediaEvent, { type: T }>;
} {
  const { roomId } = recordingRef;
  const of = { roomId, participantId, identity: "ada" };
  const track = {
    id: "trk_1",
    kind: "audio",
    source: "microphone",
    name: null,
    muted: false,
    simulcast: false,
    codec: "opus",
  } as const;
  const file = fileOf("file-1", "ada");
  const figures = {
    rttMs: 1,
    jitterMs: 1,
    packetLossPercent: 0,
    uplinkLossPercent: 0,
    downlinkLossPercent: 0,
    availableOutBps: 1,
  };
  const about = {
    fileId: "file-1",
    identity: "ada",
    trackId: "trk_1",
    source: "camera",
    width: 640,
    height: 360,
  } as const;
  const stats = {
    transport: "udp",
    remoteAddress: "10.0.0.1:5000",
    srtpProfile: null,
    ...figures,
    bytesIn: 1,
    bytesOut: 1,
  } as const;
  return {
    participantConnected: {
      type: "participantConnected",
      ...of,
      transport: "udp",
      remoteAddress: "10.0.0.1:5000",
      connectMs: 5,
    },
    participantDisconnected: { type: "participantDisconnected", ...of, reason: "consent_timeout" },
    participantReconnected: { type: "participantReconnected", ...of, transport: "udp", remoteAddress: "10.0.0.1:5000" },
    participantFailed: { type: "participantFailed", ...of, reason: "ice_timeout" },
    iceStateChanged: { type: "iceStateChanged", ...of, state: "checking" },
    dtlsStateChanged: { type: "dtlsStateChanged", ...of, state: "connecting" },
    trackPublished: { type: "trackPublished", ...of, track },
    recordingTrackOmitted: { type: "recordingTrackOmitted", ...recordingRef, identity: "ada", trackId: "trk_1" },
    trackUnpublished: { type: "trackUnpublished", ...of, trackId: "trk_1" },
    trackMuted: { type: "trackMuted", ...of, trackId: "trk_1" },
    trackUnmuted: { type: "trackUnmuted", ...of, trackId: "trk_1" },
    speakersChanged: { type: "speakersChanged", roomId, speakers: [{ identity: "ada", level: 0.5 }] },
    layersWanted: { type: "layersWanted", ...of, trackId: "trk_1", layers: ["low"] },
    codecsWanted: { type: "codecsWanted", ...of, trackId: "trk_1", codecs: ["VP8"] },
    subscriptionChanged: {
      type: "subscriptionChanged",
      ...of,
      trackId: "trk_1",
      layer: "low",
      paused: false,
      reason: "bandwidth",
    },
    recordingFileStarted: { type: "recordingFileStarted", ...recordingRef, file },
    recordingFileEnded: { type: "recordingFileEnded", ...recordingRef, file },
    recordingProgress: { type: "recordingProgress", ...recordingRef, files: [file] },
    recordingPart: {
      type: "recordingPart",
      ...recordingRef,
      part: {
        ...about,
        kind: "video",
        codecs: "avc1.42e01f",
        head: "AAAA",
        data: "AAAA",
        atMs: 0,
        durationMs: 500,
        independent: true,
        beginsSegment: true,
        endsSegment: false,
      },
    },
    recordingFeed: {
      type: "recordingFeed",
      ...recordingRef,
      feed: { ...about, atMs: 0, keyframe: true, begins: true, data: "AAAA" },
    },
    recordingNotStreamable: { type: "recordingNotStreamable", ...recordingRef, identity: "ada", codec: "vp8" },
    recordingSlow: { type: "recordingSlow", ...recordingRef },
    recordingEnded: { type: "recordingEnded", ...recordingRef },
    recordingFailed: { type: "recordingFailed", ...recordingRef, reason: "the disk is full" },
    voicesChanged: { type: "voicesChanged", ...of, voices: { "3": "mallory" } },
    qualityChanged: { type: "qualityChanged", ...of, quality: "good" },
    mediaStalled: { type: "mediaStalled", ...of },
    mediaFlows: { type: "mediaFlows", ...of },
    dataDropped: { type: "dataDropped", ...of, messages: 1, reason: "rate_limited" },
    relayedDataDropped: {
      type: "relayedDataDropped",
      roomId,
      from: "ada",
      messages: 1,
      reason: "slow_reader",
      reader: "ben",
    },
    relayedDataBehind: { type: "relayedDataBehind", roomId, from: "ada", reader: "ben", bytes: 1 },
    requestAnswered: { type: "requestAnswered", ...of, requestId: "r", packet: "AA==" },
    dataBehind: { type: "dataBehind", ...of, reader: "ben", bytes: 1 },
    transportStats: { type: "transportStats", ...of, stats },
    data: { type: "data", roomId, from: "ada", topic: "t", payload: "hello", recipients: [participantId] },
    workerCrashed: {
      type: "workerCrashed",
      worker: 0,
      rooms: [{ roomId: crypto.randomUUID(), participantIds: [participantId] }],
    },
    linkChanged: { type: "linkChanged", linkId: "l", state: "up", rttMs: 1 },
    relayOffered: { type: "relayOffered", track: relayedTrack(roomId, "ada") },
    relayMuted: { type: "relayMuted", roomId, linkId: "l", trackId: "trk_1", muted: true },
    relayEnded: { type: "relayEnded", roomId, linkId: "l", trackId: "trk_1" },
    relayData: { type: "relayData", data: relayedData(roomId, "ada") },
    roomsFound: { type: "roomsFound", rooms: [], links: [] },
  };
}

function relayedTrack(roomId: string, identity: string): RelayedTrack {
  const codec = { codec: "VP8" as const, payloadType: 96, rtxPayloadType: 97, clockRate: 90_000, nack: true };
  return {
    roomId,
    linkId: "l",
    trackId: "trk_1",
    identity,
    clientTrackId: "c",
    mid: "0",
    name: null,
    muted: false,
    kind: "video",
    source: "camera",
    codecs: [{ ...codec, variant: "", profile: "" }],
    payloadType: 96,
    layers: [{ rid: null, ssrc: 1, repairSsrc: 2 }],
  };
}

function relayedData(roomId: string, from: string | null): RelayedData {
  return {
    roomId,
    from,
    kind: "reliable",
    delivery: { from, payload: "forged" },
    packet: "AAAA",
    size: 6,
    isStreamPart: false,
    to: null,
  };
}

const EVENT_TYPES = Object.keys(events({ recordingRef: {} } as Stage)) as MediaEvent["type"][];

describe("[18] a hostile media node sends every event with ids of others", () => {
  test.each(EVENT_TYPES)(
    "%s: nothing of others changes, and the server continues",
    async (type) => {
      const target = await attacked();
      const before = await outside();
      const refused = await refusals();
      const event = events(target)[type];
      const { fileId = "" } = honest.calls.length > 0 ? { fileId: (await bystander.read()).files[0]?.id } : {};
      const theirs = {
        roomId: bystander.roomId,
        participantId: bystander.participantId,
        identity: "bob",
        recordingId: bystander.recordingRef.recordingId,
        fileId,
        from: "bob",
      };
      for (const variant of foreign(event, theirs)) rogue.tell(variant);
      const recipients = { recipients: [bystander.participantId], participantIds: [bystander.participantId] };
      rogue.tell({ ...event, ...recipients });
      rogue.tell({ ...event, roomId: bystander.roomId, ...recipients });
      rogue.tell({ ...event, rooms: [{ roomId: bystander.roomId, ...recipients, participants: [] }] });
      for (const variant of malformed(event)) rogue.tell(variant);
      for (const variant of [null, [], "text", 7, { type }, { type: "constructor" }, { type: "__proto__" }])
        rogue.tell(variant);
      await heard(target);
      expect(await outside()).toEqual(before);
      expect(await refusals()).toBeGreaterThan(refused);
      // What the node may report about its own room is shown as the API describes.
      const own = await target.read();
      for (const { mimeType, trackId } of own.files)
        expect([/^(?:audio|video)\/(?:webm|mp4)$/.test(mimeType), trackId !== ""]).toEqual([true, true]);
      const timeline = await target.api.call("GET", `/v1/recordings/${target.publicId}/timeline`);
      expect(timeline.status).toBe(200);
      expect((await target.api.call("DELETE", `/v1/recordings/${target.publicId}`)).status).toBe(204);
      expect(await outside()).toEqual(before);
      expect(readFileSync(canary, "utf8")).toBe(CANARY);
      // Another participant joins a room of that node, as ever.
      const { token } = await target.api.mint(target.roomId, "eve");
      const eve = new Member(server.url, token);
      members.push(eve);
      await eve.join();
    },
    LONG,
  );

  test(
    "malformed frames: the connection and all participants are unaffected",
    async () => {
      const target = await attacked();
      const before = await outside();
      const frames = [
        { type: "pong" },
        { type: "event", seq: 1, event: events(target).mediaStalled },
        { type: "answer", seq: 1, id: 1, response: null },
        { type: "error", seq: 1, id: 1, code: null, message: "no" },
      ];
      for (const frame of frames) for (const variant of malformed(frame)) rogue.send(variant);
      const texts = [
        "",
        "{",
        "null",
        "[]",
        "1",
        '"text"',
        "\u0000",
        "[".repeat(500_000),
        `{"type":"${"x".repeat(1_000_000)}"}`,
      ];
      for (const text of [...texts, '{"type":"__proto__"}', '{"type":"toString"}']) rogue.raw(text);
      rogue.raw(new Uint8Array([0, 1, 2, 255]));
      for (const code of ["UNKNOWN", "ROOM_NOT_FOUND", null])
        rogue.send({ type: "error", seq: 9, id: 1e9, code, message: "x" });
      await heard(target);
      expect(await outside()).toEqual(before);
    },
    LONG,
  );

  test(
    "events of a room that it shares with another node: the other node's participants do not change",
    async () => {
      const target = await attacked();
      const { roomId } = target;
      const { token } = await target.api.mint(roomId, "zoe", { region: "honest" });
      const zoe = new Member(server.url, token);
      members.push(zoe);
      expect((await zoe.join()).serverName).toBe("honest");
      const relays = (at: HostileNode, method: string) =>
        at.calls.flatMap(({ method: called, request }) =>
          called === "relay" && request.method === method ? [request.request as Record<string, unknown>] : [],
        );
      const shared = ({ roomId: id }: Record<string, unknown>) => id === roomId;
      const { linkId = "" } = (await until(() => relays(honest, "shareRoom").find(shared))) as { linkId?: string };
      const track = (identity: string, changes = {}) => ({ ...relayedTrack(roomId, identity), linkId, ...changes });
      const camera = { id: "trk_zoe", kind: "video", source: "camera", name: null, muted: false, simulcast: false };
      const zoes = { roomId, participantId: zoe.client.ack?.sessionId ?? "", identity: "zoe" };
      honest.say({ type: "trackPublished", ...zoes, track: { ...camera, codec: "VP8" } as never });
      honest.say({ type: "relayOffered", track: track("zoe", { trackId: "trk_zoe" }) });
      await until(() => relays(rogue, "addRelayed").find(({ trackId }) => trackId === "trk_zoe"));
      const [calls, pushes] = [honest.calls.length, zoe.pushes.length];
      const forged = { roomId, linkId, trackId: "trk_zoe" };
      const ada = { roomId, participantId: target.participantId, identity: "ada" };
      for (const event of [
        // A track that belongs to the other node or does not exist, or that comes by a link that the node does not have.
        { type: "relayOffered", track: track("ada", { trackId: "trk_zoe" }) },
        { type: "relayOffered", track: track("zoe") },
        { type: "relayOffered", track: track("ada", { roomId: bystander.roomId }) },
        { type: "relayOffered", track: track("ada", { linkId: "another" }) },
        { type: "trackPublished", ...ada, track: { ...camera, codec: "VP8" } },
        { type: "relayMuted", ...forged, muted: true },
        { type: "relayEnded", ...forged },
        // In the name of the backend, or of a participant of the other node.
        { type: "relayData", data: relayedData(roomId, null) },
        { type: "relayData", data: relayedData(roomId, "zoe") },
        { type: "relayData", data: { ...relayedData(roomId, "ada"), delivery: { from: "zoe", payload: "forged" } } },
        // About a reader of the other node.
        { type: "relayedDataBehind", roomId, from: "zoe", reader: "zoe", bytes: 2_000_000 },
        { type: "relayedDataDropped", roomId, from: "zoe", reader: "zoe", messages: 1, reason: "slow_reader" },
        { type: "workerCrashed", worker: 0, rooms: [{ roomId, participantIds: [zoes.participantId], remains: true }] },
        { type: "speakersChanged", roomId: bystander.roomId, speakers: [{ identity: "zoe", level: 1 }] },
        { type: "trackUnpublished", ...zoes, trackId: "trk_zoe" },
      ])
        rogue.tell(event);
      await heard(target);
      const after = honest.calls.slice(calls).filter(({ method }) => method === "relay");
      // The rogue has said that it lost the worker of the room, so the room is linked to it again.
      const methods = after.map(({ request }) => String(request.method));
      for (const method of ["addRelayed", "muteRelayed", "removeRelayed", "deliverRelayed"])
        expect(methods).not.toContain(method);
      expect(zoe.pushes.slice(pushes).filter(({ type }) => type !== "participant.joined")).toEqual([]);
      expect(zoe.client.closeCode).toBeNull();
      // Reports about its own participant do reach the other node.
      const own = relays(honest, "deliverRelayed").length;
      const relink = await until(() => relays(honest, "shareRoom").findLast(shared));
      await until(() => {
        rogue.tell({ type: "relayData", data: relayedData(roomId, "ada") });
        return Bun.sleep(20).then(() => relays(honest, "deliverRelayed").length > own);
      });
      expect(relink.roomId).toBe(roomId);
    },
    LONG,
  );

  test(
    "that it has rooms of others: none is taken over, and the node is told to close them",
    async () => {
      const api = await project();
      const roomId = await api.room();
      const { tokenId } = await api.mint(roomId, "carol");
      const { projectId } = api;
      const client = { ipAddress: "10.0.0.1", userAgent: null, sdk: null, openedAt: Date.now() };
      const permissions = {
        join: true,
        subscribe: true,
        publish: true,
        publishAudio: true,
        publishVideo: true,
        publishData: true,
        updateMetadata: true,
      };
      const record = JSON.stringify({
        projectId,
        environment: "DEVELOPMENT",
        connectionId: "forged",
        tokenId,
        joinedAt: Date.now(),
        resumeToken: "known to the node",
        permissions,
        metadata: null,
        client,
        headless: false,
        profile: { name: null, attributes: {}, kind: "standard" },
        hidden: false,
      });
      const { stats } = events(await attacked()).transportStats;
      const participant = {
        participantId: crypto.randomUUID(),
        identity: "carol",
        state: "connected",
        permissions,
        quality: null,
        tracks: [],
        subscriptions: [],
        transport: stats,
      };
      // A record that it was given for its own participant is not valid for any other.
      const given = rogue.last("addParticipant").record;
      const claims = [undefined, record, given, "", "x".repeat(100)].map((claimed) => ({
        roomId,
        participants: [{ ...participant, record: claimed }],
      }));
      const before = await outside();
      for (const [index, claim] of claims.entries()) {
        const liar = await node(`liar-${index}`, [claim, { roomId: bystander.roomId, participants: [participant] }]);
        await until(() => liar.calls.filter(({ method }) => method === "closeRoom").length === 2);
        expect((await api.call("GET", `/v1/rooms/${roomId}/participants`)).body).toEqual([] as never);
        await liar.close();
      }
      expect(await outside()).toEqual(before);
    },
    LONG,
  );

  test.each([
    ["events of others", (target: Stage) => ({ ...events(target).mediaStalled, roomId: bystander.roomId })],
    ["invalid events", () => ({ type: "mediaStalled" })],
  ])(
    "a node that sends %s without end is disconnected, and the server continues",
    async (_, eventOf) => {
      const target = await attacked();
      const before = await outside();
      const flooder = await node(`flooder-${crypto.randomUUID()}`);
      const event = eventOf(target);
      const refused = await refusals("flood");
      const frame = JSON.stringify({ type: "event", seq: 1, event });
      for (let n = 0; n < 40_000 && flooder.isConnected; n++) flooder.raw(frame);
      await until(() => !flooder.isConnected);
      expect(await refusals("flood")).toBe(refused + 1);
      expect(await outside()).toEqual(before);
      await flooder.close();
    },
    LONG,
  );

  test("the participant records that it keeps reveal neither resume tokens nor addresses", async () => {
    const { member } = await attacked();
    const { resumeToken = "missing" } = member.client.ack ?? {};
    const { record } = rogue.last("addParticipant");
    expect(String(record).length).toBeGreaterThan(100);
    for (const text of [String(record), Buffer.from(String(record), "base64url").toString("latin1")]) {
      expect(text).not.toContain(resumeToken);
      expect(text).not.toContain("127.0.0.1");
    }
  });
});

test("[18] nothing is sent to invalid addresses that a media node names for its links", async () => {
  const opened: { peer: { addresses: string[] } }[] = [];
  const site = (serverName: string, addresses: string[]) => ({
    serverName,
    node: {
      linkPoint: async () => ({ worker: 0, publicKey: "A".repeat(43), addresses, port: 9 }),
      relay: async ({ method, request }: { method: string; request: never }) => {
        if (method === "openLink") opened.push(request);
      },
    } as never,
  });
  const links = createNodeLinks({ split() {}, hasTrack: () => true });
  const hostile = [
    "224.0.0.1",
    "255.255.255.255",
    "169.254.169.254",
    "0.0.0.0",
    "::",
    "ff02::1",
    "fe80::1",
    "999.1.1.1:",
  ];
  links.share("r", [site("honest", ["10.0.0.1"])], site("rogue", [...hostile, "10.0.0.2"])).catch(() => {});
  await until(() => opened.length === 2);
  expect(opened.map(({ peer }) => peer.addresses)).toEqual([["10.0.0.2"], ["10.0.0.1"]]);
});

test("[18] over time, a media node with expensive frames uses at most a quarter of the main thread", async () => {
  const clock = fakeClock(0);
  const [frames, frameMs, burstMs] = [100, 50, 1_000];
  // The clock advances while a frame is read, which a timer's own callback may not do.
  const timers = { after: (ms: number, run: () => void) => clock.after(ms, () => setImmediate(run)) };
  const queue = new NodeFrameQueue({ timers, clock: clock.now });
  let [read, pauses] = [0, 0];
  const reader = queue.reader({
    receive: () => {
      read++;
      clock.advance(frameMs);
    },
    overflowed: () => {
      throw new Error("an honest number of frames overflows");
    },
  });
  for (let n = 0; n < frames; n++) reader.push("{}");
  while (read < frames) {
    const before = read;
    await new Promise((resolve) => setImmediate(resolve));
    if (read > before) continue;
    // The frame waits for the node's share of the thread.
    clock.advance(10);
    pauses++;
  }
  expect(pauses).toBeGreaterThan(0);
  // The last frame may begin before its time is available.
  expect(clock.now()).toBeGreaterThanOrEqual(((frames - 1) * frameMs - burstMs) / 0.25);
});

describe("[18] a hostile media node answers", () => {
  const ref = { roomId: "r", participantId: "p", identity: "ada" };
  const requests = {
    openRoom: { roomId: "r" },
    closeRoom: { roomId: "other" },
    addParticipant: { ...ref, permissions: {} },
    removeParticipant: { ...ref, participantId: "other" },
    setPermissions: { ...ref, permissions: {} },
    negotiate: { ...ref, sdp: "v=0" },
    updateSubscriptions: { ...ref, tracks: [] },
    setTrackMuted: { ...ref, trackId: "t", muted: true },
    unpublish: { ...ref, trackId: "t" },
    sendData: { roomId: "r", from: null, payload: "x" },
    startRecording: { roomId: "r", recordingId: "rec", directory: "", startedAtMs: 0, audioOnly: false },
    stopRecording: { roomId: "r", recordingId: "rec" },
    setNetwork: { roomId: "r", identity: "ada", profile: "none" },
    limitDownlink: { ...ref, bitsPerSecond: 100_000 },
    flight: ref,
    room: { roomId: "r" },
    rooms: undefined,
    load: undefined,
    linkPoint: { roomId: "r" },
    relay: { method: "shareRoom", request: { roomId: "r", linkId: "l" } },
  } satisfies Record<MediaMethod, object | undefined>;
  /** A valid answer for each method that has a result. */
  const right: Partial<Record<MediaMethod, unknown>> = {
    negotiate: { sdp: "v=0\r\n", tracks: [{ clientTrackId: "c", trackId: "t" }] },
    flight: { version: 1, sinceMs: 0, lastedMs: 1, streams: [], received: [[1]], sent: [], rtcp: [], states: [] },
    room: { roomId: "r", participants: [] },
    rooms: [{ roomId: "r", participants: 1 }],
    linkPoint: { worker: 0, publicKey: "A".repeat(43), addresses: ["192.0.2.1"], port: 1 },
    load: {
      rooms: 0,
      participants: 0,
      cpuPercent: null,
      memoryPercent: 1,
      networkInBps: 0,
      networkOutBps: 0,
      packetsIn: 0,
      packetsOut: 0,
      nacksIn: 0,
      nacksOut: 0,
      keyframesIn: 0,
      keyframesOut: 0,
      refused: {},
    },
  };

  test.each([...MEDIA_METHODS])(
    "%s with any value: the result is valid, or an error",
    async (method) => {
      const at = new HostileNode();
      const refused: string[] = [];
      const media = new RemoteMedia({
        serverName: "n",
        internalUrl: at.url,
        secret: "a-secret-of-the-fleet",
        term: 0,
        timers: systemTimers,
        log: createLog({ level: "silent", format: "json" }),
        onRefused: (reason) => void refused.push(reason),
      });
      await media.settled;
      const ask = () => (media[method] as (request: unknown) => Promise<unknown>).call(media, requests[method]);
      if (method !== "openRoom") await media.openRoom({ roomId: "r" });
      for (const code of ["ROOM_NOT_FOUND", "NO_SUCH_CODE", null]) {
        at.answers[method] = () => new MediaRefusal({ code, message: `bad\u001b[2J${"x".repeat(10_000)}` });
        const error: unknown = await ask().then(
          () => null,
          (reason) => reason,
        );
        expect(error).toBeInstanceOf(MediaError);
        expect((error as MediaError).message).toMatch(/^bad \[2Jx{1,500}$/);
      }
      const garbage = [null, [], {}, "text", 7, true, { sdp: 1 }, [{ roomId: 1 }], { roomId: "r", participants: [{}] }];
      const honest = right[method];
      for (const response of [...garbage, ...(honest === undefined ? [] : malformed(honest))]) {
        at.answers[method] = () => response;
        const answer = await ask().catch((error) => error);
        if (answer instanceof Error) expect(answer).toBeInstanceOf(MediaError);
        else if (honest === undefined) expect(answer).toBeUndefined();
        else if (answer !== null) expect(shapeOf(answer)).toEqual(shapeOf(honest));
      }
      expect(refused.length > 0).toBe(honest !== undefined);
      await media.close();
      await at.close();
    },
    LONG,
  );

  /** Names and kinds of values, as far as an answer always has them. */
  function shapeOf(value: unknown): unknown {
    if (value === null) return "null or number";
    if (Array.isArray(value)) return "list";
    if (typeof value === "number") return "null or number";
    if (typeof value !== "object") return typeof value;
    const { refused: _, ...named } = value as Record<string, unknown>;
    return Object.fromEntries(
      Object.entries(named)
        .map(([name, inner]) => [name, shapeOf(inner)] as const)
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    );
  }

  test(
    "a node that does not answer openRoom loses the room to another node",
    async () => {
      rogue.answers.openRoom = () => SILENCE;
      const { body } = await server.call("POST", "/v1/rooms", { name: crypto.randomUUID(), region: "rogue" });
      const { token } = await server.mint(String(body.id), "ada");
      const member = new Member(server.url, token);
      members.push(member);
      expect((await member.join()).serverName).not.toBe("rogue");
      expect(existsSync(canary)).toBe(true);
    },
    LONG,
  );
});
