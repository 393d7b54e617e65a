import { afterAll, expect, test } from "bun:test";
import { createPace } from "../../../src/features/webhooks/pace.ts";
import { testServer } from "../../harness/server.ts";
import { hookedProject, type Webhook } from "./hooked-project.ts";

const server = testServer();
afterAll(() => server.close());

const endpoint = (id: string, projectId = "p") => ({ id, projectId, environment: "PRODUCTION" as const });

test("an endpoint that does not answer rests longer and longer, one that answers again does not rest", () => {
  const pace = createPace(100);
  const rests: number[] = [];
  for (let attempt = 0; attempt < 9; attempt++) {
    pace.ended("a", false, 1_000_000);
    rests.push(Math.max(0, pace.restsUntil("a", 1_000_000) - 1_000_000));
  }
  expect(rests).toEqual([0, 0, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
  expect(pace.restsUntil("b", 1_000_000)).toBeLessThanOrEqual(1_000_000);
  pace.ended("a", true, 1_000_000);
  expect(pace.restsUntil("a", 1_000_000)).toBeLessThanOrEqual(1_000_000);
});

test("all endpoints of an environment share its rate; another environment has its own", () => {
  const pace = createPace(100);
  let at = 1_000_000;
  let sent = 0;
  const sendAll = () => {
    while (pace.restsUntil(`e${sent % 50}`, at) <= at) pace.sent(endpoint(`e${sent++ % 50}`), at);
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
  pace.sent(endpoint("other", "q"), at);
  expect(pace.restsUntil("other", at)).toBeLessThanOrEqual(at);
});

test("a clock that is set back makes nobody rest for as long", () => {
  const pace = createPace(1);
  for (let n = 0; n < 2_100; n++) pace.sent(endpoint("a"), 10_000_000);
  for (let n = 0; n < 20; n++) pace.ended("a", false, 10_000_000);
  expect(pace.restsUntil("a", 1_000_000)).toBe(1_000_000);
});

test("fifty endpoints that refuse at once are tried a few times each, however much happens", async () => {
  const project = await hookedProject(server);
  // Nobody listens there.
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
  // Half a second later one more of each, and nothing is lost: what waits is still to be sent.
  server.clock.advance(500);
  await server.services.webhookDispatcher.runDue();
  expect(await attempts()).toBe(50 * 4);
});
