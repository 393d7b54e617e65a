/** `attacker.ts PORT SECONDS USERNAME CREDENTIAL`: everything at once against one port, from many addresses of loopback. */
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { TurnClient } from "../../../src/network/turn/client.ts";
import { TurnStream } from "../../../src/network/turn/framing.ts";

const [port = 0, seconds = 0] = process.argv.slice(2, 4).map(Number);
const [username = "", credential = ""] = process.argv.slice(4);
const HALF_OPEN = 10_000;
const SLOW = 500;
const held: Socket[] = [];
const counts = { halfOpen: 0, slow: 0, allocated: 0, refused: 0 };
const endsAt = Date.now() + seconds * 1_000;
const localAddress = (n: number) => `127.0.${1 + (Math.floor(n / 200) % 100)}.${1 + (n % 200)}`;
const isOn = () => Date.now() < endsAt;

async function halfOpen(): Promise<void> {
  for (let n = 0; n < HALF_OPEN && isOn(); n++) {
    const socket = connect({ host: "127.0.0.1", port, localAddress: localAddress(n) }, () => {
      counts.halfOpen++;
      if (n % 2 === 0) socket.write(Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]));
    });
    socket.on("error", () => {});
    held.push(socket);
    if (n % 50 === 0) await Bun.sleep(5);
  }
}

async function slowLoris(): Promise<void> {
  for (let n = 0; n < SLOW && isOn(); n++) {
    const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      counts.slow++;
      socket.write("GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
    });
    socket.on("error", () => {});
    const drip = setInterval(() => socket.write("a"), 1_000);
    socket.on("close", () => clearInterval(drip));
    await Bun.sleep(10);
  }
}

async function allocations(): Promise<void> {
  while (isOn()) {
    const ended = Promise.withResolvers<void>();
    const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }, async () => {
      await client.allocate().then(
        () => counts.allocated++,
        () => counts.refused++,
      );
      // Gives nothing back: the server has to take it.
      ended.resolve();
    });
    const client = new TurnClient((message) => void socket.write(message), username, credential);
    const stream = new TurnStream();
    socket.on("data", (data: Buffer) => void stream.push(data, (message) => client.receive(message)));
    socket.on("error", () => ended.resolve());
    socket.on("close", () => {
      client.failed(new Error("closed"));
      ended.resolve();
    });
    await ended.promise;
    await Bun.sleep(2);
  }
}

await Promise.all([halfOpen(), slowLoris(), allocations()]);
console.log(JSON.stringify(counts));
process.exit();
