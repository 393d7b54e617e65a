import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import type { Now } from "../../kernel/time/clock.ts";
import { type AcmeClient, acmeError, type Problem } from "./client.ts";
import { certificateRequest, challengeCertificate, keyPem, newKey } from "./x509.ts";

export const CHALLENGE_TYPES = ["tls-alpn-01", "http-01"] as const;
export type ChallengeType = (typeof CHALLENGE_TYPES)[number];

/** Provides challenge responses to the certificate authority; null removes one. */
export type ChallengeResponder = {
  setTlsAlpn(certificate: Certificate | null): Promise<void>;
  setHttp(token: string, proof: string | null): void;
};

type Status = "pending" | "processing" | "ready" | "valid" | "invalid" | "deactivated" | "expired" | "revoked";
type Order = { status: Status; authorizations: string[]; finalize: string; certificate?: string; error?: Problem };
type Challenge = { type: string; url: string; token: string; status: Status; error?: Problem };
type Authorization = { status: Status; challenges: Challenge[] };

type Request = {
  client: AcmeClient;
  domain: string;
  challenge: ChallengeType;
  responder: ChallengeResponder;
  sleep: (ms: number) => Promise<void>;
  now: Now;
};

const POLL_MS = 1_000;
const MAX_POLL_MS = 60_000;
const MAX_POLLS = 60;

export async function orderCertificate(request: Request): Promise<Certificate> {
  const { client, domain } = request;
  const { newOrder } = await client.directory();
  const { body: order, location } = await client.post<Order>(newOrder, {
    identifiers: [{ type: "dns", value: domain }],
  });
  for (const url of order.authorizations) await prove(request, url);
  const key = newKey();
  const csr = certificateRequest(domain, key).toString("base64url");
  await poll(request, location, (current: Order) => current.status !== "pending");
  await client.post(order.finalize, { csr });
  const done = await poll(request, location, ({ status }: Order) => status === "valid" || status === "invalid");
  if (done.status === "invalid" || done.certificate === undefined) throw acmeError(done.error ?? {});
  return { cert: await client.download(done.certificate), key: keyPem(key) };
}

async function prove(request: Request, url: string): Promise<void> {
  const { client, domain, responder, now } = request;
  const { body: authorization } = await client.post<Authorization>(url);
  if (authorization.status === "valid") return;
  const challenge = authorization.challenges.find(({ type }) => type === request.challenge);
  if (!challenge) throw acmeError({ type: "unsupported", detail: `The authority offers no ${request.challenge}.` });
  const proof = await client.keyAuthorization(challenge.token);
  const isTls = request.challenge === "tls-alpn-01";
  if (isTls) await responder.setTlsAlpn(challengeCertificate(domain, proof, now()));
  else responder.setHttp(challenge.token, proof);
  try {
    await client.post(challenge.url, {});
    const settled = await poll(request, url, ({ status }: Authorization) => status !== "pending");
    if (settled.status === "valid") return;
    throw acmeError(settled.challenges.find(({ error }) => error !== undefined)?.error ?? {});
  } finally {
    if (isTls) await responder.setTlsAlpn(null);
    else responder.setHttp(challenge.token, null);
  }
}

async function poll<Body>({ client, sleep }: Request, url: string, isSettled: (body: Body) => boolean): Promise<Body> {
  for (let count = 0; ; count++) {
    const { body, retryAfterMs } = await client.post<Body>(url);
    if (isSettled(body)) return body;
    if (count >= MAX_POLLS) throw acmeError({ type: "timeout", detail: "The authority does not finish the order." });
    await sleep(Math.min(retryAfterMs ?? POLL_MS, MAX_POLL_MS));
  }
}
