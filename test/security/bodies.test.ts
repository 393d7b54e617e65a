import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { key } = await server.project();

const post = (path: string, raw: string) => server.call("POST", path, { key, raw });

test("[3] an object that cannot be converted to text is refused like any invalid value, with its field", async () => {
  // With words of the schema's own, and without any.
  for (const raw of ['{"name":{"toString":1}}', '{"name":"lobby","region":{"toString":1,"valueOf":2}}']) {
    const { status, body } = await post("/v1/rooms", raw);
    expect([status, body.code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
    expect((body.details as { field: string }[]).map(({ field }) => field)).toEqual([
      /"(\w+)":\{/.exec(raw)?.[1] ?? "",
    ]);
  }
});

test("[3] an error message does not repeat the content of the body", async () => {
  const secret = "s3cret-value-that-must-not-come-back";
  const { status, text } = await post("/v1/rooms", JSON.stringify({ name: [secret], region: { secret } }));
  expect(status).toBe(400);
  expect(text).not.toContain(secret);
});

test("[3] a thousand wrong items are listed up to a bound", async () => {
  const members = Array.from({ length: 1000 }, () => ({ userId: "not allowed!" }));
  const { status, body, text } = await post("/v1/chat/conversations", JSON.stringify({ name: "many", members }));
  expect(status).toBe(400);
  expect((body.details as unknown[]).length).toBeLessThanOrEqual(64);
  expect(text.length).toBeLessThan(16_384);
});

const nested = (open: string, close: string, times: number) => `${open.repeat(times)}1${close.repeat(times)}`;

test("[1] 128 levels of JSON are accepted, 129 are refused, and no depth keeps the server busy", async () => {
  // The object itself and its metadata are two levels.
  const create = (name: string, levels: number) =>
    post("/v1/chat/conversations", `{"name":"${name}","metadata":{"k":${nested("[", "]", levels - 2)}}}`);
  expect((await create("deep", 128)).status).toBe(201);
  const { status, body } = await create("deeper", 129);
  expect([status, body.message]).toEqual([400, "The body is nested deeper than 128 levels."]);
  for (const value of [nested("[", "]", 400_000), nested('{"a":', "}", 150_000), "[".repeat(1_000_000)]) {
    for (const raw of [`{"name":${value}}`, value]) {
      expect((await post("/v1/rooms", raw)).status).toBe(400);
      // Without any credential too.
      expect((await server.call("POST", "/v1/auth/login", { raw })).status).toBe(400);
    }
  }
});

test("[1] 20,000 values are accepted, one more is refused before parsing; commas within strings do not count", async () => {
  const create = (name: string, values: number) =>
    post("/v1/rooms", `{"name":"${name}","ignored":[${"1,".repeat(values - 2)}1]}`);
  expect((await create("many", 20_000)).status).toBe(201);
  const { status, body } = await create("more", 20_001);
  expect([status, body.message]).toEqual([400, "The body has more than 20000 values."]);
  for (const raw of [`[${"[],".repeat(300_000)}[]]`, `{${'"k":1,'.repeat(150_000)}"k":1}`]) {
    const refused = await server.call("POST", "/v1/auth/login", { raw });
    expect([refused.status, refused.body.message]).toEqual([400, "The body has more than 20000 values."]);
  }
  expect((await post("/v1/rooms", JSON.stringify({ name: "text", ignored: ",".repeat(30_000) }))).status).toBe(201);
});

test("[1] brackets within strings do not count as levels", async () => {
  const text = `${"[{".repeat(500)}\\"${"[".repeat(500)}`;
  const { status, body } = await post(
    "/v1/live-streams",
    JSON.stringify({ title: "t", hostIdentity: "h", description: text }),
  );
  expect([status, body.description]).toEqual([201, text]);
});

test("[1] a body of one byte more than a mebibyte is 413, declared or not", async () => {
  const fits = `{"name":"x","pad":"${"x".repeat(1_048_576 - 21)}"}`;
  expect(Buffer.byteLength(fits)).toBe(1_048_576);
  expect((await post("/v1/rooms", fits)).status).toBe(201);
  const { status, body } = await post("/v1/rooms", `${fits} `);
  expect([status, body.code]).toEqual([413, "SVC_PAYLOAD_TOO_LARGE"]);
  const undeclared = new Request("http://localhost/v1/rooms", {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(65_536).fill(32));
      },
    }),
  });
  expect((await server.app.handle(undeclared)).status).toBe(413);
});

test("[1] field names with a meaning in JavaScript, such as __proto__, have no effect", async () => {
  expect((await post("/v1/rooms", '{"name":"a","__proto__":{"isOperator":true}}')).status).toBe(201);
  expect((await post("/v1/rooms", '{"name":"b","constructor":{"prototype":{"x":1}}}')).status).toBe(201);
  expect((await post("/v1/rooms", '{"name":"c","toString":1,"hasOwnProperty":null}')).status).toBe(201);
  expect((await post("/v1/rooms", '{"constructor":"d"}')).status).toBe(400);
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(({} as Record<string, unknown>).isOperator).toBeUndefined();
});
