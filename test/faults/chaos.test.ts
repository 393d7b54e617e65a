import { expect, test } from "bun:test";
import { connect } from "node:net";
import type { ChatChild } from "../chat/chat-child.ts";
import { ChatClient } from "../chat/client.ts";
import { crashRounds } from "../chat/crash.ts";

/** Longer: `STOA_FAULT_SECONDS=600 bin/test faults/chaos`. */
const SECONDS = Number(process.env.STOA_FAULT_SECONDS ?? 60);
const ROUNDS = Math.max(3, Math.ceil(SECONDS / 3));

const binding = Buffer.alloc(20);
binding.writeUInt16BE(0x0001, 0);
binding.writeUInt32BE(0x2112a442, 4);

/** Everything hostile at once, until the process is killed; none of it is waited for by the honest clients. */
async function disturb(child: ChatChild): Promise<void> {
  const { hostname, port } = new URL(child.url);
  const slow = Array.from({ length: 50 }, (_, i) => {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    // Half of them never say a word, half never finish.
    if (i % 2) socket.write(`POST /v1/auth/login HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: 9\r\nx-a: `);
    return socket;
  });
  const udp = await Bun.udpSocket({ hostname: "127.0.0.1", socket: { data: () => {}, error: () => {} } });
  for (let i = 0; i < 400; i++) {
    const packet = i % 2 ? binding : crypto.getRandomValues(Buffer.alloc(1 + ((i * 37) % 1200)));
    for (const mediaPort of child.mediaPorts) udp.send(packet, mediaPort, "127.0.0.1");
  }
  const guess = ChatClient.open(child.url, "not.a.token");
  child.signal("SIGSTOP");
  await Bun.sleep(50);
  child.signal("SIGCONT");
  // Closed by the server with its reason, or by its end.
  await guess.then((client) => client.closed());
  for (const socket of slow) socket.destroy();
  udp.close();
}

test(
  `[durability] ${ROUNDS} rounds of kill -9 under load, amid floods, silent sockets, slow heads and a stopped process`,
  async () => {
    const report = await crashRounds(ROUNDS, Math.random, disturb);
    expect(report).toMatchObject({ lost: 0, duplicates: 0, gaps: 0, changed: 0 });
    expect(report.acknowledged).toBeGreaterThan(ROUNDS);
    console.log(
      `      ${report.acknowledged} acknowledged over ${ROUNDS} kills, ${report.retried} retried, 0 lost, 0 doubled`,
    );
  },
  60_000 + SECONDS * 5_000,
);
