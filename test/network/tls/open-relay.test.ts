import { afterEach, beforeEach, expect, test } from "bun:test";
import { turnSecret } from "../../../src/features/rooms/ice-servers.ts";
import { createKeyring } from "../../../src/kernel/crypto/secrets.ts";
import type { Address } from "../../../src/network/turn/address.ts";
import type { Check } from "../../../src/ops/doctor/check.ts";
import { checkTurn } from "../../../src/ops/doctor/turn.ts";
import { testConfig } from "../../harness/test-config.ts";
import { ANNOUNCED, tlsStage } from "./stage.ts";

const STOA_SECRET = "a secret of this server, long enough for keys";
let stage: Awaited<ReturnType<typeof tlsStage>>;

beforeEach(async () => {
  stage = await tlsStage({
    turn: {
      secret: turnSecret(createKeyring(STOA_SECRET)),
      realm: "stoa",
      relayAddresses: [ANNOUNCED],
      limits: { perId: 4, perAddress: 100, total: 100, bitsPerSecond: 100_000_000 },
      port: null,
    },
  });
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
});

afterEach(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  await stage.close();
});

/** The doctor's result for a relay that reaches these addresses, over its own credentials and TLS. */
async function turnClosed(...peers: Address[]): Promise<Check | undefined> {
  stage.multiplexer.setPeers(peers.map((peer) => ({ announced: peer, reached: peer })));
  // The thread knows them once it answers this.
  await stage.multiplexer.stats();
  const config = testConfig({
    STOA_SECRET,
    TLS_CERT: "certificate.pem",
    TLS_KEY: "key.pem",
    EDGE_PORT: stage.multiplexer.port,
    PUBLIC_URL: `https://localhost:${stage.multiplexer.port}`,
  });
  const running = {
    role: "server" as const,
    pid: process.pid,
    version: "",
    url: stage.url,
    mediaPorts: [],
    announce: [ANNOUNCED],
    probe: { ufrag: "", pwd: "" },
    doctorSecret: "",
  };
  const checks = await checkTurn({ config, running, now: Date.now() });
  return checks.find(({ name }) => name === "turn-closed");
}

const media = { address: ANNOUNCED, port: 7_001 };

test("[22] the doctor accepts a relay that reaches only the announced media ports", async () => {
  expect(await turnClosed(media)).toMatchObject({ status: "pass", remedy: "" });
});

const open: Record<string, Address> = {
  "the machine itself": { address: "127.0.0.1", port: 9_999 },
  "what a cloud tells its machines": { address: "169.254.169.254", port: 80 },
  strangers: { address: "192.0.2.1", port: 9 },
};

for (const [whom, peer] of Object.entries(open)) {
  test(`[22] the doctor says that a relay is open to ${whom}, and what to do`, async () => {
    expect(await turnClosed(media, peer)).toMatchObject({
      status: "fail",
      detail: `turns:localhost:${stage.multiplexer.port}?transport=tcp: it does not refuse ${peer.address} (0)`,
      remedy: "Set TURN to off, and report it.",
    });
  });
}

test("[22] the doctor reports a relay that reaches another port of an announced address", async () => {
  expect(await turnClosed(media, { address: ANNOUNCED, port: 22 })).toMatchObject({
    status: "fail",
    detail: expect.stringContaining(`it does not refuse ${ANNOUNCED}:22 (0)`),
  });
});
