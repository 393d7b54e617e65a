import { afterAll, expect, test } from "bun:test";
import { backoffMs } from "../../src/features/webhooks/retry.ts";
import { hookedEndpoint } from "../features/webhooks/hooked-project.ts";
import { failing, ok, startReceiver } from "../features/webhooks/receiver.ts";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { runDue } = server.services.webhookDispatcher;
const hooked = (options?: object) => hookedEndpoint(server, options);

test("[6] an event arrives in its envelope, and the delivery is recorded as such", async () => {
  const { projectId, announce, delivery, webhook, call, id, receiver } = await hooked();
  await announce("ann");
  await runDue();
  expect(receiver.received.map(({ event }) => event)).toEqual([
    {
      id: expect.stringMatching(/^evt_/),
      type: "live_stream.viewer_joined",
      projectId,
      environment: "DEVELOPMENT",
      createdAt: "2026-03-01T12:00:00.000Z",
      data: { streamId: "stream_1", identity: "ann", at: "2026-03-01T12:00:00.000Z" },
    },
  ]);
  const one = await delivery();
  expect(one).toEqual({
    id: expect.any(String),
    eventId: receiver.received[0]?.event.id,
    eventType: "live_stream.viewer_joined",
    status: "DELIVERED",
    attempts: [{ at: "2026-03-01T12:00:00.000Z", statusCode: 200, durationMs: 0, error: null }],
    attemptCount: 1,
    nextAttemptAt: null,
    lastError: null,
    createdAt: "2026-03-01T12:00:00.000Z",
    deliveredAt: "2026-03-01T12:00:00.000Z",
  } as never);
  const read = await call("GET", `/${id}/deliveries/${one?.id}`);
  expect(read.body).toEqual({ ...one, body: receiver.received[0]?.body });
  expect(await webhook()).toMatchObject({ lastDeliveryAt: "2026-03-01T12:00:00.000Z", consecutiveFailures: 0 });
});

test("[6] no event is written for a change that was rolled back, and none is sent before the change is on disk", async () => {
  const { projectId, receiver } = await hooked();
  const { runtime } = server;
  const data = { streamId: "stream_1", identity: "x", at: "" };
  const undone = runtime.write((unit) => {
    runtime.bus.publish(unit, "webhook", {
      type: "live_stream.viewer_left",
      projectId,
      environment: "DEVELOPMENT",
      at: 0,
      data,
    });
    throw new Error("undone");
  });
  await expect(undone).rejects.toThrow("undone");
  await undone.catch(() => {});
  await runDue();
  expect(receiver.received).toEqual([]);
});

test("[6] a filter lets only its types through; the other environment and other projects get no events", async () => {
  const filtered = await hooked({ events: ["message.created"] });
  const matching = await hooked({ events: ["live_stream.viewer_joined", "message.created"] });
  const production = await matching.register("https://production.example.com/", { environment: "PRODUCTION" });
  await filtered.announce();
  await matching.announce();
  await runDue();
  expect(matching.receiver.received.map(({ event }) => event.projectId)).toEqual([matching.projectId]);
  expect(filtered.receiver.received).toEqual([]);
  expect(await filtered.deliveries(filtered.id)).toEqual([]);
  expect(await matching.deliveries(production.id)).toEqual([]);
});

test("[6] six attempts after 10, 20, 40, 80 and 160 seconds with the same id and bytes, then FAILED", async () => {
  const { announce, delivery, receiver } = await hooked();
  receiver.reply = failing;
  const start = server.clock.now();
  await announce();
  await runDue();
  const due = [10, 20, 40, 80, 160];
  for (const [index, seconds] of due.entries()) {
    const pending = await delivery();
    expect(pending).toMatchObject({ status: "PENDING", attemptCount: index + 1, lastError: "HTTP 500" });
    const waitMs = Date.parse(pending?.nextAttemptAt ?? "") - server.clock.now();
    expect(waitMs).toBeGreaterThanOrEqual(seconds * 900);
    expect(waitMs).toBeLessThanOrEqual(seconds * 1100);
    server.clock.advance(waitMs - 1);
    await runDue();
    expect(receiver.received).toHaveLength(index + 1);
    server.clock.advance(1);
    await runDue();
    expect(receiver.received).toHaveLength(index + 2);
  }
  const failed = await delivery();
  expect(failed).toMatchObject({ status: "FAILED", attemptCount: 6, nextAttemptAt: null, deliveredAt: null });
  expect(failed?.attempts.map(({ statusCode }) => statusCode)).toEqual([500, 500, 500, 500, 500, 500]);
  expect(new Set(receiver.received.map(({ headers }) => headers.get("svc-event-id"))).size).toBe(1);
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  // Each attempt is signed at its own time.
  expect(new Set(receiver.received.map(({ headers }) => headers.get("svc-signature"))).size).toBe(6);

  server.clock.set(start + 24 * 3_600_000);
  await runDue();
  expect(receiver.received).toHaveLength(6);
});

test("[6] the wait doubles and varies by a tenth at most", () => {
  expect([1, 2, 3, 4, 5].map((n) => backoffMs(n, 10_000, 0.5))).toEqual([10_000, 20_000, 40_000, 80_000, 160_000]);
  expect([backoffMs(1, 10_000, 0), backoffMs(1, 10_000, 1)]).toEqual([9000, 11_000]);
  expect([backoffMs(5, 10_000, 0), backoffMs(5, 10_000, 1)]).toEqual([144_000, 176_000]);
});

test("[6] a retry with a 2xx response ends the delivery and clears the endpoint's failure count", async () => {
  const { announce, delivery, webhook, receiver } = await hooked();
  receiver.reply = failing;
  await announce();
  await runDue();
  expect(await webhook()).toMatchObject({ consecutiveFailures: 1, lastDeliveryAt: null });
  receiver.reply = () => new Response(null, { status: 299 });
  server.clock.advance(11_000);
  await runDue();
  expect(await delivery()).toMatchObject({ status: "DELIVERED", attemptCount: 2, lastError: "HTTP 500" });
  expect(await webhook()).toMatchObject({ consecutiveFailures: 0 });
});

test("[6] any response but 2xx is a failure, including a redirect, which is not followed", async () => {
  const elsewhere = startReceiver();
  for (const status of [300, 301, 302, 307, 308, 400, 401, 404, 500, 502]) {
    const { announce, delivery, receiver } = await hooked();
    receiver.reply = () => new Response(null, { status, headers: { location: elsewhere.url } });
    await announce();
    await runDue();
    const one = await delivery();
    expect([one?.status, one?.attempts[0]?.statusCode]).toEqual(["PENDING", status]);
  }
  expect(elsewhere.received).toEqual([]);
  elsewhere.close();
});

test("[6] an endpoint has 5000 ms to respond", async () => {
  const { announce, delivery, receiver } = await hooked();
  let answer: (response: Response) => void = () => {};
  receiver.reply = () => new Promise((resolve) => (answer = resolve));
  await announce();
  const done = runDue();
  await receiver.arrived(1);
  server.clock.advance(4999);
  expect((await delivery())?.attemptCount).toBe(0);
  server.clock.advance(1);
  await done;
  expect(await delivery()).toMatchObject({
    status: "PENDING",
    attempts: [{ statusCode: null, durationMs: 5000, error: "no HTTP response" }],
  });
  answer(new Response());
  receiver.reply = ok;
});

test("[6] a refused connection is a failed attempt like any other", async () => {
  const { announce, delivery, call, id } = await hooked();
  await call("PATCH", `/${id}`, { url: "http://127.0.0.1:9/?token=verysecret" });
  await announce();
  await runDue();
  expect(await delivery()).toMatchObject({
    status: "PENDING",
    attempts: [{ statusCode: null, error: "no HTTP response" }],
  });
  expect(server.logLines.join("")).not.toContain("verysecret");
});

for (const status of [429, 503]) {
  test(`[7] retry-after of a ${status} is honoured, in seconds and as a date`, async () => {
    for (const header of ["45", new Date(server.clock.now() + 45_000).toUTCString()]) {
      const { announce, delivery, receiver } = await hooked();
      receiver.reply = () => new Response(null, { status, headers: { "retry-after": header } });
      await announce();
      await runDue();
      const at = Date.parse((await delivery())?.nextAttemptAt ?? "");
      expect(at - server.clock.now()).toBe(45_000);
    }
  });
}

test("[7] a retry-after that is past, unreadable, endless or on another status does not shorten the back-off", async () => {
  for (const [status, header, least, most] of [
    [503, "0", 9000, 11_000],
    [503, "soon", 9000, 11_000],
    [503, "-5", 9000, 11_000],
    [500, "3600", 9000, 11_000],
    [503, "99999999999", 86_400_000, 86_400_000],
  ] as const) {
    const { announce, delivery, receiver } = await hooked();
    receiver.reply = () => new Response(null, { status, headers: { "retry-after": header } });
    await announce();
    await runDue();
    const wait = Date.parse((await delivery())?.nextAttemptAt ?? "") - server.clock.now();
    expect(wait).toBeGreaterThanOrEqual(least);
    expect(wait).toBeLessThanOrEqual(most);
  }
});

test("[7] 410 disables the endpoint as gone and ends the delivery", async () => {
  const { announce, delivery, webhook, receiver } = await hooked();
  receiver.reply = () => new Response(null, { status: 410 });
  await announce();
  await runDue();
  expect(await delivery()).toMatchObject({ status: "FAILED", attemptCount: 1, lastError: "HTTP 410" });
  expect(await webhook()).toMatchObject({ status: "DISABLED", disabledReason: "gone" });
});

test("[5] nothing is sent unsigned: an unreadable secret fails the attempt with an error that says what to do", async () => {
  const { announce, delivery, call, id, receiver } = await hooked();
  server.runtime.db.$client.run("UPDATE webhook_endpoints SET sealed_secret = ? WHERE id = ?", ["AAAA".repeat(20), id]);
  await announce();
  await runDue();
  expect(receiver.received).toEqual([]);
  expect(await delivery()).toMatchObject({
    status: "PENDING",
    lastError: "the signing secret cannot be read; rotate it",
  });
  await call("POST", `/${id}/rotate-secret`);
  server.clock.advance(11_000);
  await runDue();
  expect(await delivery()).toMatchObject({ status: "DELIVERED" });
  expect(receiver.received[0]?.headers.get("svc-signature")).toMatch(/^t=\d+,v1=[0-9a-f]{64}$/);
});
