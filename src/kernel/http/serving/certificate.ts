import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import type { Config } from "../../config/index.ts";
import { messageOf } from "../../error-message.ts";
import type { Log } from "../../log.ts";
import { every, type Timers } from "../../time/timers.ts";

export type Certificate = { cert: string; key: string };

type CertificateFiles = { cert: string; key: string };

/** The files are polled, because watching them would miss changes behind symbolic links. */
const POLL_EVERY_MS = 10_000;

export function certificateFiles({ TLS_CERT: cert, TLS_KEY: key }: Config): CertificateFiles | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

/** The certificate files are invalid; the message is for the operator. */
export class CertificateRefused extends Error {
  override readonly name = "CertificateRefused";
}

/** An expired certificate is accepted: the server still starts, and browsers show the reason. */
export function readCertificate(files: CertificateFiles): Certificate {
  const certificate = { cert: readText("TLS_CERT", files.cert), key: readText("TLS_KEY", files.key) };
  const first = parsed(files.cert, () => new X509Certificate(certificate.cert));
  const key = parsed(files.key, () => createPrivateKey(certificate.key));
  if (!first.checkPrivateKey(key)) throw new CertificateRefused(`${files.key} is not the key of ${files.cert}`);
  return certificate;
}

function readText(variable: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code = "unknown" } = error as { code?: string };
    throw new CertificateRefused(`${variable}: ${path} cannot be read (${code})`);
  }
}

/** Why clients will not trust a certificate that can be served; null when they will trust it. */
export function certificateDoubt({ cert }: Pick<Certificate, "cert">, domain: string | undefined, now: number) {
  const certificate = new X509Certificate(cert);
  const { validFromDate, validToDate } = certificate;
  if (validToDate.getTime() <= now) return `it expired on ${validToDate.toISOString()}`;
  if (validFromDate.getTime() > now) return `it is not valid before ${validFromDate.toISOString()}`;
  if (domain === undefined || certificate.checkHost(domain) !== undefined) return null;
  const names = certificate.subjectAltName ?? certificate.subject;
  return `it is not for ${domain}, but for ${names.replaceAll("\n", ", ")}`;
}

function parsed<Value>(path: string, read: () => Value): Value {
  try {
    return read();
  } catch {
    throw new CertificateRefused(`${path} is not valid PEM`);
  }
}

export function warnOfDoubt(log: Log, files: CertificateFiles, problem: string | null): void {
  if (problem !== null) log.warn({ certificate: files.cert, problem }, "tls: clients will not trust the certificate");
}

/**
 * Calls `onRenewed` when the files have changed and match. They are written one after the other: a pair that does not
 * match is logged once and read again at the next poll.
 */
export function watchCertificate(
  files: CertificateFiles,
  { timers, log }: { timers: Timers; log: Log },
  onRenewed: (certificate: Certificate) => void,
): () => void {
  let seen = stampOf(files);
  let lastProblem = "";
  return every({ timers, log }, POLL_EVERY_MS, () => {
    const stamp = stampOf(files);
    if (stamp === seen) return;
    try {
      onRenewed(readCertificate(files));
      seen = stamp;
      lastProblem = "";
      log.info({ certificate: files.cert }, "tls: certificate renewed");
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== lastProblem) log.warn({ problem }, "tls: new certificate is invalid, keeping the old one");
      lastProblem = problem;
    }
  });
}

function stampOf({ cert, key }: CertificateFiles): string {
  return [cert, key]
    .map((path) => {
      const file = statSync(path, { throwIfNoEntry: false });
      return file === undefined ? "absent" : `${file.ino} ${file.size} ${file.mtimeMs}`;
    })
    .join(", ");
}
