import { afterAll, expect, test } from "bun:test";
import { rtcServer } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const at = (path: string, projectId = server.projectId) =>
  `/v1/projects/${projectId}/people/${path}?environment=DEVELOPMENT`;

test("[19] only owners and admins see, export and erase the data of a user", async () => {
  const { key, projectId } = server;
  const made = await server.call("POST", "/v1/chat/conversations", {
    key,
    body: { name: "hall", members: [{ userId: "zoe" }] },
  });
  const words = { text: "erasable", senderId: "zoe" };
  await server.call("POST", `/v1/chat/conversations/${made.body.id}/messages`, { key, body: words });

  for (const role of ["VIEWER", "DEVELOPER"] as const) {
    const { token } = await server.session({ projectId, role });
    for (const [method, path] of [
      ["GET", "zoe"],
      ["POST", "zoe/exports"],
      ["DELETE", "zoe"],
    ] as const) {
      const { status, body } = await server.call(method, at(path), { key: token });
      expect([role, method, status, body.code]).toEqual([role, method, 403, "SVC_PERMISSION_DENIED"]);
    }
  }
  const stranger = await server.session({ role: "OWNER" });
  expect((await server.call("GET", at("zoe"), { key: stranger.token })).status).toBe(404);

  const { token } = await server.session({ projectId, role: "ADMIN" });
  const overview = async () => (await server.call("GET", at("zoe"), { key: token })).body as never as Overview;
  expect(await overview()).toMatchObject({ counts: { messages: 1, memberships: 1 }, erasure: null, exports: [] });

  expect((await server.call("POST", at("zoe/exports"), { key: token })).status).toBe(202);
  await server.services.privacy.exports.settled();
  const [exported] = (await overview()).exports;
  expect(exported?.status).toBe("READY");
  const tar = await server.app.handle(new Request(exported?.url ?? ""));
  expect(await tar.text()).toContain("erasable");

  expect((await server.call("DELETE", at("zoe"), { key: token })).status).toBe(202);
  await server.services.privacy.erasures.settled();
  expect(await overview()).toMatchObject({ total: 0, erasure: { status: "DONE" }, exports: [] });
  expect((await server.app.handle(new Request(exported?.url ?? ""))).status).toBe(404);

  const { text } = await server.call("GET", `/v1/projects/${projectId}/audit-logs`, {
    key: (await server.session({ projectId, role: "OWNER" })).token,
  });
  expect(text).toContain("person.erased");
  expect(text).not.toContain("zoe");
});

type Overview = { total: number; exports: { status: string; url?: string }[] };
