import { afterAll, expect, test } from "bun:test";
import { stoa } from "../../cli/stoa.ts";
import { realServer } from "../../harness/real-server.ts";

const server = await realServer({
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1000,
  RATE_LIMIT_RTC_TOKENS: 1000,
  CHAT_CONNECTION_RATE_LIMIT: 20,
  CHAT_SEND_RATE_LIMIT: 1000,
});
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

const chat = (...flags: string[]) =>
  stoa(["load-test", "--chat", "--url", server.url, "--api-key", server.key, ...flags]);

test("[11] load-test --chat sends, counts acknowledgements and deliveries, and archives what it made", async () => {
  const flags = ["--conversations", "2", "--senders", "2", "--readers", "3", "--rate", "10", "--duration", "2"];
  const { code, out, err } = await chat(...flags, "--json");
  expect(code).toBe(0);
  const report = JSON.parse(out);
  expect(report).toMatchObject({ wanted: 10, joined: 10, refused: {}, notAcknowledged: {}, lost: 0, outOfOrder: 0 });
  expect(report.sends).toBeGreaterThan(20);
  expect(report.acks).toBe(report.sends);
  expect([report.deliveries, report.deliveriesExpected]).toEqual([report.acks * 3, report.acks * 3]);
  expect(report.ackMs.p50).toBeGreaterThan(0);
  expect(report.ackMs.p99).toBeGreaterThanOrEqual(report.ackMs.p50);
  expect(report.deliveryMs.p50).toBeGreaterThan(0);
  expect(err).toMatch(/^1 of 2 s: \d+ sent, \d+ acknowledged, \d+ delivered$/m);
  const { text } = await server.call("GET", "/v1/chat/conversations");
  expect(text).not.toContain('"ACTIVE"');
}, 60_000);

test("[11] load-test --chat reports joins refused by a limit, and which limit to raise", async () => {
  const flags = ["--senders", "1", "--readers", "45", "--rate", "30", "--duration", "1"];
  const { code, out } = await chat(...flags);
  expect(code).toBe(0);
  expect(out).toMatch(/^JOINED +SENDS +ACKS +ACK MS p50\/p95\/p99 +DELIVERIES +MS p50\/p95\/p99 +LOST +OUT OF ORDER$/m);
  expect(out).toMatch(/^\d+ not joined: CLOSED 4429$/m);
  expect(out).toContain("raise CHAT_CONNECTION_RATE_LIMIT and CHAT_SEND_RATE_LIMIT");
}, 60_000);

test("[11] load-test refuses a server elsewhere, a wrong number and a missing key with exit 2", async () => {
  const elsewhere = await stoa(["load-test", "--url", "http://192.0.2.1:7000", "--api-key", "svk_dev_x.y"]);
  expect(elsewhere).toMatchObject({ code: 2 });
  expect(elsewhere.err).toContain("--yes-i-own-this-server");
  expect((await stoa(["load-test", "--url", server.url])).code).toBe(2);
  expect((await stoa(["load-test", "--api-key", "x", "--rooms", "0"])).code).toBe(2);
  expect((await stoa(["load-test", "--api-key", "x", "--chat", "--readers", "901"])).code).toBe(2);
}, 30_000);
