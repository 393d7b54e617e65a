import { afterAll, expect, test } from "bun:test";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { testServer } from "../../harness/server.ts";
import { hookedProject } from "./hooked-project.ts";
import { type Received, startReceiver } from "./receiver.ts";

const server = testServer();
const receiver = startReceiver();
afterAll(async () => {
  receiver.close();
  await server.close();
});
const project = await hookedProject(server);
const webhook = await project.register(receiver.url);
const { webhooks: stripe } = new Stripe("sk_test_unused");
/** The independent verifiers use the system clock. */
server.clock.set(Date.now());

async function receiveOne(): Promise<Received> {
  const before = receiver.received.length;
  await project.announce();
  await server.services.webhookDispatcher.runDue();
  const one = receiver.received[before];
  if (!one) throw new Error("nothing arrived");
  return one;
}

const verifyOwn = ({ body, headers }: Received, secret: string): Promise<unknown> =>
  stripe.constructEventAsync(body, headers.get("svc-signature") ?? "", secret, 300);
const verifyStandard = ({ body, headers }: Received, secret: string) =>
  new StandardWebhook(secret).verify(body, Object.fromEntries(headers));

test("[5] svc-signature is `t=<unix seconds>,v1=<hex>` over `<t>.<body>`, as an independent verifier checks it", async () => {
  const one = await receiveOne();
  expect(one.headers.get("svc-signature")).toMatch(/^t=\d{10},v1=[0-9a-f]{64}$/);
  expect(await verifyOwn(one, webhook.secret)).toEqual(one.event);
  expect(one.headers.get("svc-event-id")).toBe(one.event.id);
  expect(one.event.id).toMatch(/^evt_[0-9A-Za-z]{24}$/);
  expect(one.headers.get("content-type")).toBe("application/json");
});

test("[5] neither another secret, another body nor an old signature passes", async () => {
  const one = await receiveOne();
  await expect(verifyOwn(one, `${webhook.secret}x`)).rejects.toThrow("No signatures found");
  const changed = { ...one, body: one.body.replace("ann", "eve") };
  await expect(verifyOwn(changed, webhook.secret)).rejects.toThrow("No signatures found");
  server.clock.advance(-301_000);
  const old = await receiveOne();
  server.clock.set(Date.now());
  await expect(verifyOwn(old, webhook.secret)).rejects.toThrow("Timestamp outside the tolerance zone");
});

test("[7] the Standard Webhooks headers pass a stock verifier", async () => {
  const one = await receiveOne();
  expect(verifyStandard(one, webhook.secret)).toEqual(one.event);
  expect(one.headers.get("webhook-id")).toBe(one.event.id);
  expect(() => verifyStandard({ ...one, body: `${one.body} ` }, webhook.secret)).toThrow();
});

test("[7] after rotate-secret both secrets verify for a day, then the new one alone", async () => {
  const { body, status } = await project.call("POST", `/${webhook.id}/rotate-secret`);
  expect(status).toBe(200);
  const rotated = String(body.secret);
  expect(rotated).not.toBe(webhook.secret);

  const during = await receiveOne();
  expect(during.headers.get("svc-signature")).toMatch(/^t=\d{10},v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
  for (const secret of [webhook.secret, rotated]) {
    expect(await verifyOwn(during, secret)).toEqual(during.event);
    expect(verifyStandard(during, secret)).toEqual(during.event);
  }

  server.clock.advance(24 * 3_600_000);
  const after = await receiveOne();
  expect(after.headers.get("svc-signature")).toMatch(/^t=\d{10},v1=[0-9a-f]{64}$/);
  server.clock.set(Date.now());
  expect(() => verifyStandard({ ...after, headers: withTime(after) }, webhook.secret)).toThrow("No matching signature");
});

test("[7] a leaked secret can be dropped at once", async () => {
  for (const overlapSeconds of [-1, 86_401, 0.5, "soon"]) {
    expect((await project.call("POST", `/${webhook.id}/rotate-secret`, { overlapSeconds })).status).toBe(400);
  }
  const { body } = await project.call("POST", `/${webhook.id}/rotate-secret`, { overlapSeconds: 0 });
  const one = await receiveOne();
  expect(one.headers.get("svc-signature")).toMatch(/^t=\d{10},v1=[0-9a-f]{64}$/);
  expect(await verifyOwn(one, String(body.secret))).toEqual(one.event);
});

/** Replaces the timestamp by one that the verifier accepts, so that only the signature can fail. */
function withTime({ headers }: Received): Headers {
  const changed = new Headers(headers);
  changed.set("webhook-timestamp", String(Math.floor(Date.now() / 1000)));
  return changed;
}
