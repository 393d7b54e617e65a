import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheFolder, firstLine, run } from "../harness/cache.ts";
import { answers, type Backend, type Talker } from "./backend.ts";
import { WireClient } from "./wire.ts";

const PACKAGES = ["socket.io@4.8.4", "@socket.io/bun-engine@0.1.2"];

/** socket.io on the same runtime with its native engine, every message committed on its own before it is acknowledged. */
export async function socketIo(): Promise<Backend> {
  const cache = cacheFolder("socket.io");
  if (!existsSync(join(cache, "node_modules/@socket.io/bun-engine"))) {
    writeFileSync(join(cache, "package.json"), "{}");
    await run([process.execPath, "add", ...PACKAGES], cache);
  }
  const script = join(cache, "server.mjs");
  copyFileSync(join(import.meta.dir, "socketio-server.mjs"), script);
  const dataDir = mkdtempSync(join(tmpdir(), "socketio-bench-"));
  const child = Bun.spawn([process.execPath, script, dataDir], { stdout: "pipe", stderr: "inherit" });
  const port = await firstLine(child.stdout);

  return {
    name: "socket.io",
    durable: true,
    pid: child.pid,
    prepare: () => Promise.resolve(),

    async connect(userId, room) {
      const wire = await WireClient.connect(`http://127.0.0.1:${port}/socket.io/?EIO=4&transport=websocket`);
      const { wait, arrived } = answers();
      let next = 0;
      const ask = (event: string, data: object): Promise<void> => {
        const id = String(next++);
        const answered = wait(id);
        wire.send(`42${id}${JSON.stringify([event, data])}`);
        return answered;
      };
      const talker: Talker = { wire, onMessage: () => {}, send: (text) => ask("send", { room, text }) };
      const admitted = new Promise<void>((resolve) => {
        wire.onText = (text) => {
          if (text === "2") wire.send("3");
          else if (text.startsWith("0")) wire.send("40");
          else if (text.startsWith("40")) resolve();
          else if (text.startsWith("43")) arrived(text.slice(2, text.indexOf("[")));
          else if (text.startsWith("42")) talker.onMessage(text);
        };
      });
      await admitted;
      await ask("join", { room, user: userId });
      return talker;
    },

    async stop() {
      child.kill();
      await child.exited;
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
