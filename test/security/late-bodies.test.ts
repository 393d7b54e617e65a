import { afterAll, expect, test } from "bun:test";
import { COMMAND_LINE } from "../../src/kernel/author.ts";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { write } = server.runtime;
const { apiKeys, members, projects, sessions } = server.services;

/** A request that has passed its guard, and whose body arrives when the test says so. */
async function begun(method: string, path: string, key: string, body: object) {
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  const isRead = Promise.withResolvers<void>();
  const rest = Promise.withResolvers<Uint8Array>();
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        isRead.resolve();
        controller.enqueue(await rest.promise);
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const headers = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    "content-length": String(bytes.length),
  };
  const answer = server.app.handle(new Request(`http://localhost${path}`, { method, headers, body: stream }));
  await isRead.promise;
  return async () => {
    server.clock.advance(60_000);
    rest.resolve(bytes);
    const response = await answer;
    const { code = "" } = (await response.json()) as { code?: string };
    return `${response.status} ${code}`.trim();
  };
}

test("[5] a request whose body comes late is made by who may still make it", async () => {
  const { token, projectId } = await server.session({ role: "DEVELOPER" });
  const finish = await begun("POST", `/v1/projects/${projectId}/api-keys`, token, { name: "mine" });
  expect(await finish()).toBe("201");
});

test("[5] a member who was removed or demoted before its body arrived makes no API key", async () => {
  const { token: owner, projectId } = await server.session({ role: "OWNER" });
  const path = `/v1/projects/${projectId}/api-keys`;
  const body = { name: "left behind" };

  const removed = await server.session({ role: "DEVELOPER", projectId });
  const byRemoved = await begun("POST", path, removed.token, body);
  await write((unit) => members.remove(unit, projectId, removed.userId, "OWNER", COMMAND_LINE));
  expect(await byRemoved()).toBe("404 SVC_PROJECT_NOT_FOUND");

  const demoted = await server.session({ role: "DEVELOPER", projectId });
  const byDemoted = await begun("POST", path, demoted.token, body);
  await write((unit) => void members.changeRole(unit, projectId, demoted.userId, "VIEWER", "OWNER", COMMAND_LINE));
  expect(await byDemoted()).toBe("403 SVC_PERMISSION_DENIED");

  const admin = await server.session({ role: "ADMIN", projectId });
  const byFormerAdmin = await begun("PATCH", `/v1/projects/${projectId}/members/${demoted.userId}`, admin.token, {
    role: "ADMIN",
  });
  await write((unit) => void members.changeRole(unit, projectId, admin.userId, "DEVELOPER", "OWNER", COMMAND_LINE));
  expect(await byFormerAdmin()).toBe("403 SVC_PERMISSION_DENIED");

  const signedOut = await server.session({ role: "DEVELOPER", projectId });
  const bySignedOut = await begun("POST", path, signedOut.token, body);
  await write((unit) => sessions.endAll(unit, signedOut.userId));
  expect(await bySignedOut()).toBe("401 SVC_TOKEN_REVOKED");

  expect((await server.call("GET", path, { key: owner })).text).toBe("[]");
});

test("[5] nothing is done with an API key, or in a project, that ended before the body arrived", async () => {
  const { projectId, key } = await server.project();
  const finish = await begun("POST", "/v1/rooms", key, { name: "late" });
  const [row] = apiKeys.list(projectId, undefined, "~", 1);
  await write((unit) => void apiKeys.revoke(unit, projectId, row?.id ?? "", COMMAND_LINE));
  expect(await finish()).toBe("401 SVC_AUTH_ERROR");

  const { token, projectId: archived } = await server.session({ role: "OWNER" });
  const inArchived = await begun("POST", `/v1/projects/${archived}/rooms`, token, { name: "late" });
  await write((unit) => projects.archive(unit, archived, COMMAND_LINE));
  expect(await inArchived()).toBe("409 SVC_CONFLICT");
});

test("[5] a chat token that was revoked before the body arrived sends no message", async () => {
  const { key } = await server.project();
  const lobby = { name: "lobby", members: [{ userId: "mallory" }] };
  await server.call("POST", "/v1/chat/conversations", { key, body: lobby });
  const minted = await server.call("POST", "/v1/chat/tokens", { key, body: { userId: "mallory" } });
  const path = "/v1/chat/conversations/lobby/messages";
  const finish = await begun("POST", path, String(minted.body.token), { text: "late" });
  await server.call("DELETE", `/v1/chat/tokens/${minted.body.tokenId}`, { key });
  expect(await finish()).toBe("401 SVC_TOKEN_REVOKED");
  expect((await server.call("GET", path, { key })).body.data).toEqual([]);
});
