import { afterEach, beforeEach, expect, test } from "bun:test";
import { COMMAND_LINE } from "../../../src/kernel/author.ts";
import { type RtcServer, rtcServer, until } from "../../harness/rtc.ts";

// Each error is provoked through the signaling socket, as a client does; what needs a browser or a node of its own
// is in test/e2e/observability.test.ts and test/nodes/remote/two-nodes.test.ts.

let server: RtcServer;
beforeEach(async () => {
  server = await rtcServer({ SIGNALING_MAX_PARTICIPANTS_PER_ROOM: 2 });
});
afterEach(() => server.close());

/** The errors that the project sees, with the state of the connection that each belongs to. */
async function told() {
  await server.services.rtcSessions.recorder.flush();
  const read = async (path: string) => (await server.call("GET", path, { key: server.key })).body as unknown;
  const errors = (await read("/v1/errors")) as { category: string; code: string; connectionId: string | null }[];
  const connections = (await read("/v1/connections")) as { state: string; disconnectReason: string | null }[];
  return { errors, connections };
}

test("[7] an expired token is one TOKEN_ERROR on a failed connection", async () => {
  const { token } = await server.mint(await server.room(), "anna", { ttlSeconds: 60 });
  server.clock.advance(61_000);
  const client = server.connect(token);
  client.send({ type: "room.join", id: "1", connectionId: "late" });
  await until(() => client.closed !== null);
  expect(client.closed?.code).toBe(4440);
  const { errors, connections } = await told();
  expect(errors).toMatchObject([
    { category: "TOKEN_ERROR", code: "TOKEN_EXPIRED", likelyCause: expect.stringContaining("expired") },
  ]);
  expect(connections.map(({ state }) => state).filter((state) => state !== "FAILED")).toEqual([]);
});

test("[7] a page of another origin is an AUTHORIZATION_ERROR", async () => {
  const { token } = await server.mint(await server.room(), "anna");
  const ours = { allowedOrigins: ["https://ours.example"], allowLocalhostOrigins: false };
  await server.runtime.write((unit) => server.services.projects.setOrigins(unit, server.projectId, ours, COMMAND_LINE));
  const client = server.connect(token, { origin: "https://theirs.example" });
  client.send({ type: "room.join", id: "1", connectionId: "foreign" });
  await until(() => client.closed !== null);
  expect((await told()).errors).toMatchObject([{ category: "AUTHORIZATION_ERROR", code: "ORIGIN_NOT_ALLOWED" }]);
});

test("[7] a full room is a SIGNALING_ERROR for the last participant only", async () => {
  const room = await server.room();
  await server.joined(room, "anna");
  await server.joined(room, "ben");
  const { token } = await server.mint(room, "carl");
  expect(await server.connect(token).join()).toMatchObject({ type: "error", code: "ROOM_FULL" });
  expect((await told()).errors).toMatchObject([{ category: "SIGNALING_ERROR", code: "ROOM_FULL" }]);
});

test("[7] a corrupted token is recorded for no project", async () => {
  const { token } = await server.mint(await server.room(), "anna");
  const client = server.connect(`${token.slice(0, -4)}AAAA`);
  client.send({ type: "room.join", id: "1", connectionId: "mangled" });
  await until(() => client.closed !== null);
  expect(await told()).toEqual({ errors: [], connections: [] });
});
