import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import { createLog } from "../../kernel/log.ts";
import { isLoopback } from "../../kernel/net/addresses.ts";
import { mediaAddresses } from "../../nodes/media-addresses.ts";
import { type Check, type CheckContext, type CheckGroup, fail, pass, warn, withoutServer } from "./check.ts";
import { respondsOverTcp, respondsOverUdp } from "./probe.ts";

/** Interfaces of containers and virtual machines, which other machines cannot reach. */
const BRIDGE = /^(docker|br-|virbr|veth|cni|flannel|lxc|lxd|podman|vmnet)/;

export const checkAddresses: CheckGroup = async (context) => {
  const announced = context.running?.announce ?? (await announcedBy(context));
  return [addresses(context, announced), ...(await probes(context, announced))];
};

async function announcedBy({ config }: CheckContext): Promise<string[]> {
  return (await mediaAddresses(config, createLog({ level: "silent", format: "json" }))).announce;
}

function addresses({ config }: CheckContext, announced: string[]): Check {
  const name = "media-addresses";
  const remedy = "Set PUBLIC_IP to the address under which clients reach this machine, or `auto,ADDRESS` for both.";
  const isPublic = config.PUBLIC_URL !== undefined || !isLoopback(config.HOST);
  const bridges = new Set(
    Object.entries(networkInterfaces()).flatMap(([device, entries]) =>
      BRIDGE.test(device) ? (entries ?? []).map(({ address }) => address) : [],
    ),
  );
  const outside = announced.filter((address) => !isLoopback(address) && !bridges.has(address));
  const detail = announced.join(", ");
  if (isPublic && outside.length === 0) return fail(name, `only this machine can reach ${detail}`, remedy);
  if (isPublic && !outside.some(isGlobal)) {
    return warn(name, `${detail}: reachable from the local network, not from the internet`, remedy);
  }
  return pass(name, detail);
}

async function probes(context: CheckContext, announced: string[]): Promise<Check[]> {
  const { running } = context;
  if (!running) return [withoutServer("media-probe", context)];
  const checks: Check[] = [];
  for (const port of running.mediaPorts) {
    for (const address of announced) {
      const [udp, tcp] = await Promise.all([
        respondsOverUdp(address, port, running.probe),
        respondsOverTcp(address, port, running.probe),
      ]);
      checks.push(probed("udp", address, port, udp), probed("tcp", address, port, tcp));
    }
  }
  return checks;
}

function probed(protocol: "udp" | "tcp", address: string, port: number, responds: boolean): Check {
  const where = `${protocol} ${address}:${port}`;
  if (responds) return pass("media-probe", `${where} answers`);
  const why = protocol === "tcp" ? " Networks that let no UDP through need it." : "";
  const remedy = `Let in ${protocol} ${port} and forward it to this machine.${why}`;
  return warn("media-probe", `${where} does not answer from here`, remedy);
}

function isGlobal(address: string): boolean {
  return ipaddr.process(address).range() === "unicast";
}
