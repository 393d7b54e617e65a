import { afterAll, describe, expect, test } from "bun:test";
import { VARIABLE_NAMES } from "../../src/kernel/config/variables.ts";
import { fillPath, type Operation, operationsOf } from "../harness/operations.ts";
import { rtcServer } from "../harness/rtc.ts";
import { tenantOf } from "../harness/tenant.ts";

// The tenant is made through routes that have a limit, so the limits of the attack are those of a second server.
const server = await rtcServer();
const tenant = await tenantOf(server, { operator: true });
const budgets = VARIABLE_NAMES.filter((name) => /^RATE_LIMIT_(?!WINDOW)/.test(name));
const strict = await rtcServer(Object.fromEntries(budgets.map((name) => [name, 1])));
afterAll(async () => {
  await server.close();
  await strict.close();
});

const MEBIBYTE = "[],".repeat(349_524);
const HEAVY = `[${MEBIBYTE}[]]`;
const withBodies = (await operationsOf(server)).filter(({ method }) => method !== "GET");
const operations = withBodies.filter(({ path }) => !path.startsWith("/v1/storage/"));
const guarded = operations.filter(({ credentials }) => credentials.length > 0);

const addressOf = (operation: Operation) =>
  `http://localhost${fillPath(operation, (name) => tenant.idFor(operation, name))}`;

/** A request that can tell whether anybody asked for its body. */
function watched(operation: Operation, credential?: string) {
  let asked = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        asked = true;
        controller.enqueue(new TextEncoder().encode(HEAVY));
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const headers = new Headers({ "content-type": operation.bodyType, "content-length": String(HEAVY.length) });
  if (credential !== undefined) headers.set("authorization", `Bearer ${credential}`);
  const request = new Request(addressOf(operation), { method: operation.method, headers, body });
  return { request, wasAsked: () => asked };
}

describe("[3] a body is read only after the credential was accepted", () => {
  test.each(guarded.map((operation) => [operation.name, operation] as const))("%s", async (_, operation) => {
    for (const credential of [undefined, "svk_dev_aaaaaaaaaaaaaaaa.b", "not.a.token"]) {
      const { request, wasAsked } = watched(operation, credential);
      expect((await server.app.handle(request)).status).toBe(401);
      expect(wasAsked()).toBe(false);
    }
  });

  test("the test notices when a body is read", async () => {
    const create = operations.find(({ name }) => name === "POST /v1/rooms");
    if (!create) throw new Error("POST /v1/rooms is not in the reference");
    const { request, wasAsked } = watched(create, tenant.credentials.apiKey);
    expect((await server.app.handle(request)).status).toBe(400);
    expect(wasAsked()).toBe(true);
  });
});

describe("[3] a body is read only after the rate limit was checked", () => {
  const limited = operations.filter(({ responses, credentials }) => responses.has(429) && credentials.length === 0);
  test.each(limited.map((operation) => [operation.name, operation] as const))("%s", async (_, operation) => {
    const empty = { method: operation.method, headers: { "content-type": "application/json" }, body: "{}" };
    await strict.app.handle(new Request(addressOf(operation), empty));
    const { request, wasAsked } = watched(operation);
    expect((await strict.app.handle(request)).status).toBe(429);
    expect(wasAsked()).toBe(false);
  });

  test("the rate limit of a credential is checked before the body is read", async () => {
    const roomId = await strict.room();
    const [operation] = operations.filter(({ name }) => /^POST \/v1\/rooms\/\{\w+\}\/rtc-tokens$/.test(name));
    if (!operation) throw new Error("minting is not in the reference");
    await strict.mint(roomId, "first");
    const { request, wasAsked } = watched(operation, strict.key);
    const { method, headers, body } = request;
    const minting = new Request(`http://localhost/v1/rooms/${roomId}/rtc-tokens`, { method, headers, body });
    expect((await strict.app.handle(minting)).status).toBe(429);
    expect(wasAsked()).toBe(false);
  });

  test("public routes without a body never read one", async () => {
    const open = operations.filter(({ credentials, body }) => credentials.length === 0 && body === undefined);
    expect(open.length).toBeGreaterThan(0);
    for (const operation of open) {
      const { request, wasAsked } = watched(operation);
      await server.app.handle(request);
      expect([operation.name, wasAsked()]).toEqual([operation.name, false]);
    }
  });
});

test("[3] routes that are not in the reference, such as LiveKit's, read no body without a credential", async () => {
  const known = new Set(operations.map(({ method, path }) => `${method} ${path}`));
  const hidden = (server.app.routes as { method: string; path: string }[]).filter(
    ({ method, path }) =>
      !["GET", "HEAD", "WS", "OPTIONS"].includes(method) &&
      !path.startsWith("/v1/storage/") &&
      !known.has(`${method} ${path.replace(/\/:(\w+)/g, "/{$1}")}`),
  );
  expect(hidden.map(({ path }) => path)).toContain("/twirp/:service/:method");
  for (const { method, path } of hidden) {
    const filled = path.replace(/:\w+/g, "x");
    for (const bodyType of ["application/json", "application/protobuf", "application/sdp"]) {
      const { request, wasAsked } = watched({ method, path: filled, bodyType } as Operation);
      const { status } = await server.app.handle(request);
      expect([path, status >= 400 && status < 500, wasAsked()]).toEqual([path, true, false]);
    }
  }
});

/** CPU in microseconds. */
function costOfParsing(): number {
  const before = process.cpuUsage();
  JSON.parse(HEAVY);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

test("[3] refusing a body of 1 MiB costs less than a fifth of parsing it, on every route", async () => {
  const EACH = 10;
  const MOST_ROUNDS = 40;
  /** Refused for the credential, or for the address of an upload; where anybody may ask, for having asked too often. */
  const refusedBy = ({ credentials, responses }: Operation) =>
    credentials.length === 0 && responses.has(429) ? strict : server;
  const ask = (operation: Operation, body: string) => {
    const init = { method: operation.method, headers: { "content-type": operation.bodyType }, body };
    return new Request(addressOf(operation), init);
  };
  /** CPU of ten requests, in microseconds. */
  const cost = async (operation: Operation) => {
    const { app } = refusedBy(operation);
    const requests = Array.from({ length: EACH }, () => ask(operation, HEAVY));
    const before = process.cpuUsage();
    for (const request of requests) await app.handle(request);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  const parsing = Math.min(...Array.from({ length: 5 }, costOfParsing)) * EACH;
  // A request without a session to end is not refused, and its body is not read either.
  const grantedToAll = new Set(["POST /v1/auth/logout"]);
  expect(withBodies.length).toBeGreaterThan(guarded.length + 9);
  for (const operation of withBodies) {
    await refusedBy(operation).app.handle(ask(operation, "{}"));
    const { status } = await refusedBy(operation).app.handle(ask(operation, HEAVY));
    const isRefused = [401, 403, 429].includes(status) || grantedToAll.has(operation.name);
    expect([operation.name, status, isRefused]).toEqual([operation.name, status, true]);
    let refusing = Number.POSITIVE_INFINITY;
    // Other work of the machine only adds to the time, so the minimum is closest to the real cost.
    for (let round = 0; round < MOST_ROUNDS && refusing >= parsing / 5; round++) {
      refusing = Math.min(refusing, await cost(operation));
    }
    expect([operation.name, refusing < parsing / 5]).toEqual([operation.name, true]);
  }
}, 120_000);

test("[3] with a credential, refusing a body of 1 MiB of lists costs at most a few times its parsing", async () => {
  const request = () => server.call("POST", "/v1/rooms", { key: tenant.credentials.apiKey, raw: HEAVY });
  await request();
  let parsing = Number.POSITIVE_INFINITY;
  let refusing = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 40 && refusing >= parsing * 6 + 10_000; round++) {
    parsing = Math.min(parsing, costOfParsing());
    const before = process.cpuUsage();
    await request();
    const { user, system } = process.cpuUsage(before);
    refusing = Math.min(refusing, user + system);
  }
  expect(refusing).toBeLessThan(parsing * 6 + 10_000);
});
