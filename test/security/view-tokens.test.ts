import { afterAll, expect, test } from "bun:test";
import { rtcServer } from "../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);

/** A tenant with a recording of one file, and a genuine link to its replay. */
async function tenant(project: { key: string; projectId: string }) {
  const { key, projectId } = project;
  const room = await server.call("POST", "/v1/rooms", { key, body: { name: `room-${projectId}` } });
  const recording = await server.call("POST", `/v1/rooms/${room.body.id}/recordings`, { key, body: {} });
  const fileId = crypto.randomUUID();
  await server.runtime.write(() => {
    server.runtime.db.$client.run(
      `INSERT INTO recording_files SELECT id, ?1, ?1, 'ada', 'trk_1', 'audio', 'microphone', 'opus', 'audio/webm', 0, 1000, 5, NULL, NULL, 'disk', NULL
       FROM recordings WHERE public_id = ?2`,
      [fileId, String(recording.body.id)],
    );
  });
  const path = `/v1/recordings/${recording.body.id}`;
  const link = await server.call("POST", `${path}/view-tokens`, { key, body: {} });
  return { key, projectId, recordingId: String(recording.body.id), fileId, path, token: tokenOf(link.body.url) };
}
const tokenOf = (url: unknown) => String(url).split("#token=")[1] ?? "";
const replay = (token: string) => server.call("GET", `/v1/replays/${token}`);

const mallory = await tenant(await server.project());
const victim = await tenant({ key: server.key, projectId: server.projectId });

test("[18] a genuine link of one project shows that project's recording alone", async () => {
  const { status, text } = await replay(mallory.token);
  expect(status).toBe(200);
  expect(text).toContain(mallory.recordingId);
  for (const foreign of [victim.recordingId, victim.fileId, victim.projectId]) expect(text).not.toContain(foreign);
});

test("[18] parts of a link cannot be combined with another project's recording", async () => {
  const [, expires = "", seal = ""] = Buffer.from(mallory.token, "base64url").toString().split(".");
  const forged = Buffer.from([victim.recordingId, expires, seal].join(".")).toString("base64url");
  expect((await replay(forged)).status).toBe(403);
  const { body } = await replay(mallory.token);
  const [download] = body.downloads as { fileId: string; url: string }[];
  const own = new URL(download?.url ?? "");
  expect(download?.fileId).toBe(mallory.fileId);
  const other = own.href.replace(mallory.fileId, victim.fileId);
  expect(other).not.toBe(own.href);
  expect((await server.app.handle(new Request(other))).status).toBe(403);
});

test("[18] a link is no credential for other routes, neither of its own project nor of another", async () => {
  for (const { path } of [mallory, victim]) {
    for (const [method, route] of [
      ["GET", path],
      ["GET", `${path}/timeline`],
      ["POST", `${path}/view-tokens`],
      ["DELETE", path],
      ["GET", "/v1/recordings"],
    ] as const) {
      const body = method === "POST" ? {} : undefined;
      expect([route, (await server.call(method, route, { key: mallory.token, body })).status]).toEqual([route, 401]);
    }
  }
});

test("[18] the key of another project can neither make a link nor read the timeline", async () => {
  const made = await server.call("POST", `${victim.path}/view-tokens`, { key: mallory.key, body: {} });
  expect([made.status, made.body.code]).toEqual([404, "SVC_RECORDING_NOT_FOUND"]);
  expect((await server.call("GET", `${victim.path}/timeline`, { key: mallory.key })).status).toBe(404);
});
