import { afterAll, expect, test } from "bun:test";
import { stoa } from "../cli/stoa.ts";
import { realServer } from "../harness/running.ts";

const server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1000, RATE_LIMIT_RTC_TOKENS: 1000 });
afterAll(server.close);

test("[11] load-test joins, sends, measures, reports, and leaves nothing behind", async () => {
  const flags = ["--rooms", "2", "--publishers", "1", "--subscribers", "2", "--duration", "2", "--json"];
  const { code, out } = await stoa(["load-test", "--url", server.url, "--api-key", server.key, ...flags]);
  expect(code).toBe(0);
  const report = JSON.parse(out);
  expect(report).toMatchObject({ wanted: 6, joined: 6, refused: {} });
  expect(report.packetsExpected).toBe(report.packetsSent * 2);
  expect(report.packetsReceived).toBeGreaterThan(report.packetsExpected / 2);
  expect(report.packetsReceived).toBeLessThanOrEqual(report.packetsExpected);
  expect(report.delayMs.p50).toBeGreaterThan(0);
  expect(report.receivedBps).toBeGreaterThan(0);
  const { text } = await server.call("GET", "/v1/rooms");
  expect(text).not.toContain('"ACTIVE"');
}, 60_000);

test("[11] load-test refuses a server elsewhere, a wrong number and a missing key with exit 2", async () => {
  const elsewhere = await stoa(["load-test", "--url", "http://192.0.2.1:7000", "--api-key", "svk_dev_x.y"]);
  expect(elsewhere).toMatchObject({ code: 2 });
  expect(elsewhere.err).toContain("--yes-i-own-this-server");
  expect((await stoa(["load-test", "--url", server.url])).code).toBe(2);
  expect((await stoa(["load-test", "--api-key", "x", "--rooms", "0"])).code).toBe(2);
}, 30_000);
