import { expect, test } from "bun:test";
import { createDispatcher } from "../../../src/features/webhooks/dispatcher.ts";
import { webhookStores } from "../../../src/features/webhooks/store/stores.ts";
import { createMetrics } from "../../../src/kernel/metrics.ts";
import { testServer } from "../../harness/server.ts";
import { hookedProject } from "./hooked-project.ts";

test.each([40, 1])(
  "[17] attempts to %d endpoints begin over as many turns of the loop, and all of them do",
  async (many) => {
    const server = testServer();
    const project = await hookedProject(server);
    for (let n = 0; n < many; n++) await project.register(`http://127.0.0.1:9/${n}`);
    await project.announce();

    let turn = 0;
    let isWatching = true;
    const countTurns = () => {
      turn += 1;
      if (isWatching) setImmediate(countTurns);
    };
    const begunIn = new Map<number, number>();
    const fetch = async () => {
      begunIn.set(turn, (begunIn.get(turn) ?? 0) + 1);
      return new Response(null, { status: 204 });
    };
    // Whatever is looked at takes a millisecond, which is all that it gets of a turn.
    let nowMs = 0;
    const clock = () => ++nowMs;
    const runtime = { ...server.runtime, metrics: createMetrics(), fetch: fetch as unknown as typeof globalThis.fetch };
    const stores = webhookStores(runtime.db);
    const dispatcher = createDispatcher(runtime, stores, () => 0, clock);

    countTurns();
    await dispatcher.runDue();
    isWatching = false;
    const begun = [...begunIn.values()];
    expect(begun.reduce((sum, count) => sum + count, 0)).toBe(many);
    expect(Math.max(...begun)).toBeLessThanOrEqual(2);
    await server.close();
  },
);
