import { join } from "node:path";
import type { Subprocess } from "bun";

export type Usage = { cpuMicros: number; rss: number };

/** A chat server in a process of its own. */
export class ChatChild {
  private constructor(
    readonly url: string,
    readonly key: string,
    /** UDP ports of its media workers. */
    readonly mediaPorts: readonly number[],
    private readonly process: Subprocess<"pipe", "pipe", "inherit">,
    private readonly lines: AsyncIterator<string>,
  ) {}

  /** With `key` the data are those of an earlier process; without, a project is made. `root`: of other sources. */
  static async start(dataDir: string, key = "", root = join(import.meta.dir, "../../..")): Promise<ChatChild> {
    const arguments_ = [join(root, "test/features/chat/chat-process.ts"), dataDir, ...(key ? [] : ["--new-project"])];
    const child = Bun.spawn([process.execPath, ...arguments_], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
    const lines = linesOf(child.stdout);
    const { value } = await lines.next();
    if (value === undefined) throw new Error("the server did not start");
    const said = JSON.parse(value) as { url: string; key: string; mediaPorts: number[] };
    return new ChatChild(said.url, key || said.key, said.mediaPorts, child, lines);
  }

  get pid(): number {
    return this.process.pid;
  }

  async usage(): Promise<Usage> {
    this.process.stdin.write("usage\n");
    this.process.stdin.flush();
    const { value } = await this.lines.next();
    return JSON.parse(value ?? "{}") as Usage;
  }

  async call(method: string, path: string, body?: unknown, credential = this.key) {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${credential}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  async token(userId: string): Promise<string> {
    return (await this.call("POST", "/v1/chat/tokens", { userId, ttlSeconds: 21_600 })).token;
  }

  /** Does nothing once the process has ended. */
  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.process.kill(name);
  }

  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
