import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Stripe from "stripe";
import { printClient, readApi } from "../../../bin/api-client.ts";
import { Stoa, StoaApiError, verifyWebhook, WebhookVerificationError } from "../../../web/sdk/server.ts";
import { realServer } from "../../harness/running.ts";

type Seen = { method: string; path: string; key: string | null };

/** A server that answers by the script, one step a request; `Error` is a connection that breaks. */
function scripted(...answers: (Response | Error)[]) {
  const seen: Seen[] = [];
  const fetch = async (url: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    seen.push({
      method: init.method ?? "GET",
      path: url.replace("http://stoa.test", ""),
      key: headers.get("idempotency-key"),
    });
    const answer = answers.shift();
    if (!answer || answer instanceof Error) throw answer ?? new Error("nothing left");
    return answer;
  };
  return { seen, stoa: new Stoa({ url: "http://stoa.test/", apiKey: "svk_dev_x.y", fetch }) };
}

const busy = () => Response.json({ code: "SVC_SHUTTING_DOWN" }, { status: 503, headers: { "retry-after": "0" } });

describe("calls", () => {
  test("a create that breaks or meets a restart is tried again under the same idempotency key", async () => {
    const { seen, stoa } = scripted(new Error("reset"), busy(), Response.json({ id: "1", name: "r" }, { status: 201 }));
    expect(await stoa.rooms.create({ name: "r" })).toMatchObject({ name: "r" });
    expect(seen).toHaveLength(3);
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
    expect(seen[0]?.key).not.toBeNull();
  });

  test("two creates carry two keys, a read none", async () => {
    const { seen, stoa } = scripted(Response.json({}), Response.json({}), Response.json([]));
    await stoa.rooms.create({ name: "a" });
    await stoa.rooms.create({ name: "a" });
    await stoa.rooms.list({ limit: 5 });
    expect(seen[0]?.key).not.toBe(seen[1]?.key ?? null);
    expect(seen[2]).toEqual({ method: "GET", path: "/v1/rooms?limit=5", key: null });
  });

  test("a refusal is not tried again and tells code, request id and body", async () => {
    const { seen, stoa } = scripted(
      Response.json(
        { code: "SVC_ROOM_NOT_FOUND", message: "no" },
        { status: 404, headers: { "x-request-id": "req_1" } },
      ),
    );
    const failure = await stoa.rooms.get("nope/../x").catch((error) => error);
    expect(failure).toBeInstanceOf(StoaApiError);
    expect(failure).toMatchObject({ status: 404, code: "SVC_ROOM_NOT_FOUND", requestId: "req_1" });
    expect(seen).toEqual([{ method: "GET", path: "/v1/rooms/nope%2F..%2Fx", key: null }]);
  });

  test("after the last try the last failure is thrown", async () => {
    const { seen, stoa } = scripted(busy(), busy(), busy(), busy(), busy());
    await expect(stoa.project()).rejects.toMatchObject({ code: "SVC_SHUTTING_DOWN" });
    expect(seen).toHaveLength(4);
  });
});

describe("lists", () => {
  const page = (items: object[], next?: string) =>
    Response.json(
      items,
      next ? { headers: { link: `<https://rtc.example.com/v1/rooms?cursor=${next}>; rel="next"` } } : {},
    );

  test("are walked to their end, page by page, and no page is asked for before it is needed", async () => {
    const { seen, stoa } = scripted(page([{ name: "a" }, { name: "b" }], "c1"), page([{ name: "c" }], "c2"), page([]));
    const names: string[] = [];
    for await (const { name } of stoa.rooms.list({ limit: 2 })) {
      if (name === "b") expect(seen).toHaveLength(1);
      names.push(name);
    }
    expect(names).toEqual(["a", "b", "c"]);
    expect(seen.map(({ path }) => path)).toEqual(["/v1/rooms?limit=2", "/v1/rooms?cursor=c1", "/v1/rooms?cursor=c2"]);
  });

  test("are one page when awaited", async () => {
    const { seen, stoa } = scripted(page([{ name: "a" }], "c1"));
    expect((await stoa.rooms.list()).map(({ name }) => name)).toEqual(["a"]);
    expect(seen).toHaveLength(1);
  });

  test("a history goes back in time, a log of events forward", async () => {
    const history = (ids: string[], nextCursor: string | null) =>
      Response.json({ data: ids.map((id) => ({ id })), nextCursor, previousCursor: "p", hasMore: nextCursor !== null });
    const { seen, stoa } = scripted(history(["m3", "m2"], "c2"), history(["m1"], null));
    const ids: string[] = [];
    for await (const { id } of stoa.messages.history("lobby", { limit: 2 })) ids.push(id);
    expect(ids).toEqual(["m3", "m2", "m1"]);
    expect(seen[1]?.path).toBe("/v1/chat/conversations/lobby/messages?limit=2&before=c2");
    const events = scripted(
      Response.json({ data: [{ seq: 1 }], nextCursor: "1", hasMore: true }),
      Response.json({ data: [{ seq: 2 }], nextCursor: null, hasMore: false }),
    );
    const seqs: number[] = [];
    for await (const { seq } of events.stoa.conversations.events("lobby")) seqs.push(seq);
    expect(seqs).toEqual([1, 2]);
    expect(events.seen[1]?.path).toBe("/v1/chat/conversations/lobby/events?after=1");
  });
});

test("every route that an API key opens has its method: web/sdk/server/api.ts is as bin/api-client.ts prints it", async () => {
  expect(readFileSync(join(import.meta.dir, "../../../web/sdk/server/api.ts"), "utf8")).toBe(
    printClient(await readApi()),
  );
});

describe("[21] mintJoin, against the server itself", () => {
  test("makes what is missing, finds what is there, and its tokens open room and conversation", async () => {
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
        permissions: { publish: false },
      });
      expect(watching.room.id).toBe(anna?.room.id ?? "");
      expect(watching.rtc.permissions.publish).toBe(false);

      // A room that was closed gives its name back, its conversation keeps it.
      await stoa.rooms.close(watching.room.id);
      const again = await stoa.mintJoin({ room: "standup", user: "anna" });
      expect(again.room.id).not.toBe(watching.room.id);
      expect(again.conversation.id).not.toBe(watching.conversation.id);
      expect(again.conversation.roomId).toBe(again.room.id);
    } finally {
      await server.close();
    }
  });
});

describe("[5] webhook verification", () => {
  const secret = "whsec_dGVzdHNlY3JldHRlc3RzZWNyZXQ=";
  const payload = JSON.stringify({ id: "evt_1", type: "message.created", data: { text: "grüße" } });
  const now = 1_760_000_000_000;
  // Independent code: the scheme is Stripe's.
  const sign = (timestamp: number, key = secret) =>
    Stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: key, timestamp });
  const headers = (signature: string) => ({ "svc-signature": signature });

  test("what another implementation signed is taken, as text and as bytes, with headers of either kind", async () => {
    const signature = await sign(now / 1000);
    expect(await verifyWebhook(payload, headers(signature), secret, now)).toMatchObject({ id: "evt_1" });
    const bytes = new TextEncoder().encode(payload);
    expect(await verifyWebhook(bytes, new Headers(headers(signature)), secret, now)).toMatchObject({ id: "evt_1" });
    expect(await verifyWebhook(payload, { "Svc-Signature": [signature] }, secret, now)).toMatchObject({ id: "evt_1" });
  });

  test("during a rotation either of two signatures is enough", async () => {
    const [t, old] = (await sign(now / 1000, "whsec_old")).split(",");
    const [, fresh] = (await sign(now / 1000)).split(",");
    expect(await verifyWebhook(payload, headers(`${t},${old},${fresh}`), secret, now)).toMatchObject({ id: "evt_1" });
  });

  test("300 seconds are allowed either way, 301 are not", async () => {
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

  test("a changed body, another secret, a missing or mangled header are refused", async () => {
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
