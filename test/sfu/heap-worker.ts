/** A media worker that lets go of much that has grown old, is told of calm, and says what its heap held before and after. */
import { edenGC, heapSize } from "bun:jsc";
import "../../src/sfu/worker.ts";

declare const self: Worker;

const serve = self.onmessage;

/** Within one turn: the engine has no occasion to collect by itself. */
self.onmessage = () => {
  let held: object[] = Array.from({ length: 250_000 }, (_, n) => ({ name: `v${n}`, list: [n] }));
  Bun.gc(true);
  const withAll = heapSize();
  held = [];
  edenGC();
  const letGo = heapSize();
  serve?.call(self, new MessageEvent("message", { data: { type: "calm" } }));
  self.postMessage({ held: held.length, withAll, letGo, calm: heapSize() });
};
