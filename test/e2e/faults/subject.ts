import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fakeClock } from "../../harness/fake-clock.ts";
import { mountSmall } from "../../ops/machine.ts";

export type Answer = { status: number; body: Record<string, unknown>; headers: Headers };
export type Asked = { body?: object; headers?: Record<string, string>; credential?: string };
/** Memory is the process's own: the database's file is mapped, and what the system holds of it is no one's. */
export type Usage = { descriptors: number; allowedDescriptors: number; memoryMiB: number };

const ANSWER_WITHIN_MS = 10_000;
/** Rate limits are per address, and here all clients have the same one; each limit is tested elsewhere. */
const UNLIMITED = [
  "CHAT_FRAME",
  "CHAT_SEND",
  "CHAT_SUBSCRIBE",
  "CHAT_CONNECTION",
  "CHAT_REACTION",
  "CHAT_READ",
  "CHAT_EDIT",
];
const ENVIRONMENT = {
  ...Object.fromEntries(UNLIMITED.map((name) => [`${name}_RATE_LIMIT`, "1000000"])),
  RATE_LIMIT_RTC_TOKENS: "1000000",
  RATE_LIMIT_LIVE_STREAMS: "1000000",
  RATE_LIMIT_AUTH_LOGIN: "1000000",
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: "1000000",
  WEBHOOK_BACKOFF_BASE_MS: "200",
  WEBHOOK_DISABLE_AFTER_FAILURES: "1000000",
  WEBHOOK_MAX_ATTEMPTS: "20",
  LOG_FORMAT: "json",
};

/** The compiled server as its operator runs it, on a small disk of its own and with a clock that can be moved. */
export class Subject {
  url = "";
  apiKey = "";
  projectId = "";
  email = "";
  password = "";
  mediaPorts: readonly number[] = [];
  /** What the running process used before its first client. */
  atStart: Usage = { descriptors: 0, allowedDescriptors: 0, memoryMiB: 0 };
  /** Values that no log may contain. */
  readonly secrets = new Set<string>();
  /** Unexpected ends of the process. */
  readonly crashes: string[] = [];
  readonly dataDir: string;
  readonly #binary: string;
  readonly #work: string;
  readonly #disk: string;
  readonly #unmount: () => Promise<void>;
  #child: Bun.Subprocess<"ignore", "pipe", number> | null = null;

  static async create(binary: string, diskMiB: number): Promise<Subject> {
    const work = mkdtempSync(join(tmpdir(), "stoa-faults-"));
    const disk = join(work, "disk");
    mkdirSync(disk);
    const unmount = await mountSmall(disk, `${diskMiB}m`);
    const subject = new Subject(binary, work, disk, unmount);
    subject.moveClock(0);
    await subject.start();
    return subject;
  }

  private constructor(binary: string, work: string, disk: string, unmount: () => Promise<void>) {
    this.#binary = binary;
    this.#work = work;
    this.#disk = disk;
    this.#unmount = unmount;
    this.dataDir = join(disk, "data");
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** The server gets other ports with each start, so its clients ask for the address again. */
  async start(): Promise<void> {
    const log = openSync(this.#logPath, "a");
    const ports = ["--port", "0", "--media-udp-port", "0", "--public-ip", "127.0.0.1"];
    const child = Bun.spawn([this.#binary, "dev", "--json", "--data-dir", this.dataDir, ...ports], {
      env: { HOME: "/nonexistent", ...ENVIRONMENT, ...this.#clock() },
      stdin: "ignore",
      stdout: "pipe",
      stderr: log,
    });
    closeSync(log);
    this.#child = child;
    void child.exited.then((code) => {
      if (this.#child === child) this.crashes.push(`the server ended by itself (${child.signalCode ?? code})`);
    });
    const { value } = await child.stdout
      .pipeThrough(new TextDecoderStream() as never)
      .getReader()
      .read();
    const told = JSON.parse(String(value ?? "null")) as
      | (Record<string, string> & { media: { ports: number[] } })
      | null;
    if (told === null) throw new Error(`the server did not start: ${this.log().slice(-2000)}`);
    const { url = "", apiKey = "", projectId = "", email = "", password = "" } = told;
    Object.assign(this, { url, apiKey, projectId, email, password, mediaPorts: told.media.ports });
    this.atStart = this.usage();
    for (const secret of [password, apiKey.split(".")[1] ?? apiKey]) this.secrets.add(secret);
  }

  async kill(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<number> {
    const child = this.#child;
    this.#child = null;
    child?.kill(signal);
    const code = (await child?.exited) ?? -1;
    for (const name of ["faketime_shm_", "sem.faketime_sem_"]) rmSync(`/dev/shm/${name}${child?.pid}`, { force: true });
    return code;
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(name);
  }

  /** Sets the wall clock to this difference from the true time, from where it continues to run. */
  moveClock(seconds: number): void {
    writeFileSync(this.#clockPath, `${seconds < 0 ? "" : "+"}${seconds}\n`);
  }

  fillDisk(): void {
    try {
      for (;;) writeFileSync(join(this.#disk, "filler"), Buffer.alloc(1 << 20), { flag: "a" });
    } catch {
      // Full now, to the last byte: what was asked for.
    }
  }

  freeDisk(): void {
    rmSync(join(this.#disk, "filler"), { force: true });
  }

  usage(): Usage {
    const [status = "", limits = ""] = ["status", "limits"].map((file) =>
      readFileSync(`/proc/${this.pid}/${file}`, "utf8"),
    );
    return {
      descriptors: readdirSync(`/proc/${this.pid}/fd`).length,
      allowedDescriptors: Number(/Max open files\s+(\d+)/.exec(limits)?.[1]),
      memoryMiB: Math.round(Number(/RssAnon:\s+(\d+)/.exec(status)?.[1]) / 1024),
    };
  }

  log(): string {
    return readFileSync(this.#logPath, "utf8");
  }

  async call(method: string, path: string, { body, headers, credential = this.apiKey }: Asked = {}): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${credential}`,
        ...(body && { "content-type": "application/json" }),
        ...headers,
      },
      body: body && JSON.stringify(body),
      // A connection that is kept would be one more that the server has to let go of at the end.
      keepalive: false,
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? {} : JSON.parse(text), headers: response.headers };
  }

  async remove(): Promise<void> {
    if (this.#child) await this.kill();
    await this.#unmount();
    rmSync(this.#work, { recursive: true, force: true });
  }

  get #logPath(): string {
    return join(this.#work, "log");
  }

  get #clockPath(): string {
    return join(this.#work, "clock");
  }

  /** Read once a second. */
  #clock(): Record<string, string> {
    return fakeClock({ FAKETIME_TIMESTAMP_FILE: this.#clockPath, FAKETIME_CACHE_DURATION: "1" });
  }
}
