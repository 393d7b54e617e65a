import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { turnCredential } from "../../../src/network/turn/credentials.ts";
import { ATTRIBUTE, newTransaction, TURN_TYPE, writeMessage } from "../../../src/network/turn/message.ts";
import { withTurn } from "../../../src/ops/doctor/turn-client.ts";
import { ANNOUNCED, closed, nextData, secured, TURN_SECRET, tlsStage, turnOver, until } from "./stage.ts";

let stage: Awaited<ReturnType<typeof tlsStage>>;
let media: Bun.udp.Socket<"buffer">;
/** What the media port has received: the text, and the client according to the table. */
const seen: { text: string; client: unknown; relayed: unknown }[] = [];

beforeAll(async () => {
  stage = await tlsStage({
    turn: {
      secret: TURN_SECRET,
      realm: "localhost",
      relayAddresses: [ANNOUNCED],
      limits: { perId: 4, perAddress: 100, total: 100, bitsPerSecond: 100_000_000 },
      port: 0,
    },
  });
  media = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: {
      data(socket, data, port, address) {
        const [client, relayed] = [stage.tables.udp.clientOf(port), stage.tables.udp.relayedOf(port)];
        seen.push({ text: data.toString(), client, relayed });
        socket.send(`answer to ${data}`, port, address);
      },
    },
  });
  const announced = { address: ANNOUNCED, port: 7001 };
  stage.multiplexer.setPeers([{ announced, reached: { address: "127.0.0.1", port: media.port } }]);
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
});

afterAll(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  media.close();
  await stage.close();
});

test.each(["tls", "tcp", "udp"] as const)("TURN over %s relays to the media port", async (transport) => {
  const port = transport === "tls" ? stage.multiplexer.port : (stage.multiplexer.turnPort ?? 0);
  const { username, credential } = turnCredential(TURN_SECRET, `session ${transport}`, Date.now() + 60_000);
  const announced = { address: ANNOUNCED, port: 7001 };
  await withTurn({ host: "127.0.0.1", port, transport }, username, credential, async (client) => {
    const relayed = await client.allocate();
    await client.permit(announced);
    const answer = new Promise<string>((resolve) => {
      client.onData = (data) => resolve(data.toString());
    });
    client.send(Buffer.from(`hello by ${transport}`), announced);
    expect(await answer).toBe(`answer to hello by ${transport}`);
    const { client: who, relayed: known } = seen.find(({ text }) => text.endsWith(transport)) ?? {};
    expect(who).toMatchObject({ address: "127.0.0.1" });
    expect(known).toEqual(relayed);
    await client.release();
  });
  await until(async () => (await stage.multiplexer.stats()).turn?.allocations === 0);
});

test("revoking an id closes its relay connection and clears the table", async () => {
  const { username, credential } = turnCredential(TURN_SECRET, "ended", Date.now() + 60_000);
  const target = { host: "127.0.0.1", port: stage.multiplexer.port, transport: "tls" } as const;
  const announced = { address: ANNOUNCED, port: 7001 };
  const using = withTurn(target, username, credential, async (client) => {
    await client.allocate();
    await client.permit(announced);
    stage.multiplexer.revokeRelays("ended", Date.now() + 60_000);
    // The edge is a thread: it may answer once more before it hears of the end.
    for (;;) await client.refresh(600);
  });
  await expect(using).rejects.toThrow("it closed the connection");
  await expect(withTurn(target, username, credential, (client) => client.allocate())).rejects.toThrow("credentials");
  const slots = Array.from({ length: 65_536 }, (_none, port) => stage.tables.udp.has(port)).filter(Boolean);
  expect(slots.length).toBe(0);
});

test("hostile bytes over TLS, TCP and UDP do not disturb a relayed client", async () => {
  const announced = { address: ANNOUNCED, port: 7001 };
  const turnPort = stage.multiplexer.turnPort ?? 0;
  const signedBy = (nonce: string) =>
    writeMessage(
      TURN_TYPE.allocate,
      newTransaction(),
      [
        [ATTRIBUTE.username, Buffer.from("1:x")],
        [ATTRIBUTE.realm, Buffer.from("localhost")],
        [ATTRIBUTE.nonce, Buffer.from(nonce)],
      ],
      { key: Buffer.alloc(16) },
    );
  const strange = [
    signedBy(`x.${"é".repeat(16)}`),
    // These have a wrong length, an unbound channel and another protocol's cookie.
    Buffer.from([0, 3, 0xff, 0xfc, 0x21, 0x12, 0xa4, 0x42]),
    Buffer.from([0x40, 0x00, 0x00, 0x04, 1, 2, 3, 4]),
    Buffer.alloc(20),
  ];
  const { client, socket: line } = await turnOver(stage.multiplexer.port, "guest");
  await client.allocate();
  await client.permit(announced);
  const udp = await Bun.udpSocket({ connect: { hostname: "127.0.0.1", port: turnPort }, socket: { data() {} } });
  const tcp = connect(turnPort, "127.0.0.1");
  const tls = await secured(stage.multiplexer.port);
  for (const socket of [tcp, tls]) socket.on("error", () => {});
  const gone = [tcp, tls].map(closed);
  for (const bytes of strange) {
    udp.send(bytes);
    tls.write(bytes);
    tcp.write(bytes);
  }
  await Promise.all(gone);
  const answer = nextData(client);
  client.send(Buffer.from("still here"), announced);
  expect(await answer).toBe("answer to still here");
  udp.close();
  await client.release();
  line.destroy();
});
