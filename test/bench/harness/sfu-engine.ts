/** An engine as the only thing in a process, so that its memory can be told from that of everything else. Answers like `sfu-server.ts`. */
import { heapStats } from "bun:jsc";
import { findNativeLibrary } from "../../../src/nodes/native-library.ts";
import { Engine } from "../../../src/sfu/engine.ts";
import type { WorkerCall } from "../../../src/sfu/worker-protocol.ts";

const [address = "127.0.0.1"] = process.argv.slice(2);
const engine = await Engine.start(
  {
    hostname: address,
    port: 0,
    announce: [address],
    tcp: false,
    srtpProfiles: ["AEAD_AES_128_GCM"],
    nativeLibrary: (await findNativeLibrary("auto", { info() {} }))?.path,
  },
  { emit() {}, onFault: (error) => console.error(error) },
  { usesReceiveLoop: true },
);

async function memory() {
  for (let i = 0; i < 3; i++) {
    Bun.gc(true);
    await Bun.sleep(200);
  }
  const { heapSize, heapCapacity, extraMemorySize, objectTypeCounts } = heapStats();
  const blocks = heapCapacity + extraMemorySize;
  return { rss: process.memoryUsage.rss(), heap: heapSize, blocks, objectTypeCounts };
}

for await (const line of console) {
  if (line === "") break;
  const { id, method, request } = JSON.parse(line);
  try {
    const response =
      method === "memory"
        ? await memory()
        : method === "cpu"
          ? process.cpuUsage()
          : engine.call({ type: "call", id, method, request } as WorkerCall);
    console.log(JSON.stringify({ id, response: response ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ id, error: String(error) }));
  }
}
engine.close();
process.exit();
