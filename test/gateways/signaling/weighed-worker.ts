/** A media worker that reports its heap on request, after a collection. */
import { heapStats } from "bun:jsc";
import "../../../src/sfu/worker.ts";

const scales = new BroadcastChannel("scales");
scales.onmessage = ({ data }: MessageEvent) => {
  if (data !== "weigh") return;
  Bun.gc(true);
  const { objectCount, heapSize, extraMemorySize } = heapStats();
  scales.postMessage({ objects: objectCount, bytes: heapSize + extraMemorySize });
};
