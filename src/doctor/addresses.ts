import { randomBytes } from "node:crypto";
import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import { createLog } from "../kernel/log.ts";
import { mediaAddresses } from "../media/addresses.ts";
import { parseStun, STUN_TYPE } from "../sfu/packet/stun.ts";
import { writeBindingRequest } from "../sfu/packet/stun-write.ts";
import { type Check, type Examination, fail, type Patient, pass, warn } from "./check.ts";

/** Networks that containers and virtual machines make inside this machine; nobody outside can reach them. */
const BRIDGE = /^(docker|br-|virbr|veth|cni|flannel|lxc|lxd|podman|vmnet)/;
const PROBE_TRIES = 4;
const PROBE_WAIT_MS = 250;

export const examineAddresses: Examination = async (patient) => {
  const announced = patient.running?.announce ?? (await announcedBy(patient));
  return [addresses(patient, announced), ...(await probes(patient, announced))];
};

async function announcedBy({ config }: Patient): Promise<string[]> {
  return (await mediaAddresses(config, createLog({ level: "silent", format: "json" }))).announce;
}

function addresses({ config }: Patient, announced: string[]): Check {
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

async function probes({ running }: Patient, announced: string[]): Promise<Check[]> {
  if (!running) return [warn("media-probe", "no server is running", "Start it and run `stoa doctor` again.")];
  const checks: Check[] = [];
  for (const port of running.mediaPorts) {
    for (const address of announced) {
      const where = `udp ${address}:${port}`;
      checks.push(
        (await answers(address, port, running.probe))
          ? pass("media-probe", `${where} answers`)
          : warn(
              "media-probe",
              `${where} does not answer from here`,
              `Let in udp ${port} and forward it to this machine.`,
            ),
      );
    }
  }
  return checks;
}

/** Sends a check that the media port answers, as a browser's first packet would arrive. */
async function answers(address: string, port: number, probe: { ufrag: string; pwd: string }): Promise<boolean> {
  const transactionId = randomBytes(12);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = await Bun.udpSocket({
    hostname: address.includes(":") ? "::" : "0.0.0.0",
    socket: {
      data(_socket, data) {
        const message = parseStun(data);
        const isOurs = message !== undefined && Buffer.from(message.transactionId).equals(transactionId);
        if (isOurs && message.type === STUN_TYPE.bindingSuccess) resolve(true);
      },
      error: () => {},
    },
  });
  const request = new Uint8Array(256);
  const length = writeBindingRequest(request, {
    transactionId,
    username: `${probe.ufrag}:doctor`,
    password: probe.pwd,
    priority: 1,
    useCandidate: false,
    iceControlling: 1n,
  });
  try {
    for (let attempt = 0; attempt < PROBE_TRIES; attempt++) {
      socket.send(request.subarray(0, length), port, address);
      if (await Promise.race([promise, Bun.sleep(PROBE_WAIT_MS).then(() => false)])) return true;
    }
    return false;
  } catch {
    return false;
  } finally {
    socket.close();
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || (ipaddr.isValid(host) && ipaddr.process(host).range() === "loopback");
}

function isGlobal(address: string): boolean {
  return ipaddr.process(address).range() === "unicast";
}
