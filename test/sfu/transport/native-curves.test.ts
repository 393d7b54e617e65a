import { expect, test } from "bun:test";
import nacl from "tweetnacl";
import { x25519, x25519KeyPair } from "../../../src/sfu/werift/native-curves.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

/** tweetnacl's own arithmetic, which is not replaced. */
function scalarMult(secret: Uint8Array, point: Uint8Array): Uint8Array {
  const { lowlevel } = nacl as unknown as {
    lowlevel: { crypto_scalarmult(q: Uint8Array, n: Uint8Array, p: Uint8Array): void };
  };
  const shared = new Uint8Array(32);
  lowlevel.crypto_scalarmult(shared, secret, point);
  return shared;
}

test("X25519 by the platform is X25519 by tweetnacl", () => {
  const base = new Uint8Array(32);
  base[0] = 9;
  for (let i = 0; i < 10; i++) {
    const a = x25519KeyPair();
    const b = x25519KeyPair();
    expect(hex(a.publicKey)).toBe(hex(scalarMult(a.secretKey, base)));
    expect(hex(x25519(a.secretKey, b.publicKey))).toBe(hex(scalarMult(a.secretKey, b.publicKey)));
    expect(hex(x25519(b.secretKey, a.publicKey))).toBe(hex(x25519(a.secretKey, b.publicKey)));
  }
});

test("each key has a buffer of its own, as werift expects", () => {
  const { publicKey, secretKey } = x25519KeyPair();
  expect(publicKey.buffer.byteLength).toBe(32);
  expect(secretKey.buffer.byteLength).toBe(32);
});
