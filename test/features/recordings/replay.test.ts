import { afterAll, describe, expect, test } from "bun:test";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { rtcServer } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);

type Replay = {
  recording: Recording;
  timeline: { type: string; text?: string }[];
  downloads: { fileId: string; url: string; expiresAt: string }[];
};

const replayed = async (url: string) => {
  const token = url.split("#token=")[1] ?? "";
  const answer = await server.call("GET", `/v1/replays/${token}`);
  return { status: answer.status, body: answer.body as unknown as Replay & { code: string; message: string } };
};

const { key, projectId } = server;

/** A recording with one file, and a way to share it. */
async function recorded() {
  const roomId = await server.room();
  const recordingId = String((await server.call("POST", `/v1/rooms/${roomId}/recordings`, { key, body: {} })).body.id);
  const fileId = crypto.randomUUID();
  await server.runtime.write(() => {
    server.runtime.db.$client.run(
      `INSERT INTO recording_files SELECT id, ?1, ?1, 'ada', 'trk_1', 'audio', 'microphone', 'opus', 'audio/webm', 0, 1000, 5, NULL, NULL, 'disk', NULL
       FROM recordings WHERE public_id = ?2`,
      [fileId, recordingId],
    );
  });
  const path = `/v1/recordings/${recordingId}`;
  const share = async (body: object = {}) =>
    String((await server.call("POST", `${path}/view-tokens`, { key, body })).body.url);
  return { path, share, recordingId, fileId, roomId };
}

describe("[18] a link to a replay", () => {
  test("shows the recording, its messages and the URLs of its files", async () => {
    const { share, roomId, recordingId, fileId } = await recorded();
    const conversation = await server.call("POST", "/v1/chat/conversations", { key, body: { name: "beside", roomId } });
    await server.call("POST", `/v1/chat/conversations/${conversation.body.id}/messages`, {
      key,
      body: { text: "hello" },
    });
    const url = await share();
    expect(url).toMatch(/^http:.*\/replay#token=[\w-]{43,}$/);
    const { status, body } = await replayed(url);
    expect(status).toBe(200);
    expect(body.recording).toMatchObject({ id: recordingId, files: [{ id: fileId }] });
    expect(body.timeline).toMatchObject([{ type: "message", text: "hello" }]);
    expect(body.downloads.map((file) => file.fileId)).toEqual([fileId]);
    expect(server.logLines.join("")).not.toContain(url.split("#token=")[1] ?? "");
  });

  test("expires at its time, together with its files' addresses", async () => {
    const { share } = await recorded();
    const brief = await share({ ttlSeconds: 1 });
    const { body } = await replayed(brief);
    const [file] = body.downloads;
    expect(Date.parse(file?.expiresAt ?? "")).toBe(server.clock.now() + 1_000);
    server.clock.advance(999);
    expect((await replayed(brief)).status).toBe(200);
    server.clock.advance(1);
    expect(await replayed(brief)).toMatchObject({ status: 403, body: { code: "SVC_PERMISSION_DENIED" } });
    expect((await server.app.handle(new Request(file?.url ?? ""))).status).toBe(403);
    const usual = await share();
    server.clock.advance(3_599_999);
    expect((await replayed(usual)).status).toBe(200);
    server.clock.advance(1);
    expect((await replayed(usual)).status).toBe(403);
  });

  test("ends with the recording", async () => {
    const { share, path } = await recorded();
    const url = await share();
    expect((await server.call("DELETE", path, { key })).status).toBe(204);
    expect(await replayed(url)).toMatchObject({ status: 403, body: { message: "The recording was deleted." } });
  });

  test("cannot be forged: another recording or a later expiry breaks its signature", async () => {
    const one = await recorded();
    const other = await recorded();
    const token = Buffer.from((await one.share()).split("#token=")[1] ?? "", "base64url").toString();
    const [id = "", expires = "", seal = ""] = token.split(".");
    for (const changed of [
      [other.recordingId, expires, seal],
      [id, `${expires}0`, seal],
      [id, expires, ""],
      [id, expires],
    ]) {
      const url = `#token=${Buffer.from(changed.join(".")).toString("base64url")}`;
      expect((await replayed(url)).status).toBe(403);
    }
  });

  test("is made by members who manage recordings, for a week at most", async () => {
    const { path } = await recorded();
    const developer = await server.session({ projectId, role: "DEVELOPER" });
    const inProject = `/v1/projects/${projectId}${path.slice("/v1".length)}/view-tokens`;
    expect((await server.call("POST", inProject, { key: developer.token, body: {} })).status).toBe(201);
    const viewer = await server.session({ projectId, role: "VIEWER" });
    expect((await server.call("POST", inProject, { key: viewer.token, body: {} })).status).toBe(403);
    const other = await server.project();
    expect((await server.call("POST", `${path}/view-tokens`, { key: other.key, body: {} })).status).toBe(404);
    for (const [ttlSeconds, status] of [
      [604_800, 201],
      [604_801, 400],
      [1, 201],
      [0, 400],
    ]) {
      const answer = await server.call("POST", `${path}/view-tokens`, { key, body: { ttlSeconds } });
      expect(answer.status).toBe(status ?? 0);
    }
  });
});
