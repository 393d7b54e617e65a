import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatChild } from "../../features/chat/chat-child.ts";
import { answers, type Backend, type Talker } from "./backend.ts";
import { WireClient } from "./wire.ts";

/** This server, from source, every acknowledged message fsynced. */
export async function stoa(): Promise<Backend> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-bench-"));
  const child = await ChatChild.start(dataDir);
  return stoaAt(child, async () => {
    await child.kill();
    rmSync(dataDir, { recursive: true, force: true });
  });
}

/** A server that runs already. */
export function stoaAt(child: Pick<ChatChild, "url" | "pid" | "call" | "token">, stop: () => Promise<void>): Backend {
  return {
    name: "Stoa",
    durable: true,
    pid: child.pid,
    stop,

    async prepare(rooms, users) {
      for (const name of rooms) {
        const members = users.filter(({ room }) => room === name).map(({ userId }) => ({ userId }));
        await child.call("POST", "/v1/chat/conversations", { name, members: members.slice(0, 1000) });
        for (const member of members.slice(1000)) {
          await child.call("POST", `/v1/chat/conversations/${name}/members`, member);
        }
      }
    },

    async connect(userId, room) {
      const token = await child.token(userId);
      const wire = await WireClient.connect(`${child.url}/v1/chat/ws?token=${token}`);
      const { wait, arrived } = answers();
      const talker: Talker = {
        wire,
        onMessage: () => {},
        send(text) {
          const id = `${userId}-${++next}`;
          const answered = wait(id);
          wire.send(JSON.stringify({ type: "message.send", id, room, text }));
          return answered;
        },
      };
      let next = 0;
      wire.onText = (text) => {
        if (text.startsWith('{"type":"message"')) talker.onMessage(text);
        else if (text.startsWith('{"type":"ack"')) arrived(text.slice(20, text.indexOf('"', 20)));
      };
      const joined = wait("join");
      wire.send(JSON.stringify({ type: "room.join", id: "join", room }));
      await joined;
      return talker;
    },
  };
}
