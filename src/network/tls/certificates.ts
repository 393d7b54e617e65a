/** The certificate comes from files that another program renews, or from an ACME certificate authority. */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Config } from "../../kernel/config/index.ts";
import { HTTPS_PORT } from "../../kernel/config/listen-addresses.ts";
import {
  type Certificate,
  CertificateRefused,
  certificateDoubt,
  certificateFiles,
  readCertificate,
  warnOfDoubt,
  watchCertificate,
} from "../../kernel/http/serving/certificate.ts";
import type { Log } from "../../kernel/log.ts";
import type { Now } from "../../kernel/time/clock.ts";
import type { Timers } from "../../kernel/time/timers.ts";
import { VERSION } from "../../kernel/version.ts";
import { CHALLENGE_TYPES } from "../acme/order.ts";
import { openPort80 } from "../acme/port-80.ts";
import { CertificateRenewal, type CertificateStatus } from "../acme/renewal.ts";
import { AcmeStore } from "../acme/store.ts";
import { domainProblem } from "./domain-check.ts";
import type { TlsMultiplexer } from "./tls-multiplexer.ts";

export const LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory";

type Deps = { config: Config; log: Log; timers: Timers; now: Now };

export type CertificateSource = {
  readonly first: Certificate | null;
  /** The status of the ACME renewal; null for a certificate in files. */
  status(): CertificateStatus | null;
  expiresAt(): number | null;
  start(
    multiplexer: TlsMultiplexer,
    announced: readonly string[],
    options: { reusePort: boolean },
  ): () => void | Promise<void>;
};

/** Throws when a file that TLS needs is unusable. Called at startup before anything is created. */
export function requireCertificates(config: Config): void {
  const files = certificateFiles(config);
  if (files) readCertificate(files);
  else if (config.DOMAIN !== undefined && config.ACME_CA !== undefined) readAuthority(config.ACME_CA);
}

export function certificateSource(deps: Deps): CertificateSource | null {
  const { config, log, now } = deps;
  const files = certificateFiles(config);
  if (files) {
    let expiresAt: number | null = null;
    const doubt = (certificate: Certificate) => {
      expiresAt = new X509Certificate(certificate.cert).validToDate.getTime();
      warnOfDoubt(log, files, certificateDoubt(certificate, config.DOMAIN, now()));
    };
    const first = readCertificate(files);
    doubt(first);
    const onChange = (multiplexer: TlsMultiplexer) => (certificate: Certificate) => {
      doubt(certificate);
      multiplexer.setCertificate(certificate);
    };
    return {
      first,
      status: () => null,
      expiresAt: () => expiresAt,
      start: (multiplexer) => watchCertificate(files, deps, onChange(multiplexer)),
    };
  }
  return deps.config.DOMAIN === undefined ? null : acmeSource(deps, deps.config.DOMAIN.toLowerCase());
}

function acmeSource({ config, log, timers, now }: Deps, domain: string): CertificateSource {
  const { ACME_DIRECTORY, ACME_CA, ACME_EMAIL, ACME_CHALLENGE, ACME_EAB_KEY_ID, ACME_EAB_HMAC } = config;
  const store = new AcmeStore(config.DATA_DIR);
  const ca = ACME_CA === undefined ? undefined : readAuthority(ACME_CA);
  let renewal: CertificateRenewal | null = null;
  return {
    first: store.certificate(domain),
    status: () => renewal?.status ?? null,
    expiresAt: () => renewal?.status.expiresAt ?? null,
    start(multiplexer, announced, { reusePort }) {
      const home =
        config.PUBLIC_URL ?? `https://${domain}${multiplexer.port === HTTPS_PORT ? "" : `:${multiplexer.port}`}`;
      const port80 =
        config.HTTP_PORT === 0 ? null : openPort80({ hostname: "::", port: config.HTTP_PORT, reusePort, home, log });
      const hasPort80 = port80 !== null && port80.port !== null;
      const possible = CHALLENGE_TYPES.filter((type) => type !== "http-01" || hasPort80);
      renewal = new CertificateRenewal({
        domain,
        directory: ACME_DIRECTORY ?? LETS_ENCRYPT,
        ca,
        email: ACME_EMAIL,
        external:
          ACME_EAB_KEY_ID === undefined || ACME_EAB_HMAC === undefined
            ? undefined
            : { keyId: ACME_EAB_KEY_ID, hmac: ACME_EAB_HMAC },
        challenges: ACME_CHALLENGE === "auto" ? possible : [ACME_CHALLENGE],
        responder: {
          setTlsAlpn: (certificate) => multiplexer.setChallenge(certificate),
          setHttp: (token, proof) => port80?.setProof(token, proof),
        },
        unableReason:
          ACME_CHALLENGE === "http-01" && !hasPort80
            ? `ACME_CHALLENGE is http-01, but port ${config.HTTP_PORT} is unavailable. Free it, or set ACME_CHALLENGE to auto, and start again.`
            : null,
        precheck: () => domainProblem(domain, announced),
        // A private authority may resolve names that this machine cannot, and has no rate limit for failures.
        isStrict: ACME_DIRECTORY === undefined,
        onCertificate: (certificate) => multiplexer.setCertificate(certificate),
        userAgent: `stoa/${VERSION}`,
        store,
        timers,
        log,
        now,
      });
      const stop = renewal.start();
      return async () => {
        stop();
        await port80?.stop();
      };
    },
  };
}

function readAuthority(path: string): string {
  try {
    const pem = readFileSync(path, "utf8");
    // Without this check a file that contains no certificate would be reported as an untrusted authority.
    new X509Certificate(pem);
    return pem;
  } catch (error) {
    const { code } = error as { code?: string };
    const isMissing = code !== undefined && /^E[A-Z]+$/.test(code);
    throw new CertificateRefused(
      isMissing ? `ACME_CA: ${path} cannot be read (${code})` : `ACME_CA: ${path} holds no PEM that can be read`,
    );
  }
}
