/** Has a certificate, and goes on having one: when to ask, whom to tell, and what to do when it fails. */
import { X509Certificate } from "node:crypto";
import type { Now } from "../../kernel/time/clock.ts";
import type { Log } from "../../kernel/log.ts";
import type { Timers } from "../../kernel/time/timers.ts";
import { AcmeClient, AcmeError, type ExternalAccount } from "./client.ts";
import { type ChallengeType, orderCertificate, type ChallengeResponder } from "./order.ts";
import type { AcmeStore, AttemptRecord } from "./store.ts";
import { type KeyedCertificate, renewalName } from "./x509.ts";

type Options = {
  domain: string;
  directory: string;
  ca: string | undefined;
  email: string | undefined;
  external: ExternalAccount | undefined;
  /** Tried in this order. */
  challenges: readonly ChallengeType[];
  responder: ChallengeResponder;
  /** Why no attempt can succeed until the next start; null when one may. */
  unable?: string | null;
  /** What is wrong with the domain, before anything is asked of the authority; null when nothing is. */
  precheck: () => Promise<string | null>;
  /** Whether a domain that is wrong is not even tried: public authorities count failures. */
  isStrict: boolean;
  onCertificate: (certificate: KeyedCertificate) => void;
  userAgent: string;
  store: AcmeStore;
  timers: Timers;
  log: Log;
  now: Now;
  random?: () => number;
};

export type CertificateStatus = {
  domain: string;
  /** Null: there is none yet. */
  expiresAt: number | null;
  /** When it is asked for next. */
  nextAt: number | null;
  /** Why the last attempt failed; null when it did not. */
  problem: string | null;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const MAX_BACK_OFF_MS = 12 * HOUR_MS;
/** What is not asked of the authority costs nothing, and is looked at again soon. */
const PRECHECK_MS = 30_000;
const ARI_EVERY_MS = 6 * HOUR_MS;
/** Timers hold 24 days; looking now and then also notices a clock that was set. */
const LONGEST_SLEEP_MS = HOUR_MS;
const RENEW_AFTER = 2 / 3;
const JITTER = 0.05;

export class CertificateRenewal {
  readonly #options: Options;
  readonly #random: () => number;
  #certificate: KeyedCertificate | null;
  #note: AttemptRecord;
  #renewAt: number;
  /** When the authority is asked again at which time to renew. */
  #suggestionAt = 0;
  #toldProblem = "";
  #cancel: () => void = () => {};
  #isStopped = false;

  constructor(options: Options) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    const { store, domain, directory } = options;
    this.#certificate = store.certificate(domain);
    this.#note = store.attempt(domain, directory);
    this.#renewAt = this.#certificate ? this.#usualTime(this.#certificate) : 0;
  }

  /** The one that was kept; one that has run out is still better than none. */
  get certificate(): KeyedCertificate | null {
    return this.#certificate;
  }

  get status(): CertificateStatus {
    const expiresAt = this.#certificate ? expiryOf(this.#certificate) : null;
    const problem = this.#toldProblem || this.#note.problem;
    const nextAt = this.#dueAt();
    return { domain: this.#options.domain, expiresAt, nextAt, problem: problem === "" ? null : problem };
  }

  start(): () => void {
    void this.#turn();
    return () => {
      this.#isStopped = true;
      this.#cancel();
    };
  }

  /** One look: asks when it is time, and comes back. */
  async #turn(): Promise<void> {
    const { now, timers } = this.#options;
    if (this.#isStopped) return;
    let nextMs = LONGEST_SLEEP_MS;
    try {
      if (this.#certificate && now() >= this.#suggestionAt) await this.#followSuggestion(this.#certificate);
      const dueAt = this.#dueAt();
      nextMs = dueAt > now() ? dueAt - now() : await this.#renew();
    } catch (err) {
      this.#options.log.error({ err }, "the certificate could not be looked after");
      nextMs = MINUTE_MS;
    }
    if (this.#isStopped) return;
    this.#cancel = timers.after(Math.max(1, Math.min(nextMs, LONGEST_SLEEP_MS)), () => void this.#turn());
  }

  #dueAt(): number {
    const { at, notBefore } = this.#note;
    // Written by a clock that was ahead and has been set right since: waiting until then could take years.
    return at > this.#options.now() + HOUR_MS ? this.#renewAt : Math.max(this.#renewAt, notBefore);
  }

  /** How long until the next look. */
  async #renew(): Promise<number> {
    const { log, domain, precheck, isStrict, now, unable = null } = this.#options;
    if (unable !== null) return this.#putOff(new Error(unable), this.#outcome());
    const wrong = await precheck();
    if (wrong !== null && wrong !== this.#toldProblem)
      log.warn({ domain, problem: wrong }, "the domain does not lead here");
    this.#toldProblem = wrong ?? "";
    if (wrong !== null && isStrict) return PRECHECK_MS;
    try {
      this.#obtained(await this.#obtain());
    } catch (error) {
      return this.#putOff(error, this.#outcome());
    }
    if (this.#renewAt > now()) return this.#renewAt - now();
    // Asking again at once would bring the next one of the same kind, until the authority has had enough.
    const clock = `The clock of this machine says ${new Date(now()).toISOString()}, by which the certificate of today is old.`;
    return this.#putOff(new Error(`${clock} Set it right.`), "the new certificate is due for renewal already");
  }

  #outcome(): string {
    return this.#certificate ? "certificate not renewed; the old one stays" : "no certificate yet";
  }

  async #obtain(): Promise<KeyedCertificate> {
    const { directory, ca, email, external, userAgent, store, timers, now, challenges } = this.#options;
    const account = store.account(directory);
    const client = new AcmeClient({ directoryUrl: directory, account, ca, userAgent });
    if (account.url === null) store.keepAccount(await client.register(email, external));
    const sleep = (ms: number) => new Promise<void>((resolve) => void timers.after(ms, resolve));
    let failure: unknown;
    for (const challenge of challenges) {
      try {
        return await orderCertificate({ ...this.#options, client, challenge, sleep, now });
      } catch (error) {
        if (error instanceof AcmeError && error.type === "accountDoesNotExist") {
          // The authority has forgotten it: the next attempt registers anew.
          store.keepAccount({ ...account, url: null });
        }
        failure = error;
        if (!isOfTheProof(error)) break;
      }
    }
    throw failure;
  }

  #obtained(certificate: KeyedCertificate): void {
    const { store, log, domain, directory, onCertificate, now } = this.#options;
    store.keepCertificate(certificate);
    this.#certificate = certificate;
    this.#renewAt = this.#usualTime(certificate);
    this.#suggestionAt = 0;
    this.#toldProblem = "";
    // Those that were no use by our clock are counted on: they must come less and less often.
    const failures = this.#renewAt > now() ? 0 : this.#note.failures;
    this.#keep({ domain, directory, failures, notBefore: 0, problem: "", at: now() });
    onCertificate(certificate);
    log.info({ domain, expiresAt: new Date(expiryOf(certificate)).toISOString() }, "certificate obtained");
  }

  #putOff(error: unknown, outcome: string): number {
    const { log, now, domain, directory } = this.#options;
    const problem = error instanceof Error ? error.message : String(error);
    const asked = error instanceof AcmeError ? (error.retryAfterMs ?? 0) : 0;
    const failures = this.#note.failures + 1;
    const backOffMs = Math.max(asked, Math.min(MAX_BACK_OFF_MS, MINUTE_MS * 2 ** (failures - 1)));
    this.#keep({ domain, directory, failures, notBefore: now() + backOffMs, problem, at: now() });
    const details = { domain, problem, failures, againInSeconds: Math.round(backOffMs / 1_000) };
    log.warn(details, outcome);
    return backOffMs;
  }

  #keep(note: AttemptRecord): void {
    this.#note = note;
    this.#options.store.keepAttempt(note);
  }

  /** At two thirds of its life, and not at the same moment as everybody else. */
  #usualTime({ cert }: KeyedCertificate): number {
    const { validFromDate, validToDate } = new X509Certificate(cert);
    const life = validToDate.getTime() - validFromDate.getTime();
    return validFromDate.getTime() + life * (RENEW_AFTER - JITTER * this.#random());
  }

  /** The authority may know better (RFC 9773): it says when, and sooner when certificates have to be replaced. */
  async #followSuggestion({ cert }: KeyedCertificate): Promise<void> {
    const { directory, ca, userAgent, store, log, now } = this.#options;
    this.#suggestionAt = now() + ARI_EVERY_MS;
    try {
      const client = new AcmeClient({ directoryUrl: directory, account: store.account(directory), ca, userAgent });
      const { renewalInfo } = await client.directory();
      const name = renewalName(cert);
      if (renewalInfo === undefined || name === null) return;
      const { body, retryAfterMs } = await client.plain(`${renewalInfo.replace(/\/$/, "")}/${name}`);
      const { suggestedWindow: window } = body as { suggestedWindow?: { start: string; end: string } };
      const [start, end] = [Date.parse(window?.start ?? ""), Date.parse(window?.end ?? "")];
      if (!(end > start)) return;
      this.#suggestionAt = now() + (retryAfterMs ?? ARI_EVERY_MS);
      // One moment of the window, chosen once: asking again must not push it away.
      if (this.#renewAt < start || this.#renewAt > end) this.#renewAt = start + (end - start) * this.#random();
    } catch (error) {
      // Without an answer the usual time holds.
      log.debug({ problem: String(error) }, "no renewal time from the authority");
    }
  }
}

function expiryOf({ cert }: KeyedCertificate): number {
  return new X509Certificate(cert).validToDate.getTime();
}

/** The domain was not proved: another challenge may do. Of other refusals none will. */
function isOfTheProof(error: unknown): boolean {
  const types = ["unauthorized", "connection", "dns", "tls", "incorrectResponse", "unsupported", "caa"];
  return error instanceof AcmeError && types.includes(error.type);
}
