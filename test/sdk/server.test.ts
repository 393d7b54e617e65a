import { describe, expect, test } from "bun:test";
import Stripe from "stripe";
import { Stoa, StoaApiError, verifyWebhook, WebhookVerificationError } from "../../web/sdk/server.ts";

type Seen = { method: string; path: string; key: string | null };

/** A server that answers by the script, one step a request; `Error` is a connection that breaks. */
function scripted(...answers: (Response | Error)[]) {
  const seen: Seen[] = [];
  const fetch = (async (url: string | URL | Request, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    seen.push({
      method: init.method ?? "GET",
      path: String(url).replace("http://stoa.test", ""),
      key: headers.get("idempotency-key"),
    });
    const answer = answers.shift();
    if (!answer || answer instanceof Error) throw answer ?? new Error("nothing left");
    return answer;
  }) as typeof globalThis.fetch;
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
