import { afterAll, beforeAll, expect, test } from "bun:test";
import { turnCredential } from "../../../src/network/turn/credentials.ts";
import { program } from "../../ops/machine.ts";
import { ANNOUNCED, TURN_SECRET, tlsStage } from "./stage.ts";

/** Tests the relay with coturn's own client. */
let stage: Awaited<ReturnType<typeof tlsStage>>;
let media: Bun.udp.Socket<"buffer">;

beforeAll(async () => {
  await program("turnutils_uclient", "coturn");
  stage = await tlsStage({
    turn: {
      secret: TURN_SECRET,
      realm: "stoa",
      relayAddresses: [ANNOUNCED],
      limits: { perId: 4, perAddress: 100, total: 100, bitsPerSecond: 100_000_000 },
      port: 0,
    },
  });
  media = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: { data: (socket, data, port, address) => void socket.send(data, port, address) },
  });
  const reached = { address: "127.0.0.1", port: media.port };
  // It also binds a channel to the port beside the one it is given.
  stage.multiplexer.setPeers([7001, 7002].map((port) => ({ announced: { address: ANNOUNCED, port }, reached })));
}, 120_000);

afterAll(async () => {
  media.close();
  await stage.close();
});

const RELAYED = 20;
/** A message of 200 bytes as a Data indication. */
const INDICATION_BYTES = 236;

const WAYS = { udp: [], tcp: ["-t"], tls: ["-t", "-S"] } as const;

async function uclient(way: keyof typeof WAYS, peer: string, options: string[] = []): Promise<string> {
  const port = way === "tls" ? stage.multiplexer.port : (stage.multiplexer.turnPort ?? 0);
  const { username, credential } = turnCredential(TURN_SECRET, `coturn-${way}`, Date.now() + 60_000);
  const who = options.includes("-w") ? ["-u", username] : ["-u", username, "-w", credential];
  const child = Bun.spawn(
    [
      ...["turnutils_uclient", "-v", "-c", "-n", String(RELAYED), "-l", "200", "-m", "1", "-e", peer, "-r", "7001"],
      ...["-p", String(port), ...WAYS[way], ...who, ...options, "127.0.0.1"],
    ],
    { stdout: "pipe", stderr: "pipe", timeout: 60_000 },
  );
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  return out + err;
}

test.each(["udp", "tcp", "tls"] as const)(
  "turnutils_uclient allocates, binds a channel and relays over %s",
  async (way) => {
    const said = await uclient(way, ANNOUNCED);
    expect(said).toContain("allocate response received");
    expect(said).toMatch(/tot_send_msgs=20, tot_recv_msgs=20/);
  },
  120_000,
);

test("coturn's client relays by indications", async () => {
  const said = await uclient("tls", ANNOUNCED, ["-s"]);
  expect(said).toContain(`tot_send_msgs=${RELAYED}`);
  // The client takes what one read returns for one message, although it may hold several indications.
  const sizes = [...said.matchAll(/response received: size=(\d+)/g)].map(([, size]) => Number(size));
  const indications = sizes.filter((size) => size % INDICATION_BYTES === 0);
  expect(indications.reduce((total, size) => total + size, 0)).toBe(RELAYED * INDICATION_BYTES);
}, 120_000);

test("coturn's client is refused with a wrong password or a foreign peer", async () => {
  expect(await uclient("tls", ANNOUNCED, ["-w", "wrong"])).not.toContain("Received relay addr");
  expect((await stage.multiplexer.stats()).turn?.refusals[401]).toBeGreaterThan(0);
  expect(await uclient("tls", "192.0.2.1")).toMatch(/error 403/);
  expect(await uclient("tls", "127.0.0.1")).toMatch(/error 403/);
}, 180_000);
