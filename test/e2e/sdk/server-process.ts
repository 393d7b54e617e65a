import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, WARM_UP } from "../../cli/stoa.ts";

export type ServerProcess = DevOutput & {
  readonly pid: number;
  /**
   * Stops or kills the process and starts another one on the same data and ports; `whileDown` is called in between.
   */
  restart(signal: "SIGTERM" | "SIGKILL", whileDown?: () => void): Promise<void>;
  close(): Promise<void>;
};

type DevOutput = { url: string; apiKey: string; livekit: { apiKey: string; apiSecret: string } };

/** Starts `stoa dev` as a separate process. */
export async function startServer(
  settings: Record<string, string | number> = {},
  command = PROGRAM,
): Promise<ServerProcess> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-dev-"));
  const ports = { PORT: freePort(), MEDIA_UDP_PORT: freePort() };

  const launch = async () => {
    const child = Bun.spawn([...command, "dev", "--json"], {
      cwd: dataDir,
      env: {
        PATH: process.env.PATH,
        DATA_DIR: dataDir,
        PUBLIC_IP: "127.0.0.1",
        MEDIA_WORKERS: "1",
        ...WARM_UP,
        LOG_LEVEL: "error",
        ...strings({ ...ports, ...settings }),
      },
      stdout: "pipe",
      stderr: "inherit",
    });
    const facts = JSON.parse(await firstLine(child.stdout)) as DevOutput;
    return { child, facts };
  };

  let { child, facts } = await launch();
  return {
    url: facts.url,
    apiKey: facts.apiKey,
    livekit: facts.livekit,
    get pid() {
      return child.pid;
    },
    async restart(signal, whileDown) {
      child.kill(signal);
      await child.exited;
      whileDown?.();
      ({ child, facts } = await launch());
    },
    async close() {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    if (text.includes("\n")) return text;
  }
  throw new Error(`the server ended without output: ${text}`);
}

function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

const strings = (settings: Record<string, string | number>) =>
  Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, String(value)]));
