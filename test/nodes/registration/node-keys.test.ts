import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const SHARED = "test-sfu-secret";
const server = testServer();
afterAll(() => server.close());
const { clock, runtime, services } = server;
const { nodeKeys } = services;

const make = (name: string) => runtime.write((unit) => nodeKeys.create(unit, name));
const register = async (key: string, name: string) => {
  const body = { name, region: "eu", publicHost: "203.0.113.1", internalUrl: "http://203.0.113.1:7000" };
  const { status, body: said } = await server.call("POST", "/v1/rtc/servers/register", { key, body });
  return `${status} ${said.code ?? "ok"}`;
};
const beat = async (key: string, name: string) => {
  const body = { activeRooms: 0, activeParticipants: 0 };
  return (await server.call("PUT", `/v1/rtc/servers/${name}/heartbeat`, { key, body })).status;
};

test("a node's own secret is valid for its name only, and the shared one for nodes without their own", async () => {
  const { secret } = await make("n1");
  expect(await register(SHARED, "n2")).toBe("201 ok");
  expect(await register(secret, "n2")).toBe("403 SVC_PERMISSION_DENIED");
  expect(await beat(secret, "n2")).toBe(403);
  // The secret exists, but was not used yet: a running node continues with the one that it has.
  expect(await register(SHARED, "n1")).toBe("201 ok");
  expect(await register(secret, "n1")).toBe("200 ok");
  expect(await beat(secret, "n1")).toBe(200);
  expect(await register(SHARED, "n1")).toBe("403 SVC_PERMISSION_DENIED");
  expect(await beat(SHARED, "n1")).toBe(403);
});

test("the server calls each node with its own secret, and not at all once it is revoked", async () => {
  const first = await make("n3");
  expect(nodeKeys.secretFor("n3", SHARED)).toBe(SHARED);
  await register(first.secret, "n3");
  expect(nodeKeys.secretFor("n3", SHARED)).toBe(first.secret);
  clock.advance(60_000);
  const second = await make("n3");
  await register(second.secret, "n3");
  expect(nodeKeys.secretFor("n3", SHARED)).toBe(second.secret);
  const revoke = (publicId: string) => runtime.write((unit) => nodeKeys.revoke(unit, publicId));
  expect([await revoke(second.publicId), await revoke(second.publicId)]).toEqual([true, false]);
  expect(await register(second.secret, "n3")).toBe("401 SVC_AUTH_ERROR");
  expect(nodeKeys.secretFor("n3", SHARED)).toBe(first.secret);
  await revoke(first.publicId);
  expect(nodeKeys.secretFor("n3", SHARED)).toBeNull();
  expect(await register(SHARED, "n3")).toBe("403 SVC_PERMISSION_DENIED");
});

test("a forged secret is refused, and the database holds no secret", async () => {
  const { secret, publicId } = await make("n4");
  const [head = "", tail = ""] = secret.split(".");
  for (const wrong of [`${head}.${"A".repeat(43)}`, `svn_${"0".repeat(16)}.${tail}`, tail, `${secret}x`]) {
    expect(await register(wrong, "n4")).toBe("401 SVC_AUTH_ERROR");
  }
  const rows = JSON.stringify(runtime.db.$client.query("SELECT * FROM rtc_node_keys").all());
  expect([rows.includes(publicId), rows.includes(tail)]).toEqual([true, false]);
  expect(JSON.stringify(nodeKeys.list())).not.toContain(tail);
  await expect(make("metrics")).rejects.toThrow();
});

test("a node that reports no participants counts with the rooms placed on it", () => {
  const [one] = services.fleet.candidates(() => 7);
  expect(one).toMatchObject({ rooms: 7, participants: 7 });
});
