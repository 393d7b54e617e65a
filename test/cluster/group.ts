import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { createServices } from "../../src/services.ts";
import { PROGRAM, ROOT, WARM_UP } from "../cli/stoa.ts";
import type { Machine } from "../harness/namespaces.ts";
import { testConfig } from "../harness/test-config.ts";

export const SECRET = "a secret of forty letters for the group!";
/** Clients of one test come from one address, and as fast as they can. */
const WITHOUT_LIMITS = Object.fromEntries(
  ["CHAT_SEND_RATE_LIMIT", "CHAT_FRAME_RATE_LIMIT", "CHAT_CONNECTION_RATE_LIMIT", "CHAT_SUBSCRIBE_RATE_LIMIT"].map(
    (name) => [name, "1000000"],
  ),
);

/** A server of the group, in a process of its own. */
export type GroupMember = {
  readonly name: string;
  readonly url: string;
  readonly dataDir: string;
  readonly process: Subprocess;
  /** Its output so far. */
  readonly output: () => string;
};

/** The response of a member's `/readyz`; null without one. */
export type Readyz = {
  status: string;
  reasons: Record<string, string>;
  role: "leader" | "standby" | "edge";
  leader: string | null;
  position: number;
  lag: number;
};

export async function readyz(url: string): Promise<Readyz | null> {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(1_000), keepalive: false });
    return (await response.json()) as Readyz;
  } catch {
    return null;
  }
}

function isReadyLeader(state: Readyz | null): boolean {
  // One that stands alone has no role.
  return state?.status === "ready" && state.role !== "edge";
}

/** Several servers on one commit log, and in front of them what stands for a load balancer. */
export class Group {
  readonly members: GroupMember[] = [];
  /** Members by name that run on a machine of their own. */
  readonly machines = new Map<string, Machine>();
  readonly #folder = mkdtempSync(join(tmpdir(), "stoa-group-"));
  readonly balancer = new Balancer(() => this.members.map(({ url }) => url));
  readonly #closing: (() => void)[] = [];
  key = "";
  /** Opens the dashboard for the operator. */
  refreshToken = "";
  through: string | null = null;

  constructor(
    /** Null for a server that stands alone. */
    readonly logUrl: string | null,
    readonly env: Record<string, string> = {},
  ) {}

  /** A member with the data of a server that ran without a log until now. */
  async startFirst(dataDir = join(this.#folder, "first"), env: Record<string, string> = {}): Promise<GroupMember> {
    const runtime = createRuntime(testConfig({ DATA_DIR: dataDir, STOA_SECRET: SECRET }));
    const services = createServices(runtime);
    this.key = await runtime.write((unit) => {
      const owner = { email: "owner@example.com", passwordHash: null, emailVerified: true, isOperator: true };
      const user = services.users.create(unit, owner);
      const { id } = services.projects.create(unit, user.id, { name: "group" });
      const client = { ip: "127.0.0.1", userAgent: "group" };
      this.refreshToken = services.sessions.start(unit, user.id, client).refreshToken;
      return services.apiKeys.create(unit, id, { name: "group", environment: "DEVELOPMENT" }).key;
    });
    await closeRuntime(runtime);
    return this.start("first", { ...env, DATA_DIR: dataDir });
  }

  async start(name: string, env: Record<string, string> = {}, root = ROOT): Promise<GroupMember> {
    const { DATA_DIR: dataDir = join(this.#folder, name) } = env;
    const program = root === ROOT ? PROGRAM : [process.execPath, join(root, "src/main.ts")];
    const machine = this.machines.get(name);
    const child = Bun.spawn([...(machine?.prefix ?? []), ...program, "serve"], {
      env: {
        ...process.env,
        PORT: "0",
        HOST: machine?.address ?? "127.0.0.1",
        MEDIA_UDP_PORT: "0",
        MEDIA_WORKERS: "1",
        ...WARM_UP,
        PUBLIC_IP: "127.0.0.1",
        STOA_SECRET: SECRET,
        ...(this.logUrl === null ? {} : { COMMIT_LOG_URL: this.logUrl }),
        ...WITHOUT_LIMITS,
        LOG_LEVEL: "info",
        LOG_FORMAT: "json",
        ...this.env,
        ...env,
        DATA_DIR: dataDir,
      },
      stdout: "pipe",
      stderr: "pipe",
    });
    let said = "";
    const listening = Promise.withResolvers<string>();
    const read = async (stream: ReadableStream<Uint8Array>) => {
      for await (const chunk of stream) {
        said += Buffer.from(chunk).toString();
        const url = /^ {2}Listening {2}(\S+)$/m.exec(said)?.[1];
        if (url !== undefined) listening.resolve(url);
      }
    };
    void read(child.stdout);
    void read(child.stderr);
    void child.exited.then((code) => listening.reject(new Error(`${name} ended with ${code}:\n${said}`)));
    const url = await listening.promise;
    const member: GroupMember = { name, url, dataDir, process: child, output: () => said };
    this.members.push(member);
    return member;
  }

  /** The member that is ready, once one is. */
  async leader(except?: GroupMember): Promise<GroupMember> {
    for (;;) {
      for (const member of this.members) {
        if (member !== except && isReadyLeader(await readyz(member.url))) return member;
      }
      await Bun.sleep(50);
    }
  }

  /** The URL that clients use: that of the stand-in for a load balancer, unless a test says otherwise. */
  get front(): string {
    return this.through ?? this.balancer.url;
  }

  async call(method: string, path: string, body?: unknown) {
    const response = await fetch(`${this.front}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
      keepalive: false,
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  }

  /** Ends a member as a power failure would. */
  async kill(member: GroupMember): Promise<void> {
    member.process.kill("SIGKILL");
    await member.process.exited;
    this.members.splice(this.members.indexOf(member), 1);
  }

  /** Ends a member as an upgrade does: it hands over first. */
  async stop(member: GroupMember): Promise<void> {
    member.process.kill("SIGTERM");
    await member.process.exited;
    this.members.splice(this.members.indexOf(member), 1);
  }

  /** Called before the servers stop. */
  whenClosed(run: () => void): void {
    this.#closing.push(run);
  }

  async close(): Promise<void> {
    for (const run of this.#closing) run();
    this.balancer.close();
    for (const member of [...this.members]) {
      member.process.kill("SIGCONT");
      await this.kill(member);
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

type Pair = { other: Bun.Socket<Pair> | null; waiting: Buffer[]; target: string };

/**
 * Carries connections to the member that says it leads, and cuts those to one that says it no longer does. A member that says nothing in
 * time may only be short of CPU time, so its connections stay until another one leads.
 */
export class Balancer {
  readonly #listener: Bun.TCPSocketListener<Pair>;
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #open = new Set<Bun.Socket<Pair>>();
  #target: string | null = null;

  constructor(urls: () => string[]) {
    let looking = false;
    this.#timer = setInterval(async () => {
      if (looking) return;
      looking = true;
      const answers = await Promise.all(urls().map(async (url) => ({ url, state: await readyz(url) })));
      looking = false;
      const leader = answers.find(({ state }) => isReadyLeader(state))?.url ?? null;
      const isSilent = answers.find(({ url }) => url === this.#target)?.state === null;
      if (leader !== null || !isSilent) this.#pointTo(leader);
    }, 100);
    this.#listener = Bun.listen<Pair>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open: (socket) => void this.#carry(socket),
        data: (socket, bytes) => {
          const { other, waiting } = socket.data;
          if (other === null) waiting.push(Buffer.from(bytes));
          else other.write(bytes);
        },
        close: (socket) => {
          this.#open.delete(socket);
          socket.data.other?.end();
        },
        error: () => {},
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.port}`;
  }

  /** Resolves once there is a member to carry to. */
  async found(): Promise<void> {
    while (this.#target === null) await Bun.sleep(20);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listener.stop(true);
  }

  #pointTo(target: string | null): void {
    if (target === this.#target) return;
    this.#target = target;
    for (const socket of this.#open) if (socket.data.target !== target) socket.end();
  }

  async #carry(socket: Bun.Socket<Pair>): Promise<void> {
    const target = this.#target;
    socket.data = { other: null, waiting: [], target: target ?? "" };
    if (target === null) return void socket.end();
    this.#open.add(socket);
    const { hostname, port } = new URL(target);
    try {
      const other = await Bun.connect<Pair>({
        hostname,
        port: Number(port),
        socket: {
          data: (_other, bytes) => void socket.write(bytes),
          close: () => void socket.end(),
          error: () => void socket.end(),
        },
      });
      for (const bytes of socket.data.waiting.splice(0)) other.write(bytes);
      socket.data.other = other;
    } catch {
      socket.end();
    }
  }
}
