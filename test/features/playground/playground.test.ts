import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestServer, testServer } from "../../harness/server.ts";

const HERE = { host: "localhost:7000", origin: "http://localhost:7000" };

describe("the playground's routes", () => {
  let server: TestServer;
  beforeAll(() => {
    server = testServer();
  });
  afterAll(() => server.close());

  const join = (body: object, headers: Record<string, string> = HERE) =>
    server.call("POST", "/v1/playground/join", { body, headers });

  test("do not apply their restrictions to other routes", async () => {
    expect((await server.call("GET", "/docs")).status).toBe(200);
    expect((await server.call("GET", "/openapi.json", { headers: { host: "stoa.example" } })).status).toBe(200);
  });

  test("return 404 until the playground is enabled for a project", async () => {
    for (const [method, path] of [
      ["GET", ""],
      ["POST", "/join"],
      ["POST", "/stream"],
      ["POST", "/impair"],
    ] as const) {
      const reply = await server.call(method, `/v1/playground${path}`, {
        headers: HERE,
        ...(method === "POST" ? { body: { room: "hello", mode: "call" } } : {}),
      });
      expect(reply.status).toBe(404);
      expect(reply.body.code).toBe("SVC_ROUTE_NOT_FOUND");
    }
    const { projectId } = await server.project();
    server.services.playground.openFor(projectId);
    expect((await server.call("GET", "/v1/playground", { headers: HERE })).body).toEqual({ available: true });
  });

  test("accept requests only from the page itself and under a loopback name", async () => {
    const body = { room: "hello", mode: "call" };
    const refused = [
      { host: "localhost:7000", origin: "http://evil.example" },
      // A name of a stranger that was made to lead here: same origin, but not ours.
      { host: "evil.example:7000", origin: "http://evil.example:7000" },
      { host: "localhost.evil.example", origin: "http://localhost.evil.example" },
      { host: "127.0.0.1.evil.example:7000", origin: "http://127.0.0.1.evil.example:7000" },
    ];
    for (const headers of refused) {
      const reply = await join(body, headers);
      expect([headers.host, reply.status, reply.body.code]).toEqual([headers.host, 403, "SVC_ORIGIN_NOT_ALLOWED"]);
    }
    for (const host of ["localhost:7000", "127.0.0.1:7000", "[::1]:7000"]) {
      expect((await join(body, { host, origin: `http://${host}` })).status).toBe(200);
    }
  });

  test("bring two callers into one room and conversation, and reuse them for the same name", async () => {
    const [anna, ben] = [
      await join({ room: "two", identity: "anna", mode: "call" }),
      await join({ room: "two", identity: "ben", mode: "call" }),
    ];
    expect(anna.body).toMatchObject({ mode: "call", identity: "anna" });
    expect(anna.body).not.toHaveProperty("streamId");
    const roomOf = (body: Record<string, unknown>) => (body.rtc as { roomId: string }).roomId;
    expect(roomOf(ben.body)).toBe(roomOf(anna.body));
    expect(ben.body.conversationId).toBe(anna.body.conversationId);
    const chat = anna.body.chat as { token: string };
    const members = await server.call("GET", `/v1/chat/conversations/${anna.body.conversationId}/members`, {
      key: chat.token,
    });
    expect(
      JSON.parse(members.text)
        .map(({ userId }: { userId: string }) => userId)
        .sort(),
    ).toEqual(["anna", "ben"]);
    expect((await join({ room: "two", identity: "anna", mode: "call" })).body.conversationId).toBe(
      anna.body.conversationId,
    );
  });

  test("return the same stream to host and viewer in either order, and let the host start and end it", async () => {
    const viewer = await join({ room: "show", identity: "vera", mode: "viewer" });
    const host = await join({ room: "show", identity: "hans", mode: "host" });
    expect(host.body.streamId).toBe(viewer.body.streamId);
    expect(host.body.streamStatus).toBe("CREATED");
    const { streamId } = host.body;
    const move = (action: string) =>
      server.call("POST", "/v1/playground/stream", { body: { streamId, action }, headers: HERE });
    expect((await move("start")).body).toEqual({ streamId, status: "LIVE" });
    expect((await move("end")).body).toEqual({ streamId, status: "ENDED" });
    expect((await move("end")).status).toBe(409);
    const next = await join({ room: "show", identity: "hans", mode: "host" });
    expect(next.body.streamId).not.toBe(streamId);
  });

  test("assign a missing identity and refuse an invalid one", async () => {
    expect((await join({ room: "two", mode: "call" })).body.identity).toMatch(/^guest-[0-9a-f]{4}$/);
    for (const body of [
      { room: "two", identity: "no spaces", mode: "call" },
      { room: "two", identity: "anna", mode: "watch" },
      { room: "no spaces", identity: "anna", mode: "call" },
      { room: "", identity: "anna", mode: "call" },
    ]) {
      expect((await join(body)).status).toBe(400);
    }
  });
});
