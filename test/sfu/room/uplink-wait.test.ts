import { expect, test } from "bun:test";
import { Health } from "../../../src/sfu/room/health.ts";

test("[17] the wait in the uplink is the round-trip time minus the shortest one of the path and the downlink's queue", () => {
  const health = new Health();
  expect(health.uplinkWaitMs("192.0.2.1", null, null)).toBeNull();
  expect(health.uplinkWaitMs("192.0.2.1", 40, 0)).toBe(0);
  expect(health.uplinkWaitMs("192.0.2.1", 640, 0)).toBe(600);
  expect(health.uplinkWaitMs("192.0.2.1", 640, 450)).toBe(150);
  expect(health.uplinkWaitMs("192.0.2.1", 30, null)).toBe(0);
  expect(health.uplinkWaitMs("192.0.2.1", 100, 200)).toBe(0);
  // Another address is another path, with a shortest round trip of its own.
  expect(health.uplinkWaitMs("198.51.100.7", 300, 0)).toBe(0);
  expect(health.uplinkWaitMs("198.51.100.7", 310, 0)).toBe(10);
});
