/** See `udp-floor.ts`: a process of its own, so that its CPU time is its alone. */
export {};

const [perSecond = 250, seconds = 4, bytes = 1_216, ...ports] = process.argv.slice(2).map(Number);
const socket = await Bun.udpSocket({ hostname: "127.0.0.1" });
const entries = ports.flatMap((port) => [new Uint8Array(bytes), port, "127.0.0.1"]);
const batches: (typeof entries)[] = [];
for (let i = 0; i < entries.length; i += 600) batches.push(entries.slice(i, i + 600));

async function run(ms: number): Promise<number> {
  const started = performance.now();
  let sent = 0;
  while (performance.now() - started < ms) {
    const due = Math.floor(((performance.now() - started) * perSecond) / 1_000);
    for (; sent < due; sent++) for (const batch of batches) socket.sendMany(batch);
    await Bun.sleep(2);
  }
  return sent * ports.length;
}

await run(1_000);
const before = process.cpuUsage();
const packets = await run(seconds * 1_000);
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ user: user / packets, system: system / packets }));
process.exit(0);
