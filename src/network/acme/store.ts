import { createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../kernel/durable-file.ts";
import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import type { Account } from "./client.ts";
import { newKey } from "./x509.ts";

/** The record is kept on disk, so that a restart does not contact the authority too soon. */
export type AttemptRecord = {
  domain: string;
  directory: string;
  failures: number;
  notBefore: number;
  problem: string;
  at: number;
};

/** Files in a folder of the data directory that only its owner can read. */
export class AcmeStore {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, "acme");
  }

  account(directory: string): Account {
    const saved = this.#json<Account>("account.json");
    if (saved?.directory === directory) return saved;
    return { directory, key: newKey().export({ format: "jwk" }), url: null };
  }

  saveAccount(account: Account): void {
    this.#write("account.json", `${JSON.stringify(account, null, 2)}\n`);
  }

  /** Null unless both files exist, match and are for this domain. A renewal may have been interrupted. */
  certificate(domain: string): Certificate | null {
    const [cert, key] = [this.#text("certificate.pem"), this.#text("key.pem")];
    if (cert === null || key === null) return null;
    try {
      const certificate = new X509Certificate(cert);
      const fits = certificate.checkPrivateKey(createPrivateKey(key));
      return fits && certificate.checkHost(domain) !== undefined ? { cert, key } : null;
    } catch {
      return null;
    }
  }

  saveCertificate({ cert, key }: Certificate): void {
    this.#write("key.pem", key);
    this.#write("certificate.pem", cert);
  }

  attempt(domain: string, directory: string): AttemptRecord {
    const saved = this.#json<AttemptRecord>("attempts.json");
    if (saved?.domain === domain && saved.directory === directory) return { ...saved, at: saved.at ?? 0 };
    return { domain, directory, failures: 0, notBefore: 0, problem: "", at: 0 };
  }

  saveAttempt(attempt: AttemptRecord): void {
    this.#write("attempts.json", `${JSON.stringify(attempt)}\n`);
  }

  #text(name: string): string | null {
    const path = join(this.#folder, name);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  }

  #json<Value>(name: string): Value | null {
    try {
      return JSON.parse(this.#text(name) ?? "null") as Value | null;
    } catch {
      return null;
    }
  }

  #write(name: string, text: string): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    writeDurably(join(this.#folder, name), text);
  }
}
