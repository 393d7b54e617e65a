/** A media worker that releases many old objects and collects garbage; it reports the size of its heap before and after. */
import { edenGC, heapSize } from "bun:jsc";
import "../../src/sfu/worker.ts";

declare const self: Worker;

const serve = self.onmessage;

/** All within one task, so that the engine has no occasion to collect by itself. */
self.onmessage = () => {
  let held: object[] = Array.from({ length: 250_000 }, (_, n) => ({ name: `v${n}`, list: [n] }));
  Bun.gc(true);
  const full = heapSize();
  held = [];
  edenGC();
  const released = heapSize();
  serve?.call(self, new MessageEvent("message", { data: { type: "collectGarbage" } }));
  self.postMessage({ held: held.length, full, released, collected: heapSize() });
};
