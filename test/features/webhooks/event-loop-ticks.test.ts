import { expect, test } from "bun:test";
import { createDispatcher } from "../../../src/features/webhooks/dispatcher.ts";
import { webhookStores } from "../../../src/features/webhooks/store/stores.ts";
import { createMetrics } from "../../../src/kernel/metrics.ts";
import { testServer } from "../../harness/server.ts";
import { hookedProject } from "./hooked-project.ts";

test.each([40, 1])(
  "[17] attempts to %d endpoints start in as many event-loop ticks, and all of them start",
  async (many) => {
    const server = testServer();
    const project = await hookedProject(server);
    for (let n = 0; n < many; n++) await project.register(`http://127.0.0.1:9/${n}`);
    await project.announce();

    let tick = 0;
    let isWatching = true;
    const countTicks = () => {
      tick += 1;
      if (isWatching) setImmediate(countTicks);
    };
    const startedIn = new Map<number, number>();
    const fetch = async () => {
      startedIn.set(tick, (startedIn.get(tick) ?? 0) + 1);
      return new Response(null, { status: 204 });
    };
    // Every step takes a millisecond, the dispatcher's share of a tick.
    let nowMs = 0;
    const clock = () => ++nowMs;
    const runtime = { ...server.runtime, metrics: createMetrics(), fetch: fetch as unknown as typeof globalThis.fetch };
    const stores = webhookStores(runtime.db);
    const dispatcher = createDispatcher(
      runtime,
      stores,
      () => null,
      () => 0,
      clock,
    );

    countTicks();
    await dispatcher.runDue();
    isWatching = false;
    const started = [...startedIn.values()];
    expect(started.reduce((sum, count) => sum + count, 0)).toBe(many);
    expect(Math.max(...started)).toBeLessThanOrEqual(2);
    await server.close();
  },
);
