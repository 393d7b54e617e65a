import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";
import { ok, startReceiver } from "./receiver.ts";

const server = testServer({ WEBHOOK_MAX_ENDPOINTS: 3 });
afterAll(server.close);
const { projectId, key } = await server.project();
const { token } = await server.session({ projectId, role: "OWNER" });
const production = await server.runtime.write(
  (unit) => server.services.apiKeys.create(unit, projectId, { name: "prod", environment: "PRODUCTION" }).key,
);
const by = (credential: string) => (method: string, path: string, body?: object) =>
  server.call(method, `/v1/webhooks${path}`, { key: credential, body });
const call = by(key);

test("[contract 16] an API key manages the endpoints of its environment, and finds no others", async () => {
  const receiver = startReceiver();
  receiver.reply = ok;
  const created = await call("POST", "", { url: receiver.url, description: "mine" });
  expect([created.status, created.body.environment, typeof created.body.secret]).toEqual([
    201,
    "DEVELOPMENT",
    "string",
  ]);
  const { id } = created.body;
  expect((await call("POST", "", { url: receiver.url, environment: "PRODUCTION" })).status).toBe(400);
  expect((await call("PATCH", `/${id}`, { description: "ours" })).body.description).toBe("ours");
  expect((await call("POST", `/${id}/rotate-secret`, {})).body.secret).not.toBe(created.body.secret);
  const { body: delivery } = await call("POST", `/${id}/test`);
  await server.services.webhookDispatcher.runDue();
  expect((await call("GET", `/${id}/deliveries/${delivery.id}`)).body).toMatchObject({ status: "DELIVERED" });
  expect((await call("POST", `/${id}/deliveries/${delivery.id}/redeliver`)).status).toBe(200);
  expect((await call("POST", `/${id}/recover`, {})).body).toEqual({ recovered: 0 });

  // A session sees the changes of the key, and the audit log has them without an actor.
  const bySession = await server.call("GET", `/v1/projects/${projectId}/webhooks/${id}`, { key: token });
  expect(bySession.body).toEqual((await call("GET", `/${id}`)).body);
  const audit = await server.call("GET", `/v1/projects/${projectId}/audit-logs?action=webhook.created`, { key: token });
  expect(JSON.parse(audit.text)).toMatchObject([
    { resourceId: id, actorType: "api_key", actorId: expect.any(String), actorName: expect.any(String) },
  ]);

  const stranger = by((await server.project()).key);
  for (const other of [by(production), stranger]) {
    expect(JSON.parse((await other("GET", "")).text)).toEqual([]);
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["DELETE", ""],
      ["POST", "/rotate-secret"],
      ["POST", "/test"],
      ["POST", "/recover"],
      ["GET", "/deliveries"],
      ["GET", `/deliveries/${delivery.id}`],
      ["POST", `/deliveries/${delivery.id}/redeliver`],
    ] as const) {
      const { status, body } = await other(method, `/${id}${path}`, method === "GET" ? undefined : {});
      expect([method, path, status, body.code]).toEqual([method, path, 404, "SVC_WEBHOOK_NOT_FOUND"]);
    }
  }
  expect((await call("DELETE", `/${id}`)).status).toBe(204);
  expect((await call("GET", `/${id}`)).status).toBe(404);
  receiver.close();
});

test("[contract 16] an environment has WEBHOOK_MAX_ENDPOINTS, and one more is refused for keys and sessions", async () => {
  const url = "https://hooks.example/in";
  for (let n = 0; n < 3; n++) expect((await call("POST", "", { url })).status).toBe(201);
  const refused = await call("POST", "", { url });
  expect([refused.status, refused.body.code]).toEqual([409, "SVC_LIMIT_REACHED"]);
  const bySession = await server.call("POST", `/v1/projects/${projectId}/webhooks`, { key: token, body: { url } });
  expect([bySession.status, bySession.body.code]).toEqual([409, "SVC_LIMIT_REACHED"]);
  // The other environment has its own.
  expect((await by(production)("POST", "", { url })).status).toBe(201);
  const [first] = JSON.parse((await call("GET", "")).text) as { id: string }[];
  await call("DELETE", `/${first?.id}`);
  expect((await call("POST", "", { url })).status).toBe(201);
});
