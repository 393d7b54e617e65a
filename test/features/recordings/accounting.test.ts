/** The records about recordings besides their files: who did what, how much space and how many minutes they took. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RecordedFile } from "../../../src/protocol/media/recording.ts";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";

const QUOTA = 1_000;
const server = await rtcServer({ STORAGE_MAX_PROJECT_BYTES: QUOTA });
afterAll(server.close);
const { clock, key, node, projectId } = server;
const owner = await server.session({ projectId, role: "OWNER" });

const call = (method: string, path: string, body?: object) => server.call(method, path, { key, body });
const read = async (id: string) => (await call("GET", `/v1/recordings/${id}`)).body as unknown as Recording;
const used = () =>
  server.runtime.db.$client
    .query<{ bytes: number }, [string]>("SELECT bytes FROM storage_usage WHERE project_id = ? AND user_id = ''")
    .get(projectId)?.bytes ?? 0;
const usage = async () =>
  (await server.call("GET", `/v1/projects/${projectId}/usage?days=1`, { key: owner.token })).body as unknown as {
    recordedMinutes: number;
    daily: { recordedMinutes: number }[];
  };

/** A recorded room with a participant, and what its node reports of the file. */
async function begun() {
  const roomId = await server.room();
  await server.joined(roomId, "ada");
  const id = String((await call("POST", `/v1/rooms/${roomId}/recordings`, { name: "talk" })).body.id);
  const recordingId =
    server.runtime.db.$client.query<{ id: string }, [string]>("SELECT id FROM recordings WHERE public_id = ?").get(id)
      ?.id ?? "";
  await settled();
  const fileId = crypto.randomUUID();
  const folder = join(server.runtime.config.DATA_DIR, "recordings", recordingId);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${fileId}.webm`), "bytes");
  const grown = async (bytes: number) => {
    const file: RecordedFile = {
      fileId,
      fileName: `${fileId}.webm`,
      identity: "ada",
      trackId: "trk_1",
      kind: "audio",
      bytes,
      source: "microphone",
      codec: "opus",
      mimeType: "audio/webm",
      offsetMs: 0,
      durationMs: 1,
      width: null,
      height: null,
    };
    node.emit({ type: "recordingProgress", roomId, recordingId, files: [file] });
    await settled();
  };
  return { id, roomId, grown };
}

describe("[18] accounting of recordings", () => {
  test("the used storage follows recordings as they grow and are removed", async () => {
    const { id, grown } = await begun();
    await grown(300);
    expect(used()).toBe(300);
    await grown(500);
    expect(used()).toBe(500);
    await call("DELETE", `/v1/recordings/${id}`);
    expect(used()).toBe(0);
  });

  test("a project at its quota cannot record, and a running recording ends with the reason and its files", async () => {
    const { id, roomId, grown } = await begun();
    await grown(QUOTA - 1);
    expect((await read(id)).status).toBe("RECORDING");
    await grown(QUOTA);
    while ((await read(id)).status === "RECORDING") await settled();
    const ended = await read(id);
    expect(ended).toMatchObject({ status: "FAILED", bytes: QUOTA, files: [{ identity: "ada" }] });
    expect(ended.error).toContain(`may store ${QUOTA} bytes`);
    expect(node.calls.some((line) => line.startsWith(`stopRecording ${roomId}`))).toBe(true);
    expect((await call("POST", `/v1/rooms/${roomId}/recordings`, {})).body.code).toBe("SVC_STORAGE_FULL");
    await call("DELETE", `/v1/recordings/${id}`);
    expect((await call("POST", `/v1/rooms/${roomId}/recordings`, {})).status).toBe(201);
  });

  test("ended recordings with content count by the started minute", async () => {
    const before = (await usage()).recordedMinutes;
    const { id, grown } = await begun();
    await grown(10);
    clock.advance(90_000);
    expect((await usage()).recordedMinutes).toBe(before);
    await call("POST", `/v1/recordings/${id}/stop`);
    const after = await usage();
    expect(after.recordedMinutes).toBe(before + 2);
    expect(after.daily.at(-1)?.recordedMinutes).toBe(after.recordedMinutes);
    const silent = await begun();
    clock.advance(90_000);
    await call("POST", `/v1/recordings/${silent.id}/stop`);
    await call("DELETE", `/v1/recordings/${id}`);
    expect((await usage()).recordedMinutes).toBe(before + 2);
  });

  test("the audit log has starts, stops, shares and deletions, and no link", async () => {
    const roomId = await server.room();
    const path = `/v1/projects/${projectId}/recordings`;
    const by = (method: string, at: string, body?: object) => server.call(method, at, { key: owner.token, body });
    const begunBySession = await by("POST", `/v1/projects/${projectId}/rooms/${roomId}/recordings`, { name: "talk" });
    const id = String(begunBySession.body.id);
    await by("POST", `${path}/${id}/stop`);
    await by("POST", `${path}/${id}/stop`);
    const { url } = (await by("POST", `${path}/${id}/view-tokens`, { ttlSeconds: 60 })).body;
    await by("DELETE", `${path}/${id}`);
    const entries = (await by("GET", `/v1/projects/${projectId}/audit-logs?resourceId=${id}`)).body as unknown as {
      action: string;
      actorId: string;
      metadata: object;
    }[];
    const names = ["deleted", "shared", "stopped", "started"].map((deed) => `recording.${deed}`);
    expect(entries.map(({ action }) => action)).toEqual(names);
    expect(entries.every(({ actorId }) => actorId === owner.userId)).toBe(true);
    expect(entries.at(-1)?.metadata).toEqual({ roomId, name: "talk" });
    expect(JSON.stringify(entries)).not.toContain(String(url).split("token=")[1] ?? "missing");
  });
});
