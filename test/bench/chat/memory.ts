import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatChild } from "../../features/chat/chat-child.ts";
import { WireClient } from "./wire.ts";

export type Memory = { bytesConnected: number; bytesJoined: number };

/** The resident memory that each of `sockets` silent sockets adds, first connected, then with a conversation open. */
export async function memoryPerSocket(sockets: number): Promise<Memory> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-memory-"));
  const child = await ChatChild.start(dataDir);
  try {
    const room = "memory";
    const members = Array.from({ length: 100 }, (_, i) => ({ userId: `m${i}` }));
    await child.call("POST", "/v1/chat/conversations", { name: room, members });
    const tokens = await Promise.all(members.map(({ userId }) => child.token(userId)));
    const open = async (count: number) => {
      const wires: WireClient[] = [];
      for (let i = 0; i < count; i += 1)
        wires.push(await WireClient.connect(`${child.url}/v1/chat/ws?token=${tokens[i % tokens.length]}`));
      return wires;
    };
    // Code, caches and pools have their size once a few hundred sockets came and went.
    const warm = await open(500);
    for (const wire of warm) wire.send(JSON.stringify({ type: "room.join", id: "j", room }));
    await Bun.sleep(500);
    for (const wire of warm) wire.close();
    await Bun.sleep(1000);
    const before = await settledRss(child);
    const wires = await open(sockets);
    const connected = await settledRss(child);
    for (const wire of wires) wire.send(JSON.stringify({ type: "room.join", id: "j", room }));
    await Bun.sleep(2000);
    const joined = await settledRss(child);
    for (const wire of wires) wire.close();
    return { bytesConnected: (connected - before) / sockets, bytesJoined: (joined - before) / sockets };
  } finally {
    await child.kill();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function settledRss(child: ChatChild): Promise<number> {
  let rss = 0;
  for (let i = 0; i < 4; i += 1) {
    ({ rss } = await child.usage());
    await Bun.sleep(300);
  }
  return rss;
}
