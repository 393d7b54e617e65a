import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatClient } from "../features/chat/client.ts";

/** A server process with 100 MB of data, one member of one room, and commands to back it up. */
export class BackedUp {
  readonly work: string;
  readonly dataDir: string;
  readonly #child;
  readonly #lines: AsyncGenerator<string>;
  #alice: ChatClient | undefined;
  #room = "";

  static async start(): Promise<BackedUp> {
    const server = new BackedUp();
    await server.#join();
    return server;
  }

  private constructor() {
    this.work = mkdtempSync(join(tmpdir(), "stoa-gap-"));
    this.dataDir = join(this.work, "data");
    const process = join(import.meta.dir, "backup-process.ts");
    this.#child = Bun.spawn([globalThis.process.execPath, process, this.dataDir], { stdin: "pipe", stdout: "pipe" });
    this.#lines = linesOf(this.#child.stdout);
  }

  /** Resolves when the message is acknowledged. */
  async send(): Promise<void> {
    const frame = { room: this.#room, text: "x", clientMessageId: crypto.randomUUID() };
    const answer = await this.#alice?.ask("message.send", frame);
    if (answer?.type !== "ack") throw new Error(`a message is answered by ${JSON.stringify(answer)}`);
  }

  /** `thread` is a scheduled backup; `blocking` is a copy on the main thread, for comparison. */
  async make(order: "thread" | "blocking", file: string): Promise<void> {
    this.#child.stdin.write(`${order} ${file}\n`);
    this.#child.stdin.flush();
    const { value } = await this.#lines.next();
    if (value !== "done") throw new Error(`the server says ${value}`);
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
    rmSync(this.work, { recursive: true, force: true });
  }

  async #join(): Promise<void> {
    const { url, key } = JSON.parse((await this.#lines.next()).value ?? "");
    const post = async (path: string, body: object) => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
      return (await response.json()) as Record<string, string>;
    };
    this.#room = (await post("/v1/chat/conversations", { name: "room", members: [{ userId: "alice" }] })).id ?? "";
    this.#alice = await ChatClient.open(url, (await post("/v1/chat/tokens", { userId: "alice" })).token ?? "");
    await this.#alice.ask("room.join", { room: this.#room });
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream() as never) as unknown as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
