import { afterAll, expect, test } from "bun:test";
import { hookedEndpoint } from "../features/webhooks/hooked-project.ts";
import { failing, ok, type Receiver, startReceiver } from "../features/webhooks/receiver.ts";
import { testServer } from "../harness/server.ts";

// Disables by the number of failures alone, as the spec says; their duration is tested with the webhooks.
const server = testServer({ WEBHOOK_DISABLE_AFTER_SECONDS: 0 });
afterAll(server.close);
const { runDue } = server.services.webhookDispatcher;
const hooked = (options?: object) => hookedEndpoint(server, options);
const identities = ({ received }: Receiver) => received.map(({ event }) => event.data.identity);

test("[6] 50 consecutive failed attempts disable the endpoint, 49 do not", async () => {
  const { announce, webhook, receiver } = await hooked();
  receiver.reply = failing;
  for (let failures = 1; failures <= 50; failures++) {
    await announce();
    // Each announcement brings one first attempt; its retries are not due.
    await runDue();
    expect(await webhook()).toMatchObject({
      consecutiveFailures: failures,
      status: failures < 50 ? "ACTIVE" : "DISABLED",
      disabledReason: failures < 50 ? null : "consecutive_failures",
    });
  }
  expect(receiver.received).toHaveLength(50);
});

test("[6] a success resets the count of failures", async () => {
  const { announce, webhook, receiver } = await hooked();
  receiver.reply = failing;
  for (let n = 0; n < 49; n++) await announce();
  await runDue();
  expect(await webhook()).toMatchObject({ consecutiveFailures: 49, status: "ACTIVE" });
  receiver.reply = ok;
  await announce();
  await runDue();
  expect(await webhook()).toMatchObject({ consecutiveFailures: 0 });
});

test("[6] a disabled endpoint gets no events; enabling clears the count and continues pending deliveries, and recover sends the rest", async () => {
  const { announce, webhook, call, id, deliveries, receiver } = await hooked();
  const since = new Date(server.clock.now()).toISOString();
  receiver.reply = failing;
  await announce("before");
  await runDue();
  await call("PATCH", `/${id}`, { status: "DISABLED" });
  await announce("during");
  server.clock.advance(3_600_000);
  await runDue();
  expect(identities(receiver)).toEqual(["before"]);
  expect(await deliveries(id)).toHaveLength(1);
  expect((await call("POST", `/${id}/recover`, { since })).body.code).toBe("SVC_CONFLICT");

  receiver.reply = ok;
  expect((await call("PATCH", `/${id}`, { status: "ACTIVE" })).body).toMatchObject({ consecutiveFailures: 0 });
  await runDue();
  expect(identities(receiver)).toEqual(["before", "before"]);
  expect(await webhook()).toMatchObject({ status: "ACTIVE", disabledReason: null });

  expect((await call("POST", `/${id}/recover`, { since })).body).toEqual({ recovered: 1 });
  await runDue();
  expect(identities(receiver)).toEqual(["before", "before", "during"]);
  expect((await call("POST", `/${id}/recover`, { since })).body).toEqual({ recovered: 0 });
});

test("[7] deliveries that were pending when an endpoint was disabled are sent once it is enabled, later events are not", async () => {
  const { announce, call, id, receiver } = await hooked();
  const since = new Date(server.clock.now()).toISOString();
  const setStatus = (status: string) => call("PATCH", `/${id}`, { status });
  // Nothing is sent until the end, so each of these still waits when the next change is made.
  for (const round of [1, 2, 3]) {
    await announce(`active-${round}`);
    await setStatus("DISABLED");
    await announce(`disabled-${round}`);
    await setStatus("DISABLED");
    await setStatus("ACTIVE");
    await setStatus("ACTIVE");
  }
  // Waiting deliveries are already being sent.
  expect((await call("POST", `/${id}/recover`, { since })).body).toEqual({ recovered: 3 });
  await announce("last");
  await runDue();
  const disabled = ["disabled-1", "disabled-2", "disabled-3"];
  expect(identities(receiver).sort()).toEqual(["active-1", "active-2", "active-3", ...disabled, "last"]);
});

test("[7] an endpoint never gets events from before its registration, however often it is enabled", async () => {
  const first = await hooked();
  await first.announce("before");
  const later = startReceiver();
  const { id } = await first.register(later.url);
  await first.call("PATCH", `/${id}`, { status: "DISABLED" });
  await first.call("PATCH", `/${id}`, { status: "ACTIVE" });
  await runDue();
  expect(identities(first.receiver)).toEqual(["before"]);
  expect(later.received).toEqual([]);
  await first.announce("after");
  await runDue();
  expect(identities(later)).toEqual(["after"]);
});

test("[7] more deliveries than one batch all arrive, each once", async () => {
  const { announce, receiver } = await hooked({ events: ["live_stream.viewer_joined"] });
  for (let n = 0; n < 100; n++) await announce(`viewer-${n}`);
  await runDue();
  expect(identities(receiver)).toHaveLength(100);
  expect(new Set(identities(receiver)).size).toBe(100);
});

test("[7] recover sends the failed events of the range, both ends included, that match the filter", async () => {
  const { announce, call, id, receiver } = await hooked({ events: ["live_stream.viewer_joined"] });
  receiver.reply = () => new Response(null, { status: 410 });
  const times: string[] = [];
  for (const identity of ["one", "two", "three", "four"]) {
    await call("PATCH", `/${id}`, { status: "ACTIVE" });
    times.push(new Date(server.clock.now()).toISOString());
    await announce(identity);
    await runDue();
    server.clock.advance(1000);
  }
  await call("PATCH", `/${id}`, { status: "ACTIVE" });
  receiver.reply = ok;
  receiver.received.length = 0;
  const recovered = await call("POST", `/${id}/recover`, { since: times[1], until: times[2] });
  expect(recovered.body).toEqual({ recovered: 2 });
  await runDue();
  expect(identities(receiver).sort()).toEqual(["three", "two"]);

  for (const body of [{ since: "yesterday" }, { since: times[2], until: times[1] }]) {
    expect((await call("POST", `/${id}/recover`, body)).status).toBe(400);
  }
});

test("[7] redeliver sends the same id and bytes with all attempts again, for failed and delivered events", async () => {
  const { announce, call, id, deliveries, receiver } = await hooked();
  await announce("ann");
  await runDue();
  const [first] = await deliveries(id);
  receiver.reply = failing;
  const again = await call("POST", `/${id}/deliveries/${first?.id}/redeliver`);
  expect([again.status, again.body.status, again.body.deliveredAt]).toEqual([200, "PENDING", null]);
  for (let attempt = 1; attempt <= 8; attempt++) {
    await runDue();
    server.clock.advance(200_000);
  }
  expect(receiver.received).toHaveLength(7);
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  expect(new Set(receiver.received.map(({ headers }) => headers.get("svc-event-id"))).size).toBe(1);
  expect((await deliveries(id))[0]).toMatchObject({ status: "FAILED", attemptCount: 7 });

  receiver.reply = ok;
  await call("POST", `/${id}/deliveries/${first?.id}/redeliver`);
  await runDue();
  expect((await deliveries(id))[0]).toMatchObject({ status: "DELIVERED", attemptCount: 8 });
  await call("PATCH", `/${id}`, { status: "DISABLED" });
  const refused = await call("POST", `/${id}/deliveries/${first?.id}/redeliver`);
  expect([refused.status, refused.body.code]).toEqual([409, "SVC_CONFLICT"]);
  expect((await call("POST", `/${id}/deliveries/nothing/redeliver`)).body.code).toBe("SVC_DELIVERY_NOT_FOUND");
});

test("[7] test reaches one endpoint regardless of its filter and status, and no other", async () => {
  const project = await hooked({ events: ["message.created"] });
  const { call, id, projectId, deliveries, receiver } = project;
  await project.register(receiver.url);
  for (const status of ["ACTIVE", "DISABLED"]) {
    await call("PATCH", `/${id}`, { status });
    const { status: code, body } = await call("POST", `/${id}/test`);
    expect([code, body.eventType, body.status]).toEqual([200, "webhook.test", "PENDING"]);
    await runDue();
  }
  expect(receiver.received.map(({ event }) => [event.type, event.projectId, event.data])).toEqual([
    ["webhook.test", projectId, { webhookId: id }],
    ["webhook.test", projectId, { webhookId: id }],
  ]);
  expect((await deliveries(id)).map(({ status }) => status)).toEqual(["DELIVERED", "DELIVERED"]);
  const since = new Date(0).toISOString();
  await call("PATCH", `/${id}`, { status: "ACTIVE" });
  expect((await call("POST", `/${id}/recover`, { since })).body).toEqual({ recovered: 0 });
});

test("[7] deliveries are listed newest first, page by page and by status", async () => {
  const { announce, call, id, token, deliveries, receiver } = await hooked();
  for (const identity of ["a", "b", "c"]) await announce(identity);
  await runDue();
  receiver.reply = failing;
  await announce("d");
  await runDue();
  const all = await deliveries(id);
  expect(all.map(({ status }) => status)).toEqual(["PENDING", "DELIVERED", "DELIVERED", "DELIVERED"]);
  const first = await call("GET", `/${id}/deliveries?limit=3`);
  const next = /<([^>]+)>; rel="next"/.exec(first.headers.get("link") ?? "")?.[1] ?? "";
  const second = await server.call("GET", next, { key: token });
  expect([...(first.body as never as []), ...(second.body as never as [])]).toEqual(all as never);
  expect((await call("GET", `/${id}/deliveries?status=PENDING`)).body).toEqual([all[0]] as never);
  for (const query of ["limit=0", "limit=201", "status=LOST", "cursor=x"]) {
    expect((await call("GET", `/${id}/deliveries?${query}`)).status).toBe(400);
  }
  for (const query of ["limit=1", "limit=200"]) {
    expect((await call("GET", `/${id}/deliveries?${query}`)).status).toBe(200);
  }
});

test("[7] events and deliveries are deleted after 30 days, not before", async () => {
  const { announce, deliveries, id } = await hooked();
  await announce();
  await runDue();
  const day = 24 * 3_600_000;
  server.clock.advance(30 * day);
  await server.services.deliveries.prune(server.clock.now());
  expect(await deliveries(id)).toHaveLength(1);
  await server.services.deliveries.prune(server.clock.now() + 1);
  expect(await deliveries(id)).toEqual([]);
});
