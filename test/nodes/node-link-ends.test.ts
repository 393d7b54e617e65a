import { expect, test } from "bun:test";
import { NodeLinkEnds } from "../../src/nodes/node-link-ends.ts";

const WORKER = { index: 0, address: "127.0.0.1" };
const open = (ends: NodeLinkEnds<typeof WORKER>, publicKey: string) => {
  const credentials = { ufrag: "u", pwd: "p" };
  const peer = { publicKey, addresses: ["127.0.0.1"], port: 9, credentials };
  return ends.open(WORKER, { linkId: "l", worker: 0, isFirst: true, credentials, peer });
};

test("no link is opened with a public key that yields a known secret, and no state of it is left", () => {
  const ends = new NodeLinkEnds<typeof WORKER>();
  // The points of low order of RFC 7748: with them, the shared secret is zero.
  const one = Buffer.alloc(32);
  one[0] = 1;
  for (const point of [Buffer.alloc(32), one]) {
    expect(() => open(ends, point.toString("base64url"))).toThrow();
    expect(ends.size).toBe(0);
  }
  expect(open(ends, new NodeLinkEnds().publicKey).linkId).toBe("l");
  expect(ends.size).toBe(1);
});
