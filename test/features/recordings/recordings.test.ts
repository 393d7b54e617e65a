import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RecordedFile } from "../../../src/protocol/media/recording.ts";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock, key, node } = server;
const session = await server.session({ projectId: server.projectId, role: "DEVELOPER" });
await server.call("POST", `/v1/projects/${server.projectId}/webhooks`, {
  key: session.token,
  body: { url: "https://example.com/hook" },
});

const call = async (method: string, path: string, body?: object) => server.call(method, path, { key, body });
const record = async (roomId: string, body: object = {}) => {
  const reply = await call("POST", `/v1/rooms/${roomId}/recordings`, body);
  return { status: reply.status, body: reply.body as unknown as Recording & { code?: string } };
};
const read = async (id: string) => (await call("GET", `/v1/recordings/${id}`)).body as unknown as Recording;
const rowOf = (publicId: string) =>
  server.runtime.db.$client
    .query<{ id: string }, [string]>("SELECT id FROM recordings WHERE public_id = ?")
    .get(publicId)?.id ?? "";
const hooks = (id: string) =>
  server.runtime.db.$client
    .query<{ type: string; body: string }, []>(
      "SELECT type, body FROM webhook_events WHERE type LIKE 'recording.%' ORDER BY seq",
    )
    .all()
    .filter(({ body }) => body.includes(id))
    .map(({ type }) => type);

/** The file that the node writes, of twelve bytes. */
function written(publicId: string, roomId: string, change: Partial<RecordedFile> = {}): RecordedFile {
  const recordingId = rowOf(publicId);
  const folder = join(server.runtime.config.DATA_DIR, "recordings", recordingId);
  const fileId = crypto.randomUUID();
  const file: RecordedFile = {
    fileId,
    fileName: `${fileId}.webm`,
    identity: "ada",
    trackId: "trk_1",
    kind: "audio",
    source: "microphone",
    codec: "opus",
    mimeType: "audio/webm",
    offsetMs: 40,
    durationMs: 2_000,
    bytes: 12,
    width: null,
    height: null,
    ...change,
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, file.fileName), "twelve bytes");
  node.emit({ type: "recordingFileStarted", roomId, recordingId, file });
  return file;
}

describe("[18] recordings", () => {
  test("a recording of an empty room begins with the first participant, and is complete when stopped", async () => {
    const roomId = await server.room();
    const begun = await record(roomId, { name: "standup" });
    expect(begun.status).toBe(201);
    expect(begun.body).toMatchObject({ roomId, name: "standup", status: "RECORDING", files: [], callId: null });
    expect(node.calls.filter((line) => line.includes(roomId))).toEqual([]);
    expect((await record(roomId)).body.code).toBe("SVC_CONFLICT");
    const ada = await server.joined(roomId, "ada");
    await settled();
    const recordingId = rowOf(begun.body.id);
    expect(node.calls).toContain(`startRecording ${roomId} ${recordingId}`);
    expect(ada.ack.room).toMatchObject({ recording: true });
    expect((await call("GET", `/v1/rooms/${roomId}`)).body).toMatchObject({ record: false, recording: true });
    const file = written(begun.body.id, roomId);
    await settled();
    clock.advance(3_000);
    const stopped = (await call("POST", `/v1/recordings/${begun.body.id}/stop`)).body as unknown as Recording;
    expect(stopped).toMatchObject({ status: "READY", durationMs: 3_000, bytes: 12, error: null });
    expect(stopped.files).toMatchObject([{ id: file.fileId, identity: "ada", offsetMs: 40, mimeType: "audio/webm" }]);
    expect(ada.of("recording.changed")).toMatchObject([{ active: false }]);
    expect((await call("POST", `/v1/recordings/${begun.body.id}/stop`)).body).toMatchObject({ status: "READY" });
    expect(hooks(begun.body.id)).toEqual(["recording.started", "recording.ready"]);
  });

  test("a recording without media is READY without files", async () => {
    const roomId = await server.room();
    const { body } = await record(roomId);
    expect((await call("POST", `/v1/recordings/${body.id}/stop`)).body).toMatchObject({ status: "READY", files: [] });
  });

  test("files are downloaded by signed address, whole or in ranges, until they are deleted", async () => {
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    const { body } = await record(roomId);
    await settled();
    const { fileId } = written(body.id, roomId);
    await settled();
    await call("POST", `/v1/recordings/${body.id}/stop`);
    const { url } = (await call("GET", `/v1/recordings/${body.id}/files/${fileId}/download-url`)).body as {
      url: string;
    };
    const get = (headers: Record<string, string> = {}, method = "GET") =>
      server.app.handle(new Request(url, { headers, method }));
    expect(await (await get()).text()).toBe("twelve bytes");
    const part = await get({ range: "bytes=7-11" });
    expect([part.status, part.headers.get("content-range"), await part.text()]).toEqual([
      206,
      "bytes 7-11/12",
      "bytes",
    ]);
    const head = await get({}, "HEAD");
    expect([head.status, head.headers.get("accept-ranges")]).toEqual([200, "bytes"]);
    // An interrupted download continues where it stopped, unless the file has changed.
    const resume = async (ifRange: string) => {
      const rest = await get({ range: "bytes=7-", "if-range": ifRange });
      return [rest.status, await rest.text()];
    };
    expect(await resume(head.headers.get("etag") ?? "")).toEqual([206, "bytes"]);
    expect(await resume('"another"')).toEqual([200, "twelve bytes"]);
    expect((await server.app.handle(new Request(url.replace(/expires=\d/, "expires=9")))).status).toBe(403);
    const folder = join(server.runtime.config.DATA_DIR, "recordings", rowOf(body.id));
    expect(existsSync(folder)).toBe(true);
    expect((await call("DELETE", `/v1/recordings/${body.id}`)).status).toBe(204);
    expect(existsSync(folder)).toBe(false);
    expect((await get()).status).toBe(403);
    expect((await call("GET", `/v1/recordings/${body.id}`)).body.code).toBe("SVC_RECORDING_NOT_FOUND");
  });

  test("a recording that cannot be written fails with the reason, and the call continues", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const { body } = await record(roomId);
    await settled();
    node.emit({
      type: "recordingFailed",
      roomId,
      recordingId: rowOf(body.id),
      reason: "ENOSPC: no space left on device",
    });
    await settled();
    expect(await read(body.id)).toMatchObject({ status: "FAILED", error: "ENOSPC: no space left on device" });
    expect(hooks(body.id)).toEqual(["recording.started", "recording.failed"]);
    expect(ada.closed).toBeNull();
    expect((await record(roomId)).status).toBe(201);
  });

  test("a room that records every call makes one recording per call, and none after it was stopped", async () => {
    const room = await call("POST", "/v1/rooms", { name: crypto.randomUUID(), record: true });
    const roomId = String(room.body.id);
    expect(room.body).toMatchObject({ record: true, recording: false });
    const list = async () => (await call("GET", `/v1/recordings?roomId=${roomId}`)).body as unknown as Recording[];
    /** The disk is asked for space first, and answers when it does. */
    const statuses = async (...wanted: string[]) => {
      while ((await list()).map(({ status }) => status).join() !== wanted.join()) await settled();
    };
    const ada = await server.joined(roomId, "ada");
    await statuses("RECORDING");
    const [first] = await list();
    expect(first?.callId).toMatch(/^call_/);
    expect((await call("GET", `/v1/calls/${first?.callId}`)).body.recordingIds).toEqual([first?.id]);
    await ada.ask("room.leave");
    await statuses("READY");
    clock.advance(1_000);
    await server.joined(roomId, "bob");
    await statuses("RECORDING", "READY");
    const [second] = await list();
    expect(second?.id).not.toBe(first?.id);
    await call("POST", `/v1/recordings/${second?.id}/stop`);
    await server.joined(roomId, "eve");
    await settled();
    expect((await list()).map(({ status }) => status)).toEqual(["READY", "READY"]);
  });

  test("the timeline has the events of a recording at their times", async () => {
    const roomId = await server.room();
    const { body } = await record(roomId);
    clock.advance(500);
    const ada = await server.joined(roomId, "ada");
    await settled();
    clock.advance(1_000);
    node.emit({ type: "speakersChanged", roomId, speakers: [{ identity: "ada", level: 0.5 }] });
    clock.advance(500);
    await ada.ask("room.leave");
    await settled();
    await call("POST", `/v1/recordings/${body.id}/stop`);
    const timeline = (await call("GET", `/v1/recordings/${body.id}/timeline`)).body as unknown as object[];
    expect(timeline).toEqual([
      { atMs: 500, type: "participant.joined", identity: "ada" },
      { atMs: 1_500, type: "speakers.changed", speakers: [{ identity: "ada", level: 0.5 }] },
      { atMs: 2_000, type: "participant.left", identity: "ada", reason: "left" },
    ]);
  });

  test("the timeline has messages, with texts for API keys only", async () => {
    const roomId = await server.room();
    const conversation = await call("POST", "/v1/chat/conversations", { name: `beside-${roomId}`, roomId });
    const say = async (text: string, senderId = "ada") =>
      (await call("POST", `/v1/chat/conversations/${conversation.body.id}/messages`, { text, senderId })).body.id;
    await say("before");
    clock.advance(1);
    const { body } = await record(roomId);
    const first = await say("at its start");
    clock.advance(500);
    await server.joined(roomId, "ada");
    await settled();
    clock.advance(250);
    await call("DELETE", `/v1/chat/messages/${await say("taken back")}`);
    const last = await say("at its end", "bob");
    await call("POST", `/v1/recordings/${body.id}/stop`);
    clock.advance(1);
    await say("after");
    const joined = { atMs: 500, type: "participant.joined", identity: "ada" };
    expect((await call("GET", `/v1/recordings/${body.id}/timeline`)).body as unknown).toEqual([
      { atMs: 0, type: "message", messageId: first, senderId: "ada", text: "at its start" },
      joined,
      { atMs: 750, type: "message", messageId: last, senderId: "bob", text: "at its end" },
    ]);
    const path = `/v1/projects/${server.projectId}/recordings/${body.id}/timeline`;
    expect((await server.call("GET", path, { key: session.token })).body as unknown).toEqual([
      { atMs: 0, type: "message", messageId: first, senderId: "ada" },
      joined,
      { atMs: 750, type: "message", messageId: last, senderId: "bob" },
    ]);
  });

  test("an interrupted recording has that status, and can be downloaded as far as it was written", async () => {
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    const { body } = await record(roomId);
    await settled();
    const { fileId } = written(body.id, roomId, { bytes: 5 });
    await settled();
    await server.services.recordings.recover();
    const found = await read(body.id);
    expect(found).toMatchObject({ status: "INTERRUPTED", bytes: 12, files: [{ id: fileId, bytes: 12 }] });
    expect(found.endedAt).not.toBeNull();
    expect(hooks(body.id)).toEqual(["recording.started", "recording.failed"]);
    expect((await call("GET", `/v1/rooms/${roomId}`)).body).toMatchObject({ recording: false });
  });

  test("other projects have no access, and a viewer cannot start, stop or download recordings", async () => {
    const roomId = await server.room();
    const { body } = await record(roomId);
    const other = await server.project();
    expect((await server.call("GET", `/v1/recordings/${body.id}`, { key: other.key })).status).toBe(404);
    const viewer = await server.session({ projectId: server.projectId, role: "VIEWER" });
    const path = `/v1/projects/${server.projectId}/recordings/${body.id}`;
    expect((await server.call("GET", path, { key: viewer.token })).status).toBe(200);
    expect((await server.call("POST", `${path}/stop`, { key: viewer.token })).status).toBe(403);
    expect((await server.call("DELETE", path, { key: viewer.token })).status).toBe(403);
    expect((await server.call("POST", `${path}/stop`, { key: session.token })).body).toMatchObject({ status: "READY" });
  });

  test("recordings stop at the longest duration, and are removed after their retention", async () => {
    const brief = await rtcServer({ RECORDING_MAX_MINUTES: 10, RECORDING_RETENTION_DAYS: 2 });
    const roomId = await brief.room();
    const made = await brief.call("POST", `/v1/rooms/${roomId}/recordings`, { key: brief.key, body: {} });
    brief.clock.advance(10 * 60_000 - 1);
    await settled();
    expect((await brief.call("GET", `/v1/recordings/${made.body.id}`, { key: brief.key })).body.status).toBe(
      "RECORDING",
    );
    brief.clock.advance(1);
    await settled();
    const get = () => brief.call("GET", `/v1/recordings/${made.body.id}`, { key: brief.key });
    expect((await get()).body).toMatchObject({ status: "READY", durationMs: 600_000 });
    brief.clock.advance(2 * 86_400_000);
    await brief.services.recordings.prune();
    expect((await get()).status).toBe(404);
    await brief.close();
  });
});
