/** Virtual machines for a test: network namespaces on their own switch, each with its own addresses and firewall. */
import { chmodSync, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { program, requireRoot } from "../ops/machine.ts";

export type Machine = {
  address: string;
  /** The prefix of a command that runs there. */
  prefix: string[];
  /** The path of a program that runs the given one there, for callers that accept only a path. */
  wrapper(path: string, folder: string): string;
  /** Rules for incoming packets in nft's syntax, such as `udp dport 7001 drop`. */
  refuse(...rules: string[]): Promise<void>;
  /** Rules for outgoing packets. */
  keepIn(...rules: string[]): Promise<void>;
  /** Drops this many of a thousand packets in each direction. */
  lose(perThousand: number): Promise<void>;
  /** Drops every packet, as if the machine had lost its power. */
  disconnect(): Promise<void>;
  /** Removes all rules. */
  reconnect(): Promise<void>;
};

export type Lan<Name extends string> = {
  /** The address of this process for the machines. */
  address: string;
  machines: Record<Name, Machine>;
  close(): Promise<void>;
};

export async function openLan<Name extends string>(...names: Name[]): Promise<Lan<Name>> {
  requireRoot();
  await Promise.all([program("ip", "iproute2"), program("nft", "nftables")]);
  const tag = crypto.randomUUID().slice(0, 6);
  const net = freeNet();
  const bridge = `stoa${tag}`;
  await ip(
    [],
    [
      `link add ${bridge} type bridge forward_delay 0`,
      `address add ${net}.1/24 dev ${bridge}`,
      `link set ${bridge} up`,
    ],
  );
  const machines = {} as Record<Name, Machine>;
  for (const [index, name] of names.entries()) machines[name] = await plugIn(`${bridge}-${name}`, index, net, bridge);
  return {
    address: `${net}.1`,
    machines,
    async close() {
      for (const name of names) await $`ip netns delete ${bridge}-${name}`.quiet().nothrow();
      await $`ip link delete ${bridge}`.quiet().nothrow();
    },
  };
}

async function plugIn(space: string, index: number, net: string, bridge: string): Promise<Machine> {
  const address = `${net}.${index + 2}`;
  const wire = `${bridge}.${index}`;
  await ip(
    [],
    [
      `netns add ${space}`,
      `link add ${wire} type veth peer name eth0 netns ${space}`,
      `link set ${wire} master ${bridge} up`,
    ],
  );
  await ip(["-netns", space], ["link set lo up", `address add ${address}/24 dev eth0`, "link set eth0 up"]);
  const prefix = ["ip", "netns", "exec", space];
  const filter = async (hook: "input" | "output", rules: string[]) => {
    const chain = `add table inet test; add chain inet test ${hook} { type filter hook ${hook} priority 0; };`;
    const lines = rules.map((rule) => `add rule inet test ${hook} ${rule};`).join(" ");
    await $`ip netns exec ${space} nft ${`${chain} ${lines}`}`.quiet();
  };
  return {
    address,
    prefix,
    wrapper(path, folder) {
      const script = join(folder, `${space}-program`);
      writeFileSync(script, `#!/bin/sh\nexec ${prefix.join(" ")} ${path} "$@"\n`);
      chmodSync(script, 0o755);
      return script;
    },
    refuse: (...rules) => filter("input", rules),
    keepIn: (...rules) => filter("output", rules),
    async lose(perThousand) {
      // With the firewall, because not every kernel has the network emulation scheduler.
      const unlucky = `numgen random mod 1000 < ${perThousand} drop`;
      await filter("input", [`iifname "eth0" ${unlucky}`]);
      await filter("output", [`oifname "eth0" ${unlucky}`]);
    },
    async disconnect() {
      await filter("input", ['iifname "eth0" drop']);
      await filter("output", ['oifname "eth0" drop']);
    },
    async reconnect() {
      await $`ip netns exec ${space} nft delete table inet test`.quiet();
    },
  };
}

async function ip(options: string[], lines: string[]): Promise<void> {
  await $`ip ${options} -batch - < ${Buffer.from(`${lines.join("\n")}\n`)}`.quiet();
}

/** A private network that no interface of this machine is in. */
function freeNet(): string {
  const taken = Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
  for (;;) {
    const net = `10.${200 + Math.floor(Math.random() * 55)}.${Math.floor(Math.random() * 256)}`;
    if (!taken.some((address) => address.startsWith(net))) return net;
  }
}
