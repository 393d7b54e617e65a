import { join } from "node:path";
import type { Body } from "./attachment-world.ts";

export type Child = {
  pid: number;
  key: string;
  ask(method: string, path: string, body?: unknown, key?: string): Promise<{ status: number; body: Body }>;
  kill(): Promise<void>;
};

/** Starts `attachment-process.ts` and waits until it listens. */
export async function attachmentChild(dataDir: string, maxBytes = 26_214_400): Promise<Child> {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "attachment-process.ts"), dataDir, String(maxBytes)],
    {
      stdout: "pipe",
      stderr: "inherit",
    },
  );
  const reader = child.stdout.getReader();
  let line = "";
  while (!line.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server did not start");
    line += new TextDecoder().decode(value);
  }
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  return {
    pid: child.pid,
    key,
    async ask(method, path, body, as = key) {
      const response = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${as}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      return { status: response.status, body: await response.json() };
    },
    async kill() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
