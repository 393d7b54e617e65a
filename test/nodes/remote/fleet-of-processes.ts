/** A control plane and media nodes, each a process on a machine of its own, and participants who reach them all. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, stoa, WARM_UP } from "../../cli/stoa.ts";
import { type Lan, openLan } from "../../harness/namespaces.ts";
import { keyPath, prepareData } from "../../ops/served.ts";
import { Member } from "./member.ts";
import { until } from "./until.ts";

const SECRET = "a-secret-of-the-fleet";
const CONTROL_PORT = 7000;
const OPERATOR = { email: "operator@example.com", password: "a long password" };
const LIMITS = { SIGNALING_MAX_CONNECTIONS_PER_WINDOW: "1000", SIGNALING_MAX_MESSAGES_PER_WINDOW: "10000" };

export type Process = { child: Bun.Subprocess<"ignore", "pipe", "pipe">; out(): string; err(): string };

type NodeName = "eu1" | "us1" | "ap1";

type FleetLan = Pick<Lan<"control" | NodeName>, "close"> & {
  machines: Record<"control" | NodeName, { address: string; prefix: string[] }>;
};

function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = server;
  void server.stop(true);
  return port;
}

export class Fleet {
  readonly #dataDir = join(mkdtempSync(join(tmpdir(), "stoa-fleet-")), "data");
  readonly #processes: Process[] = [];
  readonly #members: Member[] = [];
  readonly #key: string;
  readonly #port: number;
  readonly lan: FleetLan;
  readonly url: string;
  /** Of the processes of the media nodes. */
  readonly nodeEnv: Partial<Record<NodeName, Record<string, string>>> = {};
  #server: Process | null = null;

  static start = async (): Promise<Fleet> => Fleet.#begun(await openLan("control", "eu1", "us1", "ap1"), CONTROL_PORT);

  /** All on this machine, where what is tested has nothing to do with networks. */
  static async startOnLoopback(): Promise<Fleet> {
    const loopback = { address: "127.0.0.1", prefix: [] };
    const machines = { control: loopback, eu1: loopback, us1: loopback, ap1: loopback };
    return Fleet.#begun({ machines, close: async () => {} }, freePort());
  }

  static async #begun(lan: FleetLan, port: number): Promise<Fleet> {
    const fleet = new Fleet(lan, port);
    await prepareData(fleet.#dataDir);
    await fleet.startServer();
    return fleet;
  }

  private constructor(lan: FleetLan, port: number) {
    this.lan = lan;
    this.#port = port;
    this.url = `http://${lan.machines.control.address}:${port}`;
    this.#key = keyPath(this.#dataDir);
  }

  run(machine: "control" | NodeName, args: string[], env: Record<string, string> = {}): Process {
    const child = Bun.spawn([...this.lan.machines[machine].prefix, ...PROGRAM, ...args], {
      env: {
        PATH: process.env.PATH ?? "",
        HOME: "/nonexistent",
        ...WARM_UP,
        SFU_REGISTRATION_SECRET: SECRET,
        ...env,
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const text = { out: "", err: "" };
    const read = async (name: "out" | "err", stream: ReadableStream<Uint8Array>) => {
      const decoder = new TextDecoder();
      for await (const chunk of stream) text[name] += decoder.decode(chunk, { stream: true });
    };
    void read("out", child.stdout);
    void read("err", child.stderr);
    const started = { child, out: () => text.out, err: () => text.err };
    this.#processes.push(started);
    return started;
  }

  /** May be called again after a stop: the server then has the same data and port. */
  async startServer(): Promise<void> {
    const { address } = this.lan.machines.control;
    const where = ["--host", "0.0.0.0", "--port", String(this.#port), "--public-ip", address];
    const media = ["--media-workers", "1", "--media-udp-port", "0"];
    const server = this.run("control", ["serve", ...where, ...media, "--data-dir", this.#dataDir], LIMITS);
    this.#server = server;
    await this.#said(server, "Listening");
  }

  async stopServer(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    this.#server?.child.kill(signal);
    await this.#server?.child.exited;
  }

  /** Resolves once the control plane has connected to it. */
  async node(name: NodeName, region: string, ...flags: string[]): Promise<Process> {
    const node = this.spawnNode(name, "--sfu-region", region, ...flags);
    await this.#said(node, "Registered");
    const url = /reaches this node at (\S+)/.exec(node.out())?.[1] ?? "";
    const tls = { rejectUnauthorized: false };
    await until(async () => (await fetch(`${url}/readyz`, { tls })).status === 200);
    return node;
  }

  spawnNode(name: NodeName, ...flags: string[]): Process {
    const { address } = this.lan.machines[name];
    const fixed = ["--host", "0.0.0.0", "--port", "0", "--media-udp-port", "0", "--media-workers", "1"];
    const who = ["--control-plane", this.url, "--sfu-node-name", name, "--public-ip", address];
    return this.run(name, ["node", ...who, ...fixed, ...flags], this.nodeEnv[name]);
  }

  async #said({ child, out, err }: Process, word: string): Promise<void> {
    await until(() => {
      if (child.exitCode !== null) throw new Error(err());
      return out().includes(word);
    });
  }

  async call(method: string, path: string, body?: object, bearer = readFileSync(this.#key, "utf8").trim()) {
    const headers = { authorization: `Bearer ${bearer}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${this.url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? {} : ((await response.json()) as Record<string, string>);
  }

  async asOperator(method: string, path: string): Promise<Record<string, string>> {
    const { accessToken } = await this.call("POST", "/v1/auth/login", OPERATOR);
    return this.call(method, path, undefined, accessToken);
  }

  /** Its address and key, and the secret with which LiveKit's SDKs sign tokens. */
  async facts() {
    const apiKey = readFileSync(this.#key, "utf8").trim();
    const [, publicId = ""] = /_([^_]+)\./.exec(apiKey) ?? [];
    const { out, err } = await stoa(["keys", "secret", publicId, "--json", "--data-dir", this.#dataDir]);
    if (err !== "") throw new Error(err);
    return { url: this.url, apiKey, livekit: JSON.parse(out) as { apiKey: string; apiSecret: string } };
  }

  async room(region: string): Promise<string> {
    return String((await this.call("POST", "/v1/rooms", { name: crypto.randomUUID(), region })).id);
  }

  async mint(roomId: string, participantIdentity: string, region?: string): Promise<string> {
    const permissions = { publish: true, publishData: true };
    const body = { participantIdentity, permissions, ...(region === undefined ? {} : { region }) };
    return String((await this.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, body)).token);
  }

  async member(roomId: string, identity: string, region?: string): Promise<Member> {
    const member = new Member(this.url, await this.mint(roomId, identity, region));
    this.#members.push(member);
    await member.join();
    return member;
  }

  async close(): Promise<void> {
    for (const member of this.#members) member.close();
    for (const { child } of this.#processes) {
      child.kill("SIGKILL");
      await child.exited;
    }
    await this.lan.close();
    rmSync(join(this.#dataDir, ".."), { recursive: true, force: true });
  }
}
