import { createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../kernel/data-directory/durable-file.ts";
import type { Account } from "./client.ts";
import { type KeyedCertificate, newKey } from "./x509.ts";

/** What is remembered of attempts, so that a restart neither forgets a failure nor asks too soon. */
export type AttemptRecord = {
  domain: string;
  directory: string;
  failures: number;
  notBefore: number;
  problem: string;
  /** When it was written, as far as the clock was right then. */
  at: number;
};

/** In a folder of the data directory, for its owner alone. */
export class AcmeStore {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, "acme");
  }

  /** One for each authority: a key that is known to one says nothing to another. */
  account(directory: string): Account {
    const kept = this.#json<Account>("account.json");
    if (kept?.directory === directory) return kept;
    return { directory, key: newKey().export({ format: "jwk" }), url: null };
  }

  keepAccount(account: Account): void {
    this.#write("account.json", `${JSON.stringify(account, null, 2)}\n`);
  }

  /** Null unless both files are there, belong together and are for this domain: half of a renewal is none. */
  certificate(domain: string): KeyedCertificate | null {
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

  keepCertificate({ cert, key }: KeyedCertificate): void {
    this.#write("key.pem", key);
    this.#write("certificate.pem", cert);
  }

  attempt(domain: string, directory: string): AttemptRecord {
    const kept = this.#json<AttemptRecord>("attempts.json");
    if (kept?.domain === domain && kept.directory === directory) return { ...kept, at: kept.at ?? 0 };
    return { domain, directory, failures: 0, notBefore: 0, problem: "", at: 0 };
  }

  keepAttempt(note: AttemptRecord): void {
    this.#write("attempts.json", `${JSON.stringify(note)}\n`);
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
