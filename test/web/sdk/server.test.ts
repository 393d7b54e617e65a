import { describe, expect, spyOn, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Stripe from "stripe";
import { printClient, readApi } from "../../../bin/api-client.ts";
import { Stoa, StoaApiError, verifyWebhook, WebhookVerificationError } from "../../../web/sdk/server.ts";
import { realServer } from "../../harness/real-server.ts";

type SentRequest = { method: string; path: string; key: string | null };

/** A client of a fake server that returns these responses in order; an `Error` breaks the connection. */
function scripted(...responses: (Response | Error)[]) {
  const requests: SentRequest[] = [];
  const fetch = async (url: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    requests.push({
      method: init.method ?? "GET",
      path: url.replace("http://stoa.test", ""),
      key: headers.get("idempotency-key"),
    });
    const response = responses.shift();
    if (!response || response instanceof Error) throw response ?? new Error("no response left");
    return response;
  };
  return { requests, stoa: new Stoa({ url: "http://stoa.test/", apiKey: "svk_dev_x.y", fetch }) };
}

const busy = () => Response.json({ code: "SVC_SHUTTING_DOWN" }, { status: 503, headers: { "retry-after": "0" } });

describe("calls", () => {
  test("a create that fails is retried with the same idempotency key", async () => {
    const { requests, stoa } = scripted(
      new Error("reset"),
      busy(),
      Response.json({ id: "1", name: "r" }, { status: 201 }),
    );
    expect(await stoa.rooms.create({ name: "r" })).toMatchObject({ name: "r" });
    expect(requests).toHaveLength(3);
    expect(new Set(requests.map(({ key }) => key)).size).toBe(1);
    expect(requests[0]?.key).not.toBeNull();
  });

  test("an id or a name that would lead to another route is refused", async () => {
    const { requests, stoa } = scripted(new Response(null, { status: 204 }));
    for (const identity of [".", ".."])
      await expect(stoa.rooms.removeParticipant("standup", identity)).rejects.toThrow('No id or name is "." or ".."');
    await expect(stoa.rooms.get("..")).rejects.toThrow(TypeError);
    await expect(stoa.people.erase("..")).rejects.toThrow(TypeError);
    expect(requests).toEqual([]);
    await stoa.rooms.removeParticipant("standup", "../..");
    expect(requests).toMatchObject([{ path: "/v1/rooms/standup/participants/..%2F.." }]);
  });

  test("a field that the server ignored is logged once", async () => {
    const warn = spyOn(console, "warn").mockImplementation(() => {});
    const ignoring = (fields: string) => Response.json({}, { headers: { "stoa-ignored-fields": fields } });
    const { stoa } = scripted(ignoring("topic"), ignoring("topic"), ignoring("colour"), Response.json({}));
    try {
      for (let count = 0; count < 4; count++) await stoa.rooms.create({ name: "a" });
      const lines = warn.mock.calls.map(([line]) => line);
      expect(lines).toEqual([
        "stoa: POST /v1/rooms ignored unknown fields: topic",
        "stoa: POST /v1/rooms ignored unknown fields: colour",
      ]);
    } finally {
      warn.mockRestore();
    }
  });

  test("two creates have different keys, and a read has none", async () => {
    const { requests, stoa } = scripted(Response.json({}), Response.json({}), Response.json([]));
    await stoa.rooms.create({ name: "a" });
    await stoa.rooms.create({ name: "a" });
    await stoa.rooms.list({ limit: 5 });
    expect(requests[0]?.key).not.toBe(requests[1]?.key ?? null);
    expect(requests[2]).toEqual({ method: "GET", path: "/v1/rooms?limit=5", key: null });
  });

  test("a refused request is not retried, and its error has the code, the request id and the body", async () => {
    const { requests, stoa } = scripted(
      Response.json(
        { code: "SVC_ROOM_NOT_FOUND", message: "no" },
        { status: 404, headers: { "x-request-id": "req_1" } },
      ),
    );
    const failure = await stoa.rooms.get("nope/../x").catch((error) => error);
    expect(failure).toBeInstanceOf(StoaApiError);
    expect(failure).toMatchObject({ status: 404, code: "SVC_ROOM_NOT_FOUND", requestId: "req_1" });
    expect(requests).toEqual([{ method: "GET", path: "/v1/rooms/nope%2F..%2Fx", key: null }]);
  });

  test("after the last retry the last error is thrown", async () => {
    const { requests, stoa } = scripted(busy(), busy(), busy(), busy(), busy());
    await expect(stoa.project()).rejects.toMatchObject({ code: "SVC_SHUTTING_DOWN" });
    expect(requests).toHaveLength(4);
  });

  test("a server that cannot be reached is reported, with the reason that is in the cause of Node's error", async () => {
    const failed = Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } });
    const unreachable = (error: Error) =>
      new Stoa({ url: "http://stoa.test", apiKey: "k", retries: 0, fetch: () => Promise.reject(error) }).project();
    await expect(unreachable(failed)).rejects.toMatchObject({
      message: "http://stoa.test does not answer: ECONNREFUSED",
      cause: failed,
    });
    await expect(unreachable(new Error("odd"))).rejects.toThrow("http://stoa.test does not answer: odd");
  });
});

describe("lists", () => {
  const page = (items: object[], next?: string) =>
    Response.json(
      items,
      next ? { headers: { link: `<https://rtc.example.com/v1/rooms?cursor=${next}>; rel="next"` } } : {},
    );

  test("are iterated to their end, and each page is requested only when it is needed", async () => {
    const { requests, stoa } = scripted(
      page([{ name: "a" }, { name: "b" }], "c1"),
      page([{ name: "c" }], "c2"),
      page([]),
    );
    const names: string[] = [];
    for await (const { name } of stoa.rooms.list({ limit: 2 })) {
      if (name === "b") expect(requests).toHaveLength(1);
      names.push(name);
    }
    expect(names).toEqual(["a", "b", "c"]);
    expect(requests.map(({ path }) => path)).toEqual([
      "/v1/rooms?limit=2",
      "/v1/rooms?cursor=c1",
      "/v1/rooms?cursor=c2",
    ]);
  });

  test("return one page when awaited", async () => {
    const { requests, stoa } = scripted(page([{ name: "a" }], "c1"));
    expect((await stoa.rooms.list()).map(({ name }) => name)).toEqual(["a"]);
    expect(requests).toHaveLength(1);
  });

  test("a history is listed backwards, a log of events forwards", async () => {
    const history = (ids: string[], nextCursor: string | null) =>
      Response.json({ data: ids.map((id) => ({ id })), nextCursor, previousCursor: "p", hasMore: nextCursor !== null });
    const { requests, stoa } = scripted(history(["m3", "m2"], "c2"), history(["m1"], null));
    const ids: string[] = [];
    for await (const { id } of stoa.messages.history("lobby", { limit: 2 })) ids.push(id);
    expect(ids).toEqual(["m3", "m2", "m1"]);
    expect(requests[1]?.path).toBe("/v1/chat/conversations/lobby/messages?limit=2&before=c2");
    const events = scripted(
      Response.json({ data: [{ seq: 1 }], nextCursor: "1", hasMore: true }),
      Response.json({ data: [{ seq: 2 }], nextCursor: null, hasMore: false }),
    );
    const seqs: number[] = [];
    for await (const { seq } of events.stoa.conversations.events("lobby")) seqs.push(seq);
    expect(seqs).toEqual([1, 2]);
    expect(events.requests[1]?.path).toBe("/v1/chat/conversations/lobby/events?after=1");
  });
});

test("web/sdk/server/api.ts is up to date: run bin/api-client.ts after a change to the API", async () => {
  expect(readFileSync(join(import.meta.dir, "../../../web/sdk/server/api.ts"), "utf8")).toBe(
    printClient(await readApi()),
  );
});

describe("[21] mintJoin against a real server", () => {
  test("creates a missing room and conversation, reuses existing ones, and mints tokens for both", async () => {
    const server = await realServer();
    try {
      const stoa = new Stoa({ url: server.url, apiKey: server.key });
      const [anna, ben] = await Promise.all(["anna", "ben"].map((user) => stoa.mintJoin({ room: "standup", user })));
      expect(ben?.room.id).toBe(anna?.room.id ?? "");
      expect(ben?.conversation.id).toBe(anna?.conversation.id ?? "");
      expect(anna?.rtc.permissions).toMatchObject({ publish: true, subscribe: true, publishData: true });
      expect(anna?.chat).toMatchObject({ userId: "anna", conversations: [anna?.conversation.id] });
      const members = await stoa.conversations.members(anna?.conversation.id ?? "").toArray();
      expect(members.map(({ userId }) => userId).sort()).toEqual(["anna", "ben"]);

      const watching = await stoa.mintJoin({
        room: anna?.room.id ?? "",
        user: "carl",
        name: "Carl C.",
        metadata: "on call",
        attributes: { role: "nurse" },
        permissions: { publish: false },
      });
      expect(watching.rtc).toMatchObject({ name: "Carl C.", metadata: "on call", attributes: { role: "nurse" } });
      const named = await stoa.conversations.members(watching.conversation.id).toArray();
      expect(named.find(({ userId }) => userId === "carl")?.name).toBe("Carl C.");
      expect(watching.room.id).toBe(anna?.room.id ?? "");
      expect(watching.rtc.permissions.publish).toBe(false);

      // The name of a closed room is free again, but its conversation keeps the name.
      await stoa.rooms.close(watching.room.id);
      const again = await stoa.mintJoin({ room: "standup", user: "anna" });
      expect(again.room.id).not.toBe(watching.room.id);
      expect(again.conversation.id).not.toBe(watching.conversation.id);
      expect(again.conversation.roomId).toBe(again.room.id);

      // A room of LiveKit's clients has a name that conversations cannot have.
      const { runtime, services, projectId } = server;
      const tenant = { projectId, environment: "DEVELOPMENT" as const };
      await runtime.write((unit) => services.rooms.create(unit, tenant, { name: "Team meeting" }));
      const team = await stoa.mintJoin({ room: "Team meeting", user: "anna" });
      expect([team.room.name, team.conversation.roomId]).toEqual(["Team meeting", team.room.id]);
      expect((await stoa.mintJoin({ room: "Team meeting", user: "ben" })).conversation.id).toBe(team.conversation.id);
      await expect(stoa.mintJoin({ room: "standup", user: "not valid" })).rejects.toThrow("participantIdentity");
    } finally {
      await server.close();
    }
  });
});

describe("[5] webhook verification", () => {
  const secret = "whsec_dGVzdHNlY3JldHRlc3RzZWNyZXQ=";
  const payload = JSON.stringify({ id: "evt_1", type: "message.created", data: { text: "grüße" } });
  const now = 1_760_000_000_000;
  // The scheme is Stripe's, so its library checks ours independently.
  const sign = (timestamp: number, key = secret) =>
    Stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: key, timestamp });
  const headers = (signature: string) => ({ "svc-signature": signature });

  test("a signature of another implementation is accepted for text and bytes, with either kind of headers", async () => {
    const signature = await sign(now / 1000);
    expect(await verifyWebhook(payload, headers(signature), secret, now)).toMatchObject({ id: "evt_1" });
    const bytes = new TextEncoder().encode(payload);
    expect(await verifyWebhook(bytes, new Headers(headers(signature)), secret, now)).toMatchObject({ id: "evt_1" });
    expect(await verifyWebhook(payload, { "Svc-Signature": [signature] }, secret, now)).toMatchObject({ id: "evt_1" });
  });

  test("during a key rotation one of two signatures is enough", async () => {
    const [t, old] = (await sign(now / 1000, "whsec_old")).split(",");
    const [, fresh] = (await sign(now / 1000)).split(",");
    expect(await verifyWebhook(payload, headers(`${t},${old},${fresh}`), secret, now)).toMatchObject({ id: "evt_1" });
  });

  test("a clock difference of 300 seconds is accepted, 301 seconds are not", async () => {
    for (const offset of [-300, 300]) {
      expect(await verifyWebhook(payload, headers(await sign(now / 1000 + offset)), secret, now)).toMatchObject({
        id: "evt_1",
      });
    }
    for (const offset of [-301, 301]) {
      await expect(verifyWebhook(payload, headers(await sign(now / 1000 + offset)), secret, now)).rejects.toThrow(
        WebhookVerificationError,
      );
    }
  });

  test("a changed body, another secret and a missing or malformed header are refused", async () => {
    const good = await sign(now / 1000);
    for (const [body, signature] of [
      [`${payload} `, good],
      [payload, await sign(now / 1000, "whsec_other")],
      [payload, ""],
      [payload, "t=abc,v1=00"],
      [payload, `t=${now / 1000}`],
      [payload, `t=${now / 1000},v1=zz`],
      [payload, `t=${now / 1000},v1=`],
    ] as const) {
      await expect(verifyWebhook(body, headers(signature), secret, now)).rejects.toThrow(WebhookVerificationError);
    }
  });
});
