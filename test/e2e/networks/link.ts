/** A bad cable between the server's machine and another one; see link.py. */
import { join } from "node:path";
import { $ } from "bun";
import type { Machine } from "../../harness/namespaces.ts";

export type Condition = {
  rateKbit?: number;
  bufferMs?: number;
  delayMs?: number;
  jitterMs?: number;
  /** 0 to 1. */
  loss?: number;
  silent?: boolean;
  /** The rate is that of each connection, not of all together. */
  perFlow?: boolean;
  /** The rates of packets to these ports, each on a line of its own. */
  rateKbitOfPort?: Record<number, number>;
};
type Wired = Pick<Machine, "address" | "prefix">;
export type Passed = { seconds: number; bytes: number; dropped: number; waitsMs: number[] };

export type Link = {
  /** The near machine's address on this link, for programs that choose the path by their source address. */
  nearAddress: string;
  farAddress: string;
  set(condition: { down: Condition; up: Condition }): void;
  /** The traffic since the last report. */
  report(): Promise<{ down: Passed; up: Passed }>;
  /** The far machine gets another address, as a phone does that leaves one network for another. */
  move(): Promise<void>;
  close(): Promise<void>;
};

/** From now on this link carries all traffic between the two machines, and no other. */
export async function openLink(near: Wired, far: Wired): Promise<Link> {
  const [nearSpace = "", farSpace = ""] = [near, far].map(({ prefix }) => prefix.at(-1));
  const device = `link${farSpace.slice(-4).replace(/\W/g, "")}${process.pid}`.slice(0, 15);
  const script = join(import.meta.dir, "link.py");
  const child = Bun.spawn(["/usr/bin/python3", script, nearSpace, farSpace, device], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  const lines = linesOf(child.stdout);
  await lines();
  const route = async (space: string, to: string, from: string) => {
    await $`ip -n ${space} link set ${device} mtu 1400 up`.quiet();
    await $`ip -n ${space} route replace ${to}/32 dev ${device} src ${from}`.quiet();
  };
  let address = far.address;
  await route(nearSpace, address, near.address);
  await route(farSpace, near.address, address);
  // An address outside of the machines' own networks, which are 10.200 to 10.254.
  const nearAddress = near.address.replace(/^10\.\d+/, "10.199");
  await $`ip -n ${nearSpace} address add ${nearAddress}/32 dev ${device}`.quiet();
  await route(farSpace, nearAddress, address);
  const say = (order: object) => {
    child.stdin.write(`${JSON.stringify(order)}\n`);
    child.stdin.flush();
  };
  return {
    nearAddress,
    farAddress: far.address,
    set: say,
    async report() {
      say({ report: true });
      return JSON.parse(await lines());
    },
    async move() {
      const parts = address.split(".");
      const other = [...parts.slice(0, 3), Number(parts[3]) + 100].join(".");
      // The old one first: with it go those that were added after it.
      await $`ip -n ${farSpace} address delete ${address}/24 dev eth0`.quiet();
      await $`ip -n ${farSpace} address add ${other}/24 dev eth0`.quiet();
      await route(nearSpace, other, near.address);
      await route(farSpace, near.address, other);
      await route(farSpace, nearAddress, other);
      address = other;
    },
    async close() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

/** Resolves with one line after another. */
function linesOf(stream: ReadableStream<Uint8Array>): () => Promise<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  return async () => {
    for (;;) {
      const at = rest.indexOf("\n");
      if (at >= 0) {
        const line = rest.slice(0, at);
        rest = rest.slice(at + 1);
        return line;
      }
      const { value, done } = await reader.read();
      if (done) throw new Error("the link is gone");
      rest += decoder.decode(value, { stream: true });
    }
  };
}
