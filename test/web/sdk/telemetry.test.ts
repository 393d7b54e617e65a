import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { StoaError } from "../../../web/sdk/errors.ts";
import type { Rest } from "../../../web/sdk/rest.ts";
import { Telemetry } from "../../../web/sdk/room/telemetry.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

const offline = () => new StoaError("UNREACHABLE", "network", "no");
const refused = () => new StoaError("RATE_LIMITED", "rate-limited", "no");

/** A fake server that fails by the script and then accepts everything. */
function startTelemetry(script: (StoaError | null)[] = [], enabled = true) {
  const requests: { type: string; keepalive: boolean }[] = [];
  const call = async (_method: string, path: string, body: { type: string }, options: { keepalive: boolean }) => {
    expect(path).toBe("/v1/telemetry/events");
    expect(body).toMatchObject({ connectionId: "c1", timestamp: expect.stringMatching(/^\d{4}-.*Z$/) });
    requests.push({ type: body.type, keepalive: options.keepalive });
    const failure = script.shift();
    if (failure) throw failure;
  };
  const telemetry = new Telemetry({ call } as unknown as Rest, "c1", enabled);
  return { telemetry, types: () => requests.map(({ type }) => type), requests };
}

/** Runs the pending microtasks. */
const settled = async () => {
  for (let n = 0; n < 500; n++) await Promise.resolve();
};

describe("[5] telemetry", () => {
  test("collects events for two seconds and then sends them in order", async () => {
    const { telemetry, types } = startTelemetry();
    for (const type of ["connection_started", "connected", "track_published"]) telemetry.record(type);
    jest.advanceTimersByTime(1_999);
    await settled();
    expect(types()).toEqual([]);
    jest.advanceTimersByTime(1);
    await settled();
    expect(types()).toEqual(["connection_started", "connected", "track_published"]);
    jest.advanceTimersByTime(60_000);
    await settled();
    expect(types()).toHaveLength(3);
  });

  test("keeps events while offline and sends each once with the next event", async () => {
    const { telemetry, types } = startTelemetry([null, offline()]);
    for (const type of ["connected", "reconnecting"]) telemetry.record(type);
    jest.advanceTimersByTime(2_000);
    await settled();
    expect(types()).toEqual(["connected", "reconnecting"]);
    telemetry.record("reconnected");
    jest.advanceTimersByTime(2_000);
    await settled();
    expect(types()).toEqual(["connected", "reconnecting", "reconnecting", "reconnected"]);
  });

  test("aborts a request without a response after five seconds and repeats it with the next event", async () => {
    const attempts: string[] = [];
    let isBack = false;
    const call = (_method: string, _path: string, body: { type: string }, { signal }: { signal: AbortSignal }) => {
      attempts.push(body.type);
      if (isBack) return Promise.resolve();
      const cancelled = () => new StoaError("CANCELLED", "cancelled", "Cancelled.");
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(cancelled())));
    };
    const telemetry = new Telemetry({ call } as unknown as Rest, "c1", true);
    telemetry.record("ice_state_changed");
    jest.advanceTimersByTime(2_000);
    await settled();
    telemetry.record("reconnecting");
    jest.advanceTimersByTime(4_999);
    await settled();
    expect(attempts).toEqual(["ice_state_changed"]);
    isBack = true;
    jest.advanceTimersByTime(1);
    await settled();
    jest.advanceTimersByTime(2_000);
    await settled();
    expect(attempts).toEqual(["ice_state_changed", "ice_state_changed", "reconnecting"]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test("drops a refused event without throwing", async () => {
    const { telemetry, types } = startTelemetry([refused()]);
    telemetry.record("connected");
    telemetry.record("disconnected");
    jest.advanceTimersByTime(2_000);
    await settled();
    expect(types()).toEqual(["connected", "disconnected"]);
  });

  test("sends the last events at once, and they outlive the page", async () => {
    const { telemetry, requests } = startTelemetry();
    telemetry.record("disconnected");
    telemetry.close();
    await settled();
    // A pending reading of the statistics may end after the close.
    telemetry.record("ice_state_changed");
    expect(requests).toEqual([{ type: "disconnected", keepalive: true }]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test("queues at most 50 events", async () => {
    const { telemetry, types } = startTelemetry();
    for (let n = 0; n < 80; n++) telemetry.record("ice_state_changed");
    jest.advanceTimersByTime(2_000);
    await settled();
    expect(types()).toHaveLength(50);
  });

  test("sends nothing and starts no timer when it is disabled", async () => {
    const { telemetry, types } = startTelemetry([], false);
    telemetry.record("connected");
    expect(jest.getTimerCount()).toBe(0);
    telemetry.close();
    await settled();
    expect(types()).toEqual([]);
  });
});
