import { afterAll, expect, test } from "bun:test";
import { createDeliverySlots, createDeliveryThrottle } from "../../../src/features/webhooks/delivery-limits.ts";
import { testServer } from "../../harness/server.ts";
import { hookedProject, type Webhook } from "./hooked-project.ts";

const server = testServer();
afterAll(() => server.close());

const endpoint = (id: string, projectId = "p") => ({ id, projectId, environment: "PRODUCTION" as const });

test("[7] an endpoint that answers gets at most four deliveries at the same time", () => {
  const slots = createDeliverySlots();
  slots.take("a")(true);
  const releases = [1, 2, 3, 4].map(() => {
    expect(slots.isFree("a")).toBe(true);
    return slots.take("a");
  });
  expect(slots.isFree("a")).toBe(false);
  expect(slots.isFree("b")).toBe(true);
  releases[0]?.(true);
  expect(slots.isFree("a")).toBe(true);
});

test("an endpoint that has not answered yet, or no longer does, gets one delivery at a time", () => {
  const slots = createDeliverySlots();
  const release = slots.take("a");
  expect(slots.isFree("a")).toBe(false);
  release(true);
  const [first, second] = [slots.take("a"), slots.take("a")];
  first(false);
  expect(slots.isFree("a")).toBe(false);
  second(false);
  slots.take("a");
  expect(slots.isFree("a")).toBe(false);
});

test("a slot that was released unused proves nothing", () => {
  const slots = createDeliverySlots({ all: 10, perEndpoint: 4, unproven: 1 });
  slots.take("a")(null);
  slots.take("a");
  expect(["a", "b"].map(slots.isFree)).toEqual([false, false]);
  const known = createDeliverySlots({ all: 10, perEndpoint: 4, unproven: 1 });
  known.take("a")(true);
  known.take("a")(null);
  known.take("a");
  expect(["a", "b"].map(known.isFree)).toEqual([true, true]);
});

test("any number of endpoints that do not answer leaves delivery slots for those that do", () => {
  const slots = createDeliverySlots();
  slots.take("good")(true);
  let silent = 0;
  while (slots.isFree(`silent-${silent}`)) slots.take(`silent-${silent++}`);
  expect(silent).toBeGreaterThanOrEqual(100);
  expect(slots.isFree("good")).toBe(true);
});

test("all delivery slots together are fewer than the connections that fetch opens at the same time", () => {
  const slots = createDeliverySlots();
  let busy = 0;
  for (let n = 0; n < 300; n++) {
    if (slots.isFree(`e${n}`)) slots.take(`e${n}`)(true);
    while (slots.isFree(`e${n}`)) {
      slots.take(`e${n}`);
      busy += 1;
    }
  }
  expect(busy).toBeLessThan(256);
  expect(busy).toBeGreaterThan(128);
});

test("an endpoint that does not answer pauses longer and longer, one that answers again does not pause", () => {
  const throttle = createDeliveryThrottle(100);
  const pauses: number[] = [];
  for (let attempt = 0; attempt < 9; attempt++) {
    throttle.ended("a", false, 1_000_000);
    pauses.push(Math.max(0, throttle.pausedUntil("a", 1_000_000) - 1_000_000));
  }
  expect(pauses).toEqual([0, 0, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
  expect(throttle.pausedUntil("b", 1_000_000)).toBeLessThanOrEqual(1_000_000);
  throttle.ended("a", true, 1_000_000);
  expect(throttle.pausedUntil("a", 1_000_000)).toBeLessThanOrEqual(1_000_000);
});

test("all endpoints of an environment share its rate; another environment has its own", () => {
  const throttle = createDeliveryThrottle(100);
  let at = 1_000_000;
  let sent = 0;
  const sendAll = () => {
    while (throttle.pausedUntil(`e${sent % 50}`, at) <= at) throttle.started(endpoint(`e${sent++ % 50}`), at);
  };
  sendAll();
  expect(sent).toBeGreaterThanOrEqual(2_000);
  expect(sent).toBeLessThan(2_060);
  const burst = sent;
  for (let second = 0; second < 60; second++) {
    at += 1_000;
    sendAll();
  }
  expect(sent - burst).toBeLessThanOrEqual(60 * 100 + 1);
  expect(sent - burst).toBeGreaterThan(60 * 100 - 60);
  throttle.started(endpoint("other", "q"), at);
  expect(throttle.pausedUntil("other", at)).toBeLessThanOrEqual(at);
});

test("a clock that is set back does not prolong a pause", () => {
  const throttle = createDeliveryThrottle(1);
  for (let n = 0; n < 2_100; n++) throttle.started(endpoint("a"), 10_000_000);
  for (let n = 0; n < 20; n++) throttle.ended("a", false, 10_000_000);
  expect(throttle.pausedUntil("a", 1_000_000)).toBe(1_000_000);
});

test("fifty endpoints that refuse connections are tried a few times each, however many events there are", async () => {
  const project = await hookedProject(server);
  // Nothing listens on this port.
  const refused = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port } = refused;
  await refused.stop(true);
  const hooks: Webhook[] = [];
  for (let n = 0; n < 50; n++) hooks.push(await project.register(`http://127.0.0.1:${port}/${n}`));
  for (let n = 0; n < 20; n++) await project.announce(`user-${n}`);
  await server.services.webhookDispatcher.runDue();
  const attempts = async () => {
    const lists = await Promise.all(hooks.map(({ id }) => project.deliveries(id)));
    return lists.flat().reduce((sum, { attemptCount }) => sum + attemptCount, 0);
  };
  expect(await attempts()).toBe(50 * 3);
  // Half a second later each gets one more attempt, so the pending deliveries are still sent.
  server.clock.advance(500);
  await server.services.webhookDispatcher.runDue();
  expect(await attempts()).toBe(50 * 4);
});
