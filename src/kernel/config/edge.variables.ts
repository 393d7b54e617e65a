import { addressRange, domain, email, httpUrl, lengthBetween } from "./checks.ts";
import { choice, integer, list, optional, optionalPath, secret } from "./variable.ts";

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
  ACME_EMAIL: optional(email, "Contact address for the certificate authority."),
  ACME_DIRECTORY: optional(httpUrl, "Directory of the certificate authority (ACME). Unset: Let's Encrypt."),
  ACME_CA: optionalPath("Certificates (PEM) to trust when connecting to a private ACME_DIRECTORY."),
  ACME_CHALLENGE: choice(
    "auto",
    ["auto", "tls-alpn-01", "http-01"],
    "How the domain is validated: at EDGE_PORT (tls-alpn-01), at HTTP_PORT (http-01), or auto for the second when the first fails.",
  ),
  ACME_EAB_KEY_ID: optional(
    lengthBetween(1, 512),
    "Key id of the external account (EAB) that the certificate authority requires.",
  ),
  ACME_EAB_HMAC: secret(lengthBetween(1, 1024), "HMAC key of the external account, in base64url."),
  TURN: choice(
    "on",
    ["on", "off"],
    "Whether EDGE_PORT also serves a TURN relay, for clients that reach no other port.",
  ),
  TURN_UDP_PORT: integer(
    0,
    { min: 0, max: 65_535 },
    "Serves the TURN relay without TLS too, at this UDP and TCP port. 0: off.",
  ),
  TURN_MAX_ALLOCATIONS: integer(2_000, { min: 1, max: 16_000 }, "TURN allocations at a time."),
  TURN_MAX_ALLOCATIONS_PER_SESSION: integer(4, { min: 1, max: 100 }, "TURN allocations of one RTC session at a time."),
  TURN_MAX_BPS: integer(
    8_000_000,
    { min: 64_000, max: 1_000_000_000 },
    "Bits per second of one TURN allocation, in each direction.",
  ),
  TURN_NODE_RANGES: list(
    [],
    addressRange,
    "Private networks in which the relay reaches media nodes at other addresses than that of their internalUrl.",
  ),
};

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
