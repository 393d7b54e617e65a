import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { projectId, key } = await server.project();
const { token: developer } = await server.session({ projectId, role: "DEVELOPER" });
const { token: viewer } = await server.session({ projectId, role: "VIEWER" });
const { token: outsider, projectId: elsewhere } = await server.session({ role: "OWNER" });
const path = `/v1/projects/${projectId}/live-streams`;
const as = (session: string, method: string, tail = "", body?: object) =>
  server.call(method, `${path}${tail}`, { key: session, body });
const create = async () => String((await as(developer, "POST", "", { title: "t", hostIdentity: "host" })).body.id);

test("[4.5] a stream runs its whole life from the dashboard", async () => {
  const id = await create();
  const started = await as(developer, "POST", `/${id}/start`);
  expect([started.status, started.body.status]).toEqual([200, "LIVE"]);
  const again = await as(developer, "POST", `/${id}/start`);
  expect([again.status, again.body.code, again.body.status]).toEqual([409, "SVC_STREAM_INVALID_STATE", "LIVE"]);
  expect((await server.call("GET", `/v1/live-streams/${id}`, { key })).body.status).toBe("LIVE");
  expect((await as(developer, "POST", `/${id}/end`)).body.status).toBe("ENDED");
  expect((await as(developer, "POST", `/${id}/viewer-tokens`, { identity: "late" })).status).toBe(409);
});

test("[4.5] hosts are added and removed, and viewers are admitted and banned", async () => {
  const id = await create();
  const co = await as(developer, "POST", `/${id}/hosts`, { identity: "co" });
  expect([co.status, co.body.role]).toEqual([201, "CO_HOST"]);
  const watching = await as(developer, "POST", `/${id}/viewer-tokens`, {
    identity: "me",
    permissions: { publish: true },
  });
  expect([watching.status, watching.body.role]).toEqual([201, "VIEWER"]);
  expect(watching.body.rtc).toMatchObject({ permissions: { subscribe: true, publish: false, publishData: false } });

  const hosts = async () =>
    ((await as(viewer, "GET", `/${id}`)).body.hosts as { identity: string }[]).map((h) => h.identity);
  expect((await hosts()).sort()).toEqual(["co", "host"]);
  expect((await as(developer, "DELETE", `/${id}/hosts/co`)).status).toBe(204);
  expect(await hosts()).toEqual(["host"]);
  expect((await as(developer, "DELETE", `/${id}/hosts/host`)).status).toBe(409);

  expect((await as(developer, "DELETE", `/${id}/viewers/me`)).status).toBe(204);
  const barred = await as(developer, "POST", `/${id}/viewer-tokens`, { identity: "me" });
  expect([barred.status, barred.body.code]).toEqual([403, "SVC_BANNED"]);
});

test("[4.5] a stream of another project cannot be reached through one's own", async () => {
  const id = await create();
  for (const [method, tail, body] of [
    ["POST", "/start", undefined],
    ["POST", "/hosts", { identity: "co" }],
    ["DELETE", "/hosts/host", undefined],
    ["POST", "/viewer-tokens", { identity: "me" }],
    ["DELETE", "/viewers/me", undefined],
  ] as const) {
    const address = `/v1/projects/${elsewhere}/live-streams/${id}${tail}`;
    const reply = await server.call(method, address, { key: outsider, body });
    expect([tail, reply.body.code]).toEqual([tail, "SVC_STREAM_NOT_FOUND"]);
  }
  expect((await as(viewer, "GET", `/${id}`)).body.status).toBe("CREATED");
});
