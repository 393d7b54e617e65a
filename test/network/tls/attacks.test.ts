import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { TurnRefused } from "../../../src/network/turn/client.ts";
import { ANNOUNCED, nextData, secured, tlsStage, turnOver } from "./stage.ts";

const MEDIA = { address: ANNOUNCED, port: 7001 };
const HALF_OPEN = 500;
const MAX_WAITING = 300;
const GREED = 12;
const ECHOES = 100;
let stage: Awaited<ReturnType<typeof tlsStage>>;
let media: Bun.udp.Socket<"buffer">;
const attackers: Socket[] = [];

beforeAll(async () => {
  stage = await tlsStage({ overLoopback: true, limits: { waiting: MAX_WAITING, patienceMs: 120_000 } });
  media = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: { data: (socket, data, port, address) => void socket.send(data, port, address) },
  });
  stage.multiplexer.setPeers([{ announced: MEDIA, reached: { address: "127.0.0.1", port: media.port } }]);
});

afterAll(async () => {
  for (const socket of attackers) socket.destroy();
  media.close();
  await stage.close();
});

/** From one of many addresses, so that none of them is refused for being too many. */
function arrive(n: number): Promise<Socket> {
  return new Promise((resolve) => {
    const localAddress = `127.0.1.${1 + (n % 50)}`;
    const socket = connect({ host: "127.0.0.1", port: stage.multiplexer.port, localAddress }, () => resolve(socket));
    socket.on("error", () => {});
    attackers.push(socket);
  });
}

/** Says nothing, or begins a handshake and never ends it. */
async function halfOpen(): Promise<void> {
  for (let n = 0; n < HALF_OPEN; n++) {
    const socket = await arrive(n);
    if (n % 2 === 0) socket.write(Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]));
  }
}

/** Requests that never come to an end. */
async function slowLoris(): Promise<void> {
  for (let n = 0; n < 30; n++) {
    const socket = await secured(stage.multiplexer.port);
    socket.on("error", () => {});
    attackers.push(socket);
    socket.write("GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
  }
}

/** Requests all allocations in parallel with one credential, and returns how many were made. */
async function allocationFlood(): Promise<number> {
  const lines = await Promise.all(Array.from({ length: GREED }, () => turnOver(stage.multiplexer.port, "greedy")));
  attackers.push(...lines.map(({ socket }) => socket));
  const refusals = await Promise.all(
    lines.map(({ client }) =>
      client.allocate().then(
        () => null,
        (error: unknown) => error,
      ),
    ),
  );
  for (const refusal of refusals) if (refusal !== null) expect(refusal).toEqual(new TurnRefused(486));
  return refusals.filter((refusal) => refusal === null).length;
}

test("half-open connections, endless requests and a flood of allocations do not disturb served clients", async () => {
  const { client, socket } = await turnOver(stage.multiplexer.port, "call");
  attackers.push(socket);
  await client.allocate();
  await client.permit(MEDIA);
  let isOver = false;
  // The connections come one after another, because the one that has waited longest makes room.
  const attack = halfOpen()
    .then(() => Promise.all([slowLoris(), allocationFlood()]))
    .finally(() => {
      isOver = true;
    });
  let answered = 0;
  for (; !isOver || answered < ECHOES; answered++) {
    const back = nextData(client);
    client.send(Buffer.from(`packet ${answered}`), MEDIA);
    expect(await back).toBe(`packet ${answered}`);
  }
  const [, given] = await attack;
  // One id may have four at a time.
  expect(given).toBeGreaterThanOrEqual(4);
  expect(given).toBeLessThan(GREED);
  expect((await stage.get("/")).status).toBe(200);
  const { waiting, late } = await stage.multiplexer.stats();
  expect(waiting).toBeLessThanOrEqual(MAX_WAITING);
  expect(late).toBeGreaterThanOrEqual(HALF_OPEN - MAX_WAITING);
}, 120_000);
