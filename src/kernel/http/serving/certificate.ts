import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import type { Config } from "../../config/index.ts";
import type { Log } from "../../log.ts";
import { every, type Timers } from "../../time/timers.ts";

/** A certificate chain and its private key, both as PEM text. */
export type Certificate = { cert: string; key: string };

export type CertificateFiles = { cert: string; key: string };

/** A renewal is noticed within this long. Watching the files instead would miss those behind symbolic links. */
const LOOK_EVERY_MS = 10_000;

export function certificateFiles({ TLS_CERT: cert, TLS_KEY: key }: Config): CertificateFiles | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

/** Wrong files; the message is for the operator. */
export class CertificateRefused extends Error {
  override readonly name = "CertificateRefused";
}

/** One that has run out is read all the same: a server with it is better than none, and browsers say what is wrong. */
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

/** What clients will find wrong with one that can be used all the same; null when nothing. */
export function certificateDoubt({ cert }: Pick<Certificate, "cert">, domain: string | undefined, now: number) {
  const certificate = new X509Certificate(cert);
  const { validFromDate, validToDate } = certificate;
  if (validToDate.getTime() <= now) return `it ran out on ${validToDate.toISOString()}`;
  if (validFromDate.getTime() > now) return `it is not valid before ${validFromDate.toISOString()}`;
  if (domain === undefined || certificate.checkHost(domain) !== undefined) return null;
  const names = certificate.subjectAltName ?? certificate.subject;
  return `it is not for ${domain}, but for ${names.replaceAll("\n", ", ")}`;
}

function parsed<Value>(path: string, read: () => Value): Value {
  try {
    return read();
  } catch {
    throw new CertificateRefused(`${path} holds no PEM that can be read`);
  }
}

type WatchDeps = { timers: Timers; log: Log };

/** As `certificateDoubt` says it; a server with such a one is better than none. */
export function tellDoubt(log: Log, files: CertificateFiles, problem: string | null): void {
  if (problem !== null) log.warn({ certificate: files.cert, problem }, "clients will not trust the certificate");
}

/**
 * Calls `onRenewed` when the files have changed and fit together. Whoever writes them writes two files, one after the
 * other: a pair that does not fit is looked at again at the next turn, and told once.
 */
export function watchCertificate(
  files: CertificateFiles,
  { timers, log }: WatchDeps,
  onRenewed: (certificate: Certificate) => void,
): () => void {
  let seen = stampOf(files);
  let told = "";
  return every({ timers, log }, LOOK_EVERY_MS, () => {
    const stamp = stampOf(files);
    if (stamp === seen) return;
    try {
      onRenewed(readCertificate(files));
      seen = stamp;
      told = "";
      log.info({ certificate: files.cert }, "certificate renewed");
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== told) log.warn({ problem }, "the renewed certificate cannot be used; the old one stays");
      told = problem;
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
