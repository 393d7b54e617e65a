import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLog } from "../../../src/kernel/log.ts";
import { systemTimers } from "../../../src/kernel/time/timers.ts";
import type { ChallengeType } from "../../../src/network/acme/order.ts";
import { openPort80 } from "../../../src/network/acme/port-80.ts";
import { CertificateRenewal } from "../../../src/network/acme/renewal.ts";
import { AcmeStore } from "../../../src/network/acme/store.ts";
import { fakeClock } from "../../harness/clock.ts";
import { tlsStage } from "../tls/stage.ts";
import { freePorts, startPebble } from "./pebble.ts";

export const DOMAIN = "rtc.example.com";
const cleanup: (() => unknown)[] = [];

/** Last in, first out. */
export function afterwards(clean: () => unknown): void {
  cleanup.push(clean);
}

export async function cleanUp(): Promise<void> {
  for (const clean of cleanup.splice(0).reverse()) await clean();
}

/** A TLS thread without a certificate, a small HTTP port, and an authority that checks both. */
export async function stageWith(options: { external?: { keyId: string; hmac: string }; wrongPort?: boolean } = {}) {
  const tls = await tlsStage({ certificate: null });
  cleanup.push(tls.close);
  const lines: string[] = [];
  const log = createLog({ level: "info", format: "json", write: (line) => void lines.push(line) });
  const port80 = openPort80({ hostname: "127.0.0.1", port: 0, home: `https://${DOMAIN}`, log });
  cleanup.push(port80.stop);
  const [unusedPort = 0] = await freePorts(1);
  const pebble = await startPebble({
    tlsPort: options.wrongPort ? unusedPort : tls.multiplexer.port,
    httpPort: port80.port ?? 0,
    ...(options.external ? { externalKey: { id: options.external.keyId, hmac: options.external.hmac } } : {}),
  });
  cleanup.push(pebble.close);
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-acme-"));
  cleanup.push(() => rmSync(dataDir, { recursive: true, force: true }));
  const clock = fakeClock(Date.now());

  function keeper(given: Partial<ConstructorParameters<typeof CertificateRenewal>[0]> = {}, now = clock.now) {
    const renewal = new CertificateRenewal({
      domain: DOMAIN,
      directory: pebble.directory,
      ca: pebble.ca,
      email: "operator@example.com",
      external: options.external,
      challenges: ["tls-alpn-01"] as ChallengeType[],
      responder: {
        setTlsAlpn: (certificate) => tls.multiplexer.setChallenge(certificate),
        setHttp: (token, proof) => port80.setProof(token, proof),
      },
      precheck: async () => null,
      isStrict: false,
      onCertificate: (certificate) => tls.multiplexer.setCertificate(certificate),
      userAgent: "stoa test",
      store: new AcmeStore(dataDir),
      timers: systemTimers,
      log,
      now,
      ...given,
    });
    return renewal;
  }
  return { tls, pebble, port80, dataDir, clock, lines, keeper };
}
