import { afterAll, expect, test } from "bun:test";
import { WEBHOOK_EVENT_TYPES } from "../../src/protocol/webhook-events.ts";
import { hookedProject } from "../features/webhooks/hooked-project.ts";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const project = await hookedProject(server);
const URL_OK = "https://example.com/hook";

test("[4.7] creating returns 201 with the secret, which no other response contains", async () => {
  const { status, body } = await project.call("POST", "", { url: URL_OK, environment: "PRODUCTION" });
  expect(status).toBe(201);
  const { secret, ...webhook } = body;
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(webhook).toEqual({
    id: expect.any(String),
    projectId: project.projectId,
    url: URL_OK,
    description: null,
    environment: "PRODUCTION",
    format: "stoa",
    apiKeyId: null,
    events: [],
    status: "ACTIVE",
    disabledReason: null,
    consecutiveFailures: 0,
    lastDeliveryAt: null,
    createdAt: "2026-03-01T12:00:00.000Z",
    updatedAt: "2026-03-01T12:00:00.000Z",
  });
  const read = await project.call("GET", `/${webhook.id}`);
  expect(read.body).toEqual(webhook);
  const list = await project.call("GET", "");
  expect(list.text).not.toContain("whsec_");
  expect((await project.call("PATCH", `/${webhook.id}`, { description: "x" })).text).not.toContain("whsec_");
});

test("[4.7] a second endpoint with the same URL is made with a warning that names the first", async () => {
  const url = "https://example.com/twice";
  const first = await project.call("POST", "", { url, environment: "PRODUCTION" });
  expect([first.status, first.body.warnings]).toEqual([201, undefined]);
  const second = await project.call("POST", "", { url, environment: "PRODUCTION" });
  const warning = `Endpoint ${first.body.id} has the same URL: an event that both subscribe to is delivered twice.`;
  expect([second.status, second.body.warnings]).toEqual([201, [warning]]);
  for (const { body } of [first, second]) await project.call("DELETE", `/${body.id}`);
});

test("[4.7] the database does not contain the secret in plain text", async () => {
  const { secret } = await project.register(URL_OK);
  const rows = server.runtime.db.$client.query("SELECT * FROM webhook_endpoints").all();
  expect(JSON.stringify(rows)).not.toContain(secret.slice(6, 30));
  expect(server.logLines.join("")).not.toContain(secret.slice(6, 30));
});

test("[4.7] environment defaults to DEVELOPMENT, events to all", async () => {
  const { body } = await project.call("POST", "", { url: URL_OK });
  expect(body).toMatchObject({ environment: "DEVELOPMENT", events: [] });
});

test("[4.7] unknown body fields give 400 on create and on update, and change nothing", async () => {
  const before = (await project.call("GET", "")).text;
  const created = await project.call("POST", "", { url: URL_OK, retries: 3 });
  expect([created.status, created.body.code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
  expect(created.body.details).toEqual([{ field: "retries", message: "unknown field" }]);
  const inherited = await project.call("POST", "", { url: URL_OK, constructor: 1 });
  expect([inherited.status, inherited.body.details]).toEqual([
    400,
    [{ field: "constructor", message: "unknown field" }],
  ]);
  expect((await project.call("GET", "")).text).toBe(before);

  const { id } = await project.register(URL_OK);
  for (const body of [{ secret: "whsec_x" }, { environment: "PRODUCTION" }, { description: "x", nope: 1 }]) {
    expect((await project.call("PATCH", `/${id}`, body)).status).toBe(400);
  }
  expect((await project.call("GET", `/${id}`)).body).toMatchObject({ description: null, environment: "DEVELOPMENT" });
});

test("[4.7] an endpoint can subscribe to every event type; an unknown type is 400", async () => {
  const { body } = await project.call("POST", "", { url: URL_OK, events: [...WEBHOOK_EVENT_TYPES, "message.created"] });
  expect(body.events).toEqual([...WEBHOOK_EVENT_TYPES]);
  for (const events of [["message.exploded"], ["webhook.test"], [""], "message.created", [1]]) {
    const { status, body } = await project.call("POST", "", { url: URL_OK, events });
    expect([status, body.code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
  }
});

test("[4.7] url is required, has at most 2048 characters, and follows the rules of its environment, even on update", async () => {
  expect((await project.call("POST", "", {})).status).toBe(400);
  const long = (length: number) => "https://example.com/".padEnd(length, "x");
  expect((await project.call("POST", "", { url: long(2048) })).status).toBe(201);
  expect((await project.call("POST", "", { url: long(2049) })).status).toBe(400);

  const refused = await project.call("POST", "", { url: "http://127.0.0.1:1/", environment: "PRODUCTION" });
  expect([refused.status, refused.body.code]).toEqual([400, "SVC_WEBHOOK_URL_REFUSED"]);
  expect(refused.body.details).toEqual([{ field: "url", message: expect.any(String) }]);
  expect((await project.call("POST", "", { url: "http://127.0.0.1:1/" })).status).toBe(201);

  const { id } = await project.register(URL_OK, { environment: "PRODUCTION" });
  expect((await project.call("PATCH", `/${id}`, { url: "https://10.0.0.1/" })).body.code).toBe(
    "SVC_WEBHOOK_URL_REFUSED",
  );
  expect((await project.call("PATCH", `/${id}`, { url: "https://example.org/" })).body.url).toBe(
    "https://example.org/",
  );
});

test("[4.7] the list is newest first and paged, with both environments unless one is requested", async () => {
  const own = await hookedProject(server);
  const ids: string[] = [];
  for (const environment of ["DEVELOPMENT", "PRODUCTION", "DEVELOPMENT"]) {
    ids.unshift((await own.register(URL_OK, { environment })).id);
  }
  const idsOf = (body: unknown) => (body as { id: string }[]).map(({ id }) => id);
  expect(idsOf((await own.call("GET", "")).body)).toEqual(ids);
  expect(idsOf((await own.call("GET", "?environment=PRODUCTION")).body)).toEqual([ids[1] ?? ""]);
  const first = await own.call("GET", "?limit=2");
  expect(idsOf(first.body)).toEqual(ids.slice(0, 2));
  const next = /<([^>]+)>; rel="next"/.exec(first.headers.get("link") ?? "")?.[1] ?? "";
  const second = await server.call("GET", next, { key: own.token });
  expect(idsOf(second.body)).toEqual(ids.slice(2));
  expect(second.headers.get("link")).toBeNull();
  expect((await own.call("GET", "?cursor=nonsense")).body.code).toBe("SVC_INVALID_CURSOR");
});

test("[4.7] DELETE returns 204, deletes the deliveries too, and is 404 the second time", async () => {
  const { id } = await project.register("http://127.0.0.1:1/");
  await project.announce();
  await project.call("POST", `/${id}/test`);
  const gone = await project.call("DELETE", `/${id}`);
  expect([gone.status, gone.text]).toEqual([204, ""]);
  expect((await project.call("DELETE", `/${id}`)).body.code).toBe("SVC_WEBHOOK_NOT_FOUND");
  expect((await project.call("GET", `/${id}`)).status).toBe(404);
  expect((await project.call("GET", `/${id}/deliveries`)).status).toBe(404);
  const { n } = server.runtime.db.$client
    .query<{ n: number }, [string]>("SELECT count(*) AS n FROM webhook_deliveries WHERE endpoint_id = ?")
    .get(id) ?? { n: -1 };
  expect(n).toBe(0);
});

test("[4.7] disabling by hand is `manual`, enabling clears the reason and the failure count", async () => {
  const { id } = await project.register(URL_OK);
  const disabled = await project.call("PATCH", `/${id}`, { status: "DISABLED" });
  expect(disabled.body).toMatchObject({ status: "DISABLED", disabledReason: "manual" });
  server.runtime.db.$client.run("UPDATE webhook_endpoints SET consecutive_failures = 49 WHERE id = ?", [id]);
  const enabled = await project.call("PATCH", `/${id}`, { status: "ACTIVE" });
  expect(enabled.body).toMatchObject({ status: "ACTIVE", disabledReason: null, consecutiveFailures: 0 });
  expect((await project.call("PATCH", `/${id}`, { status: "PAUSED" })).status).toBe(400);
});

test("[5] webhooks are managed with a session, not with an API key, and only by members of the project", async () => {
  const { id } = await project.register(URL_OK);
  const path = `/v1/projects/${project.projectId}/webhooks`;
  expect((await server.call("GET", path)).status).toBe(401);
  expect((await server.call("POST", path, { key: project.key, body: { url: URL_OK } })).body.code).toBe(
    "SVC_AUTH_ERROR",
  );
  const stranger = await server.session({ role: "OWNER" });
  for (const [method, end] of [
    ["GET", ""],
    ["POST", ""],
    ["GET", `/${id}`],
    ["PATCH", `/${id}`],
    ["DELETE", `/${id}`],
    ["POST", `/${id}/test`],
    ["POST", `/${id}/rotate-secret`],
    ["POST", `/${id}/recover`],
    ["GET", `/${id}/deliveries`],
  ] as const) {
    const { status, body } = await server.call(method, path + end, {
      key: stranger.token,
      body: method === "GET" ? undefined : {},
    });
    expect([method, end, status, body.code]).toEqual([method, end, 404, "SVC_PROJECT_NOT_FOUND"]);
    // The routes do not accept it for the tenant's own project either.
    if (end === "" || method === "POST") continue;
    const sideways = await server.call(method, `/v1/projects/${stranger.projectId}/webhooks${end}`, {
      key: stranger.token,
    });
    expect(sideways.body.code).toBe("SVC_WEBHOOK_NOT_FOUND");
  }
  expect((await project.call("GET", `/${id}`)).status).toBe(200);
});

test("[4.7] a VIEWER can read but not change webhooks", async () => {
  const { id } = await project.register(URL_OK);
  const { token } = await server.session({ projectId: project.projectId, role: "VIEWER" });
  const as = (method: string, end: string, body?: unknown) =>
    server.call(method, `/v1/projects/${project.projectId}/webhooks${end}`, { key: token, body });
  expect((await as("GET", "")).status).toBe(200);
  expect((await as("GET", `/${id}/deliveries`)).status).toBe(200);
  for (const [method, end] of [
    ["POST", ""],
    ["PATCH", `/${id}`],
    ["DELETE", `/${id}`],
    ["POST", `/${id}/test`],
    ["POST", `/${id}/rotate-secret`],
    ["POST", `/${id}/recover`],
    ["POST", `/${id}/deliveries/x/redeliver`],
  ] as const) {
    const { status, body } = await as(method, end, { url: URL_OK });
    expect([method, end, status, body.code]).toEqual([method, end, 403, "SVC_PERMISSION_DENIED"]);
  }
});

test("[2] creating, changing and deleting are audited without URL, secret or new values", async () => {
  const facts: { action: string; resourceId: string; metadata: unknown }[] = [];
  const stop = server.runtime.bus.on("audit", (fact) => void facts.push(fact));
  const { id } = await project.register("https://example.com/hook?token=verysecret");
  await project.call("PATCH", `/${id}`, { url: "https://example.org/?token=other", status: "ACTIVE" });
  await project.call("PATCH", `/${id}`, {});
  await project.call("POST", `/${id}/rotate-secret`);
  await project.call("DELETE", `/${id}`);
  await project.call("DELETE", `/${id}`);
  await project.call("POST", "", { url: "ftp://example.com" });
  stop();
  expect(facts.map(({ action, metadata }) => [action, metadata])).toEqual([
    ["webhook.created", {}],
    ["webhook.updated", { fields: ["url", "status"] }],
    ["webhook.updated", { fields: ["secret"] }],
    ["webhook.deleted", {}],
  ]);
  expect(facts.every(({ resourceId }) => resourceId === id)).toBe(true);
  const all = JSON.stringify(facts) + server.logLines.join("");
  for (const word of ["verysecret", "token=other", "whsec_"]) expect(all).not.toContain(word);
});

test("[1] creating again with the same Idempotency-Key replays the first response with the secret and creates no second endpoint", async () => {
  const own = await hookedProject(server);
  const create = (url: string) =>
    server.call("POST", `/v1/projects/${own.projectId}/webhooks`, {
      key: own.token,
      body: { url },
      headers: { "idempotency-key": "once" },
    });
  const first = await create(URL_OK);
  const replay = await create(URL_OK);
  expect([replay.status, replay.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
  expect(replay.body).toEqual(first.body);
  expect((await create("https://example.org/")).body.code).toBe("SVC_IDEMPOTENCY_KEY_REUSED");
  expect((await own.call("GET", "")).body).toHaveLength(1);
  const stored = server.runtime.db.$client.query("SELECT * FROM idempotency_keys").all();
  expect(JSON.stringify(stored)).not.toContain("whsec_");
});
