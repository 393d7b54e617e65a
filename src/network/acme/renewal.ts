/** Obtains a certificate and renews it, with growing delays after failures. */

import { X509Certificate } from "node:crypto";
import { messageOf } from "../../kernel/error-message.ts";
import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import type { Log } from "../../kernel/log.ts";
import type { Now } from "../../kernel/time/clock.ts";
import type { Timers } from "../../kernel/time/timers.ts";
import { type Account, AcmeClient, AcmeError, type ExternalAccount } from "./client.ts";
import { type ChallengeResponder, type ChallengeType, orderCertificate } from "./order.ts";
import type { AcmeStore, AttemptRecord } from "./store.ts";
import { renewalName } from "./x509.ts";

type Options = {
  domain: string;
  directory: string;
  ca: string | undefined;
  email: string | undefined;
  external: ExternalAccount | undefined;
  challenges: readonly ChallengeType[];
  responder: ChallengeResponder;
  /** The reason why no attempt can succeed before the next start; null if one may succeed. */
  unableReason?: string | null;
  /** A problem of the domain, found before the certificate authority is contacted; null when there is none. */
  precheck: () => Promise<string | null>;
  /** If the domain has a problem, no order is placed, because public authorities limit failures. */
  isStrict: boolean;
  onCertificate: (certificate: Certificate) => void;
  userAgent: string;
  store: AcmeStore;
  timers: Timers;
  log: Log;
  now: Now;
  random?: () => number;
};

export type CertificateStatus = {
  domain: string;
  expiresAt: number | null;
  nextAt: number | null;
  problem: string | null;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const MAX_BACK_OFF_MS = 12 * HOUR_MS;
/** A failed check of the domain does not involve the authority and is repeated soon. */
const PRECHECK_MS = 30_000;
const ARI_EVERY_MS = 6 * HOUR_MS;
/** A timer can wait for at most 24 days, and shorter waits also notice changes of the clock. */
const LONGEST_SLEEP_MS = HOUR_MS;
const RENEW_AFTER = 2 / 3;
const JITTER = 0.05;

export class CertificateRenewal {
  readonly #random: () => number;
  #certificate: Certificate | null;
  #lastAttempt: AttemptRecord;
  #renewAt: number;
  #nextSuggestionAt = 0;
  #domainProblem = "";
  #cancel: () => void = () => {};
  #isStopped = false;

  constructor(private readonly options: Options) {
    this.#random = options.random ?? Math.random;
    const { store, domain, directory } = options;
    this.#certificate = store.certificate(domain);
    this.#lastAttempt = store.attempt(domain, directory);
    this.#renewAt = this.#certificate ? this.#defaultRenewalTime(this.#certificate) : 0;
  }

  get certificate(): Certificate | null {
    return this.#certificate;
  }

  get status(): CertificateStatus {
    const expiresAt = this.#certificate ? expiryOf(this.#certificate) : null;
    const problem = this.#domainProblem || this.#lastAttempt.problem;
    const nextAt = this.#dueAt();
    return { domain: this.options.domain, expiresAt, nextAt, problem: problem === "" ? null : problem };
  }

  start(): () => void {
    void this.#run();
    return () => {
      this.#isStopped = true;
      this.#cancel();
    };
  }

  async #run(): Promise<void> {
    const { now, timers } = this.options;
    if (this.#isStopped) return;
    let nextMs = LONGEST_SLEEP_MS;
    try {
      if (this.#certificate && now() >= this.#nextSuggestionAt) await this.#followSuggestion(this.#certificate);
      const dueAt = this.#dueAt();
      nextMs = dueAt > now() ? dueAt - now() : await this.#renew();
    } catch (err) {
      this.options.log.error({ err }, "acme: certificate renewal failed unexpectedly");
      nextMs = MINUTE_MS;
    }
    if (this.#isStopped) return;
    this.#cancel = timers.after(Math.max(1, Math.min(nextMs, LONGEST_SLEEP_MS)), () => void this.#run());
  }

  #dueAt(): number {
    const { at, notBefore } = this.#lastAttempt;
    // The record was written by a clock that was ahead; waiting for that time could take years.
    return at > this.options.now() + HOUR_MS ? this.#renewAt : Math.max(this.#renewAt, notBefore);
  }

  async #renew(): Promise<number> {
    const { log, domain, precheck, isStrict, now, unableReason = null } = this.options;
    if (unableReason !== null) return this.#postpone(new Error(unableReason));
    const problem = await precheck();
    if (problem !== null && problem !== this.#domainProblem) {
      log.warn({ domain, problem }, "acme: domain does not resolve to this machine");
    }
    this.#domainProblem = problem ?? "";
    if (problem !== null && isStrict) return PRECHECK_MS;
    try {
      this.#obtained(await this.#obtain());
    } catch (error) {
      return this.#postpone(error);
    }
    if (this.#renewAt > now()) return this.#renewAt - now();
    // Another order would return the same kind of certificate, until the authority's rate limit is reached.
    const clock = `The clock of this machine says ${new Date(now()).toISOString()}, by which a new certificate is old.`;
    log.warn({ domain }, "acme: new certificate is due for renewal already");
    return this.#postpone(new Error(`${clock} Set it right.`));
  }

  async #obtain(): Promise<Certificate> {
    const { directory, email, external, store, timers, now, challenges } = this.options;
    const account = store.account(directory);
    const client = this.#client(account);
    if (account.url === null) store.saveAccount(await client.register(email, external));
    const sleep = (ms: number) => new Promise<void>((resolve) => void timers.after(ms, resolve));
    let failure: unknown;
    for (const challenge of challenges) {
      try {
        return await orderCertificate({ ...this.options, client, challenge, sleep, now });
      } catch (error) {
        if (error instanceof AcmeError && error.type === "accountDoesNotExist") {
          store.saveAccount({ ...account, url: null });
        }
        failure = error;
        if (!isChallengeFailure(error)) break;
      }
    }
    throw failure;
  }

  #client(account: Account): AcmeClient {
    const { directory: directoryUrl, ca, userAgent } = this.options;
    return new AcmeClient({ directoryUrl, account, ca, userAgent });
  }

  #obtained(certificate: Certificate): void {
    const { store, log, domain, directory, onCertificate, now } = this.options;
    store.saveCertificate(certificate);
    this.#certificate = certificate;
    this.#renewAt = this.#defaultRenewalTime(certificate);
    this.#nextSuggestionAt = 0;
    this.#domainProblem = "";
    // Certificates that are old by this machine's clock count as failures, so that they are requested less and less
    // often.
    const failures = this.#renewAt > now() ? 0 : this.#lastAttempt.failures;
    this.#saveAttempt({ domain, directory, failures, notBefore: 0, problem: "", at: now() });
    onCertificate(certificate);
    log.info({ domain, expiresAt: new Date(expiryOf(certificate)).toISOString() }, "acme: certificate obtained");
  }

  #postpone(error: unknown): number {
    const { log, now, domain, directory } = this.options;
    const problem = messageOf(error);
    const retryAfterMs = error instanceof AcmeError ? (error.retryAfterMs ?? 0) : 0;
    const failures = this.#lastAttempt.failures + 1;
    const backOffMs = Math.max(retryAfterMs, Math.min(MAX_BACK_OFF_MS, MINUTE_MS * 2 ** (failures - 1)));
    this.#saveAttempt({ domain, directory, failures, notBefore: now() + backOffMs, problem, at: now() });
    const details = { domain, problem, failures, retryInSeconds: Math.round(backOffMs / 1_000) };
    if (this.#certificate) log.warn(details, "acme: certificate not renewed, keeping the old one");
    else log.warn(details, "acme: no certificate obtained, retrying");
    return backOffMs;
  }

  #saveAttempt(attempt: AttemptRecord): void {
    this.#lastAttempt = attempt;
    this.options.store.saveAttempt(attempt);
  }

  /** About two thirds of the lifetime, with jitter, so that servers do not renew at the same time. */
  #defaultRenewalTime({ cert }: Certificate): number {
    const { validFromDate, validToDate } = new X509Certificate(cert);
    const life = validToDate.getTime() - validFromDate.getTime();
    return validFromDate.getTime() + life * (RENEW_AFTER - JITTER * this.#random());
  }

  /** The authority suggests when to renew, and earlier when certificates have to be replaced (RFC 9773). */
  async #followSuggestion({ cert }: Certificate): Promise<void> {
    const { directory, store, log, now } = this.options;
    this.#nextSuggestionAt = now() + ARI_EVERY_MS;
    try {
      const client = this.#client(store.account(directory));
      const { renewalInfo } = await client.directory();
      const name = renewalName(cert);
      if (renewalInfo === undefined || name === null) return;
      const { body, retryAfterMs } = await client.get(`${renewalInfo.replace(/\/$/, "")}/${name}`);
      const { suggestedWindow: window } = body as { suggestedWindow?: { start: string; end: string } };
      const [start, end] = [Date.parse(window?.start ?? ""), Date.parse(window?.end ?? "")];
      if (!(end > start)) return;
      this.#nextSuggestionAt = now() + (retryAfterMs ?? ARI_EVERY_MS);
      // The time is chosen once, because a new choice at every request would postpone it.
      if (this.#renewAt < start || this.#renewAt > end) this.#renewAt = start + (end - start) * this.#random();
    } catch (error) {
      log.debug({ problem: String(error) }, "acme: certificate authority did not return a renewal time");
    }
  }
}

function expiryOf({ cert }: Certificate): number {
  return new X509Certificate(cert).validToDate.getTime();
}

/** Another challenge type may succeed where this one failed. */
function isChallengeFailure(error: unknown): boolean {
  const types = ["unauthorized", "connection", "dns", "tls", "incorrectResponse", "unsupported", "caa"];
  return error instanceof AcmeError && types.includes(error.type);
}
