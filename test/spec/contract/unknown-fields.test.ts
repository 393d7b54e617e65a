import { afterAll, expect, test } from "bun:test";
import { fillPath, type Operation, operationsOf } from "../../harness/operations.ts";
import { rtcServer } from "../../harness/rtc.ts";
import { tenantOf } from "../../harness/tenant.ts";
import { UNLIMITED } from "./unlimited.ts";

const server = await rtcServer(UNLIMITED);
afterAll(server.close);
const tenant = await tenantOf(server, { operator: true });
const { apiKey } = tenant.credentials;
const withBody = (await operationsOf(server)).filter(
  ({ body, bodyType }) => body !== undefined && bodyType === "application/json",
);

function send(operation: Operation, body: object) {
  const [credential] = operation.credentials;
  const path = fillPath(operation, (name) => tenant.idFor(operation, name));
  return server.call(operation.method, path, { key: credential && tenant.credentials[credential], body });
}

/** Swaps the third and the fourth letter. */
const misspell = (name: string) => `${name.slice(0, 2)}${name[3]}${name[2]}${name.slice(4)}`;
const REFUSING = ["POST /v1/projects/{projectId}/webhooks", "POST /v1/webhooks"].flatMap((route) => [
  route,
  `${route.replace("POST", "PATCH")}/{webhookId}`,
]);

const namesOf = ({ body }: Operation) => Object.keys(body?.properties ?? {});
const similar = (name: string, others: string[]) =>
  others.some((other) => other !== name && other.startsWith(name.slice(0, 4)));

test("[1] every route with a body refuses a misspelt field and names the one that was meant", async () => {
  let checked = 0;
  for (const operation of withBody) {
    const names = namesOf(operation);
    const known = names.find((name) => name.length >= 6 && name[2] !== name[3] && !similar(name, names));
    if (known === undefined) continue;
    checked++;
    const field = misspell(known);
    const { status, body } = await send(operation, { [field]: "x" });
    const message = `unknown; did you mean "${known}"?`;
    expect([operation.name, status, body.details]).toEqual([operation.name, 400, [{ field, message }]]);
  }
  expect(checked).toBeGreaterThan(50);
});

test("[1] every route with a body names other unknown fields in the answer, or refuses them", async () => {
  for (const operation of withBody) {
    const { status, body, headers } = await send(operation, { somethingElseEntirely: 1, n2: null });
    if (REFUSING.includes(operation.name)) {
      const refused = ["somethingElseEntirely", "n2"].map((field) => ({ field, message: "unknown field" }));
      expect([operation.name, status, body.details]).toEqual([operation.name, 400, refused]);
    } else {
      const ignored = headers.get("stoa-ignored-fields");
      expect([operation.name, ignored]).toEqual([operation.name, "somethingElseEntirely, n2"]);
    }
  }
});

const createRoom = (body: object) => server.call("POST", "/v1/rooms", { key: apiKey, body });

test("[1] a misspelt field creates nothing; an unrelated one is only named", async () => {
  for (const [field, meant] of [
    ["loby", "lobby"],
    ["loobby", "lobby"],
    ["nmae", "name"],
    ["recrod", "record"],
    ["recorded", "record"],
    ["regionn", "region"],
  ]) {
    const name = meant === "name" ? {} : { name: "misspelt" };
    const { status, body } = await createRoom({ ...name, [field as string]: true });
    const message = `unknown; did you mean "${meant}"?`;
    expect([status, body.code, body.message]).toEqual([400, "SVC_VALIDATION_FAILED", `${field}: ${message}`]);
    expect(body.details).toEqual([{ field, message }]);
  }
  expect((await server.call("GET", "/v1/rooms/misspelt", { key: apiKey })).status).toBe(404);

  // Fields that other systems know may resemble a short name, as "bobby" does "lobby".
  const extra = { nmae: "x", topic: "y", constructor: 1, "größe, x\n": 2, bobby: 1, lbyb: 1, lob: 1 };
  const created = await createRoom({ name: "spelt", record: true, recrod: false, ...extra });
  expect([created.status, created.body.record]).toEqual([201, true]);
  expect(created.headers.get("stoa-ignored-fields")).toBe(
    "recrod, nmae, topic, constructor, gr%C3%B6%C3%9Fe%2C%20x%0A, bobby, lbyb, lob",
  );
  expect(created.headers.get("access-control-expose-headers")).toBeNull();
  expect((await createRoom({ name: "silent" })).headers.get("stoa-ignored-fields")).toBeNull();
});

test("[1] fields of objects within the body count too; metadata may have any", async () => {
  const conversation = (body: object) =>
    server.call("POST", "/v1/chat/conversations", {
      key: apiKey,
      body: { name: `c${crypto.randomUUID().slice(0, 8)}`, ...body },
    });
  const refused = await conversation({ members: [{ userId: "ada" }, { userId: "bob", metdata: {} }] });
  expect(refused.body.details).toEqual([{ field: "members.1.metdata", message: 'unknown; did you mean "metadata"?' }]);
  const created = await conversation({ members: [{ userId: "ada", colour: 1 }], metadata: { metdata: 1, any: 2 } });
  expect([created.status, created.headers.get("stoa-ignored-fields")]).toEqual([201, "members.0.colour"]);
  expect(created.body.metadata).toEqual({ metdata: 1, any: 2 });

  const mint = (permissions: object) =>
    server.call("POST", `/v1/rooms/${tenant.ids.roomId}/rtc-tokens`, {
      key: apiKey,
      body: { participantIdentity: "eve", permissions },
    });
  expect((await mint({ publishVidoe: true })).body.details).toEqual([
    { field: "permissions.publishVidoe", message: 'unknown; did you mean "publishVideo"?' },
  ]);
  expect((await mint({ canDance: true })).body.details).toEqual([
    { field: "permissions.canDance", message: expect.stringMatching(/^unknown; the names are join, subscribe, /) },
  ]);
});

test("[1] a multitude of unknown names is answered with the first 64", async () => {
  const names = Array.from({ length: 9_000 }, (_, index) => [`unknown${index}`, 0]);
  const { status, headers } = await createRoom({ name: "crowded", ...Object.fromEntries(names) });
  expect([status, headers.get("stoa-ignored-fields")?.split(", ").length]).toEqual([201, 64]);
});

test("[1] names of any length and kind make a header that every proxy passes on", async () => {
  const raw = (name: string, fields: string) =>
    server.call("POST", "/v1/rooms", { key: apiKey, raw: `{"name":"${name}",${fields}}` });
  const long = await raw("long-field", `"${"x".repeat(500_000)}":1,"after":1`);
  expect(long.status).toBe(201);
  expect(long.headers.get("stoa-ignored-fields")?.length).toBeLessThanOrEqual(2_048);
  const many = Array.from({ length: 64 }, (_, index) => `"${index}${"ä".repeat(40)}":1`).join(",");
  expect((await raw("many-fields", many)).headers.get("stoa-ignored-fields")?.length).toBeLessThanOrEqual(2_048);
  const odd = await raw("odd-field", '"\\ud800 half":1');
  expect([odd.status, odd.headers.get("stoa-ignored-fields")]).toEqual([201, "%EF%BF%BD%20half"]);
});

test("[1] a misspelt filter of a list is refused, since it would return everything; others are reported", async () => {
  const list = (query: string) => server.call("GET", `/v1/recordings?${query}`, { key: apiKey });
  for (const [query, field, meant] of [
    ["roomID=x", "roomID", "roomId"],
    ["limit=5&romId=x", "romId", "roomId"],
    ["statsu=READY", "statsu", "status"],
  ]) {
    const { status, body } = await list(query as string);
    expect([status, body.details]).toEqual([400, [{ field, message: `unknown; did you mean "${meant}"?` }]]);
  }
  const other = await list("limit=1&colour=red&_=1");
  expect([other.status, other.headers.get("stoa-ignored-fields")]).toEqual([200, "colour, _"]);
  expect((await list("limit=1")).headers.get("stoa-ignored-fields")).toBeNull();
});
