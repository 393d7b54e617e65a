import { readFileSync } from "node:fs";

export type UdpCounters = {
  /** Packets that came to a full socket. */
  dropped: number;
  /** Packets that a full socket would not take to send. */
  unsent: number;
  /** Over all interfaces but loopback, headers included. */
  bytesOut: number;
};

/** The kernel's counters of a process's network namespace, since its creation. */
export function udpOf(pid: number): UdpCounters {
  const [names = [], values = []] = read(pid, "snmp")
    .filter((line) => line.startsWith("Udp:"))
    .map((line) => line.split(" "));
  const udp = (name: string) => Number(values[names.indexOf(name)] ?? 0);
  const interfaces = read(pid, "dev").filter((line) => line.includes(":") && !line.includes(" lo:"));
  const bytesOut = interfaces.reduce((sum, line) => sum + Number(line.split(":")[1]?.trim().split(/\s+/)[8] ?? 0), 0);
  return { dropped: udp("RcvbufErrors"), unsent: udp("SndbufErrors"), bytesOut };
}

function read(pid: number, file: string): string[] {
  return readFileSync(`/proc/${pid}/net/${file}`, "utf8").split("\n");
}
