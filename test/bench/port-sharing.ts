/** port-sharing: CPU time of a packet for two processes at one media port; `bin/bench port-sharing [packets a millisecond]` */
import { join } from "node:path";
import { MAX_STEERED } from "../../src/sfu/transport/port-sharing/steering.ts";
import { type Measured, median, report } from "./harness/report.ts";
import type { Addresses, Says, Told } from "./port-sharing/sharer.ts";

const HOST = "127.0.0.1";
const PACKETS = 20_000;
const SOCKETS = 50;
const ROUNDS = 3;
const [perMs = 20] = process.argv.slice(2).map(Number);

class Sharer {
  readonly #waiting: ((said: Says) => void)[] = [];
  readonly #child = Bun.spawn([process.execPath, join(import.meta.dir, "port-sharing/sharer.ts")], {
    ipc: (said: Says) => this.#waiting.shift()?.(said),
    stdio: ["ignore", "inherit", "inherit"],
  });

  async tell(told: Told): Promise<Says> {
    const { promise, resolve } = Promise.withResolvers<Says>();
    this.#waiting.push(resolve);
    this.#child.send(told);
    return await promise;
  }

  async used(): Promise<Required<Omit<Says, "shared">>> {
    const { packets = 0, relayed = 0, micros = 0 } = await this.tell({ type: "used" });
    return { packets, relayed, micros };
  }

  end(): void {
    this.#child.kill();
  }
}

const older = new Sharer();
const newer = new Sharer();
const { shared } = await older.tell({ type: "older" });
if (!shared) throw new Error("the port cannot be shared");
const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => Bun.udpSocket({ hostname: HOST })));
const clients: Addresses = sockets.map(({ port }) => ({ address: HOST, port }));
const filler: Addresses = Array.from({ length: MAX_STEERED }, (_, i) => ({ address: "192.0.2.1", port: i + 1 }));
const packet = new Uint8Array(1_000);
packet.set([0x80, 0x60]);
const figures: Measured[] = [];

/** The CPU time of both processes, the packets that were relayed, and those that were lost. */
type Round = [older: number, newer: number, relayed: number, lost: number];

async function round(): Promise<Round> {
  const before = [await older.used(), await newer.used()] as const;
  const startedAtMs = performance.now();
  for (let sent = 0; sent < PACKETS; ) {
    const due = Math.min(PACKETS, (performance.now() - startedAtMs) * perMs, sent + 200);
    for (; sent < due; sent++) sockets[sent % SOCKETS]?.send(packet, shared?.port ?? 0, HOST);
    await Bun.sleep(1);
  }
  await Bun.sleep(500);
  const after = [await older.used(), await newer.used()] as const;
  const relayed = after[1].relayed - before[1].relayed;
  const used = (i: 0 | 1) => (after[i].micros - before[i].micros) / (relayed || PACKETS);
  return [used(0), used(1), relayed, PACKETS - (after[0].packets - before[0].packets)];
}

async function measure(what: string, goal?: Measured["goal"]): Promise<void> {
  const taken: Round[] = [];
  for (let i = 0; i < ROUNDS; i++) taken.push(await round());
  const middle = (at: 0 | 1 | 2 | 3) => median(taken.map((one) => one[at]));
  figures.push(
    { what: `${what}: the older process`, value: middle(0), unit: "µs" },
    { what: `${what}: the newer process`, value: middle(1), unit: "µs", ...(goal && { goal }) },
    { what: `${what}: relayed`, value: middle(2), unit: "" },
    { what: `${what}: lost`, value: middle(3), unit: "" },
  );
}

await older.tell({ type: "serve", addresses: clients });
await measure("one process");
await newer.tell({ type: "newer", shared });
await measure("steered, 50 addresses", { atMost: 1 });
await older.tell({ type: "serve", addresses: [...clients, ...filler].slice(0, MAX_STEERED) });
await measure(`steered, ${MAX_STEERED} addresses`, { atMost: 1 });
await older.tell({ type: "serve", addresses: [...filler, ...clients] });
await measure("relayed", { atMost: 15 });
report("port-sharing", figures, { packets: PACKETS, perSecond: perMs * 1_000 });
for (const sharer of [older, newer]) sharer.end();
process.exit();
