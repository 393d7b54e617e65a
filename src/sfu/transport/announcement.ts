/** The candidates and the fingerprint of a worker, as its answers contain them. */
import { createHash, X509Certificate } from "node:crypto";
import type { DtlsCertificate } from "../werift/werift-hooks.ts";
import { plainAddress } from "./ice/ice.ts";

/** UDP before TCP, in the configured order of the addresses. */
export function candidatesOf(settings: { announce: readonly string[]; tcp: boolean }, port: number): string[] {
  const udp = settings.announce.map(
    (address, i) => `${i + 1} 1 udp ${2_130_706_431 - i} ${plainAddress(address)} ${port} typ host`,
  );
  if (!settings.tcp) return udp;
  const tcp = settings.announce.map(
    (address, i) => `${i + 101} 1 tcp ${1_671_430_143 - i} ${plainAddress(address)} ${port} typ host tcptype passive`,
  );
  return [...udp, ...tcp];
}

export function fingerprintOf(certificate: DtlsCertificate): { algorithm: string; value: string } {
  const digest = createHash("sha256").update(new X509Certificate(certificate.certPem).raw).digest();
  const value = [...digest].map((byte) => byte.toString(16).padStart(2, "0").toUpperCase()).join(":");
  return { algorithm: "sha-256", value };
}
