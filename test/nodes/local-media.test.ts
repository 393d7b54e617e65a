import { expect, spyOn, test } from "bun:test";
import { openMedia } from "../../src/nodes/local-media.ts";
import type { ToWorker } from "../../src/sfu/worker-protocol.ts";
import { testConfig } from "../harness/test-config.ts";

const log = { trace() {}, debug() {}, info() {}, warn() {}, error() {}, fatal() {} };

test("MEDIA_WARM_UP decides whether media workers compile their code before their first call", async () => {
  const posted = spyOn(Worker.prototype, "postMessage");
  for (const MEDIA_WARM_UP of [true, false]) {
    const { node } = await openMedia({ config: testConfig({ MEDIA_WARM_UP }), log: log as never });
    await node.close();
  }
  const starts = posted.mock.calls
    .map(([message]) => message as ToWorker)
    .filter((message) => message.type === "start");
  posted.mockRestore();
  expect(starts.map(({ settings }) => settings.warmUp)).toEqual([true, false]);
});
