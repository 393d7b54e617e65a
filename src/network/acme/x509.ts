import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import { bits, implicit, integer, isTrue, octets, oid, sequence, set, tagged, time, utf8 } from "./der.ts";

const OID = {
  ecdsaWithSha256: "1.2.840.10045.4.3.2",
  commonName: "2.5.4.3",
  subjectAltName: "2.5.29.17",
  extensionRequest: "1.2.840.113549.1.9.14",
  acmeIdentifier: "1.3.6.1.5.5.7.1.31",
} as const;

export function newKey(): KeyObject {
  return generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
}

export const keyPem = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();

const publicKeyOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: "spki", format: "der" });

const algorithm = (): Buffer => sequence(oid(OID.ecdsaWithSha256));

function signed(body: Buffer, key: KeyObject): Buffer {
  return sequence(body, algorithm(), bits(sign("sha256", body, key)));
}

function namesExtension(domain: string): Buffer {
  const dnsName = implicit(2, Buffer.from(domain));
  return sequence(oid(OID.subjectAltName), octets(sequence(dnsName)));
}

/** The domain is a subject alternative name, because a common name has at most 64 characters. */
export function certificateRequest(domain: string, key: KeyObject): Buffer {
  const extensions = sequence(oid(OID.extensionRequest), set(sequence(namesExtension(domain))));
  const version = integer(Buffer.from([0]));
  return signed(sequence(version, sequence(), publicKeyOf(key), tagged(0, extensions)), key);
}

/**
 * A self-signed certificate with the challenge response in a critical extension, for clients that offer `acme-tls/1`
 * (RFC 8737).
 */
export function challengeCertificate(domain: string, keyAuthorization: string, now: number): Certificate {
  const key = newKey();
  const name = sequence(set(sequence(oid(OID.commonName), utf8("ACME challenge"))));
  const proof = octets(createHash("sha256").update(keyAuthorization).digest());
  const extensions = sequence(namesExtension(domain), sequence(oid(OID.acmeIdentifier), isTrue(), octets(proof)));
  const body = sequence(
    tagged(0, integer(Buffer.from([2]))),
    // The first byte is not zero, which DER would not allow.
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm(),
    name,
    sequence(time(now - DAY_MS), time(now + DAY_MS)),
    name,
    publicKeyOf(key),
    tagged(3, extensions),
  );
  const pem = signed(body, key)
    .toString("base64")
    .replaceAll(/.{1,64}/g, "$&\n");
  return { cert: `-----BEGIN CERTIFICATE-----\n${pem}-----END CERTIFICATE-----\n`, key: keyPem(key) };
}

const AUTHORITY_KEY_IDENTIFIER = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x23]);

/** The certificate's identifier for renewal information (RFC 9773 §4.1); null when it has no key identifier. */
export function renewalName(pem: string): string | null {
  const { raw, serialNumber } = new X509Certificate(pem);
  const at = raw.indexOf(AUTHORITY_KEY_IDENTIFIER);
  if (at < 0) return null;
  // The tags are OCTET STRING, SEQUENCE and [0], each shorter than 128 bytes.
  const value = raw.subarray(at + AUTHORITY_KEY_IDENTIFIER.length);
  if (value[0] !== 0x04 || value[2] !== 0x30 || value[4] !== 0x80) return null;
  const keyIdentifier = value.subarray(6, 6 + (value[5] ?? 0));
  const serial = Buffer.from(serialNumber.padStart(serialNumber.length + (serialNumber.length % 2), "0"), "hex");
  const unsigned = ((serial[0] ?? 0) & 0x80) === 0 ? serial : Buffer.concat([Buffer.from([0]), serial]);
  return `${keyIdentifier.toString("base64url")}.${unsigned.toString("base64url")}`;
}
