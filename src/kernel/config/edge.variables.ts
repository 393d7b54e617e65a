import { domain, email, httpUrl, lengthBetween } from "./checks.ts";
import { choice, integer, optional, optionalPath, secret } from "./variable.ts";

const HTTPS_PORT = 443;

export const edgeVariables = {
  DOMAIN: optional(
    domain,
    "Name of this server: https, WebSockets and TURN at EDGE_PORT of every address, with a certificate of its own.",
  ),
  EDGE_PORT: integer(HTTPS_PORT, { min: 0, max: 65_535 }, "TCP port of DOMAIN. 0 takes a free one."),
  HTTP_PORT: integer(
    80,
    { min: 0, max: 65_535 },
    "TCP port that sends browsers from http to https, and answers http-01 challenges. 0: none.",
  ),
  ACME_EMAIL: optional(email, "Address that the certificate authority may write to."),
  ACME_DIRECTORY: optional(httpUrl, "Directory of the certificate authority (ACME). Unset: Let's Encrypt."),
  ACME_CA: optionalPath("Certificates (PEM) to trust for ACME_DIRECTORY itself, should it be a private one."),
  ACME_CHALLENGE: choice(
    "auto",
    ["auto", "tls-alpn-01", "http-01"],
    "How the domain is proved: at EDGE_PORT, at HTTP_PORT, or the second when the first fails.",
  ),
  ACME_EAB_KEY_ID: optional(lengthBetween(1, 512), "Key id of an external account that the authority wants to see."),
  ACME_EAB_HMAC: secret(lengthBetween(1, 1024), "Key of that external account, in base64url."),
  TURN: choice("on", ["on", "off"], "Whether TLS is followed by a relay for clients that reach no other port."),
  TURN_UDP_PORT: integer(0, { min: 0, max: 65_535 }, "Also relays without TLS, at this UDP and TCP port. 0: no."),
  TURN_MAX_ALLOCATIONS: integer(2_000, { min: 1, max: 16_000 }, "Relays at a time, in all."),
  TURN_MAX_ALLOCATIONS_PER_SESSION: integer(4, { min: 1, max: 100 }, "Relays at a time of one RTC session."),
  TURN_MAX_BPS: integer(
    8_000_000,
    { min: 64_000, max: 1_000_000_000 },
    "Bits a second that one relay carries, each way.",
  ),
};

/** What PUBLIC_URL is when only DOMAIN is given. */
export function publicUrlOfDomain({
  DOMAIN,
  EDGE_PORT,
}: {
  DOMAIN: string | undefined;
  EDGE_PORT: number;
}): string | undefined {
  if (DOMAIN === undefined) return undefined;
  const name = DOMAIN.toLowerCase();
  return EDGE_PORT === HTTPS_PORT || EDGE_PORT === 0 ? `https://${name}` : `https://${name}:${EDGE_PORT}`;
}
