import { createHash, createSign, generateKeyPairSync, randomBytes } from "node:crypto";

const USER_PRESENT = 0x01;
const USER_VERIFIED = 0x04;
const HAS_CREDENTIAL = 0x40;

type Options = { challenge: string; rp?: { id?: string }; rpId?: string };

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest();

/** A device with one passkey, in software: what a browser sends for it (WebAuthn level 3, attestation "none"). */
export function createAuthenticator(origin: string) {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const id = randomBytes(16);
  const { x = "", y = "" } = publicKey.export({ format: "jwk" });
  let counter = 0;

  const clientData = (type: string, { challenge }: Options, site = origin) =>
    Buffer.from(JSON.stringify({ type, challenge, origin: site, crossOrigin: false }));
  const authenticatorData = (rpId: string, flags: number, rest = Buffer.alloc(0), count = ++counter) => {
    const head = Buffer.alloc(5);
    head.writeUInt8(flags);
    head.writeUInt32BE(count, 1);
    return Buffer.concat([sha256(rpId), head, rest]);
  };
  const response = (fields: Record<string, Buffer>) => ({
    id: id.toString("base64url"),
    rawId: id.toString("base64url"),
    type: "public-key",
    clientExtensionResults: {},
    response: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value.toString("base64url")])),
  });

  return {
    create(options: Options) {
      // A COSE key (RFC 9053) in CBOR: EC2, ES256, P-256, x, y.
      const key = Buffer.concat([
        Buffer.from("a5010203262001215820", "hex"),
        Buffer.from(x, "base64url"),
        Buffer.from("225820", "hex"),
        Buffer.from(y, "base64url"),
      ]);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(id.length);
      const credential = Buffer.concat([Buffer.alloc(16), length, id, key]);
      const flags = USER_PRESENT | USER_VERIFIED | HAS_CREDENTIAL;
      const data = authenticatorData(options.rp?.id ?? "", flags, credential);
      const attestationObject = Buffer.concat([
        Buffer.from("a363666d74646e6f6e656761747453746d74a0686175746844617461", "hex"),
        Buffer.from([0x58, data.length]),
        data,
      ]);
      return response({ clientDataJSON: clientData("webauthn.create", options), attestationObject });
    },

    /** `forged` is what a page of another site, or a copy of the device, would send. */
    get(options: Options, flags = USER_PRESENT | USER_VERIFIED, forged: { site?: string; count?: number } = {}) {
      const authData = authenticatorData(options.rpId ?? "", flags, undefined, forged.count);
      const clientDataJSON = clientData("webauthn.get", options, forged.site);
      const signature = createSign("sha256")
        .update(Buffer.concat([authData, sha256(clientDataJSON)]))
        .sign(privateKey);
      return response({ clientDataJSON, authenticatorData: authData, signature });
    },
  };
}

/** The bytes of a secret that is shown in base32. */
export function secretOf(text: string): Uint8Array {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...text].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const byte = (_: unknown, at: number) => Number.parseInt(bits.slice(at * 8, at * 8 + 8), 2);
  return Uint8Array.from({ length: Math.floor(bits.length / 8) }, byte);
}
