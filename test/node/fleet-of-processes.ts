/** A control plane and media nodes as processes of their own, and participants without a browser. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LoadPeer } from "../../src/load-test/load-peer.ts";
import { RtcClient } from "../../src/load-test/rtc-client.ts";
import { RtpSource } from "../../src/load-test/rtp-source.ts";
import type { Push } from "../../src/protocol/signaling.ts";
import { createCertificate } from "../../src/sfu/werift-hooks.ts";
import { FROM_SOURCE } from "../cli/stoa.ts";

const SECRET = "a-secret-of-the-fleet";

export async function until<T>(check: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    await Bun.sleep(20);
  }
}

export type Process = { child: Bun.Subprocess<"ignore", "pipe", "pipe">; out(): string; err(): string };

function run(args: string[], env: Record<string, string> = {}): Process {
  const child = Bun.spawn([...FROM_SOURCE, ...args], {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", SFU_REGISTRATION_SECRET: SECRET, ...env },
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
  return { child, out: () => text.out, err: () => text.err };
}

export class Fleet {
  readonly #dataDir = mkdtempSync(join(tmpdir(), "stoa-fleet-"));
  readonly #processes: Process[] = [];
  readonly #members: Member[] = [];
  url = "";
  #facts = { apiKey: "", email: "", password: "" };
  #server: Process | null = null;

  static async start(): Promise<Fleet> {
    const fleet = new Fleet();
    await fleet.startServer("0");
    return fleet;
  }

  /** The same one again, after it was killed: its data, its port. */
  async startServer(port = new URL(this.url).port): Promise<void> {
    const limits = { SIGNALING_MAX_CONNECTIONS_PER_WINDOW: "1000", SIGNALING_MAX_MESSAGES_PER_WINDOW: "10000" };
    const server = run(["dev", "--json", "--port", port, "--media-udp-port", "0", "--data-dir", this.#dataDir], limits);
    this.#processes.push(server);
    this.#server = server;
    this.#facts = await until(() => {
      if (server.child.exitCode !== null) throw new Error(server.err());
      return server.out().endsWith("\n") && JSON.parse(server.out());
    });
    this.url = (this.#facts as unknown as { url: string }).url;
  }

  async stopServer(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    this.#server?.child.kill(signal);
    await this.#server?.child.exited;
  }

  /** Resolves once the control plane has connected to it. */
  async node(name: string, region: string, ...flags: string[]): Promise<Process> {
    const node = this.spawnNode(name, "--sfu-region", region, ...flags);
    await until(() => {
      if (node.child.exitCode !== null) throw new Error(node.err());
      return node.out().includes("Registered");
    });
    const url = /reaches this node at (\S+)/.exec(node.out())?.[1] ?? "";
    await until(async () => (await fetch(`${url}/readyz`)).status === 200);
    return node;
  }

  spawnNode(name: string, ...flags: string[]): Process {
    const fixed = ["--port", "0", "--media-udp-port", "0", "--media-workers", "1", "--public-ip", "127.0.0.1"];
    const node = run(["node", "--control-plane", this.url, "--sfu-node-name", name, ...fixed, ...flags]);
    this.#processes.push(node);
    return node;
  }

  async call(method: string, path: string, body?: object, bearer = this.#facts.apiKey) {
    const headers = { authorization: `Bearer ${bearer}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${this.url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Record<string, string>;
  }

  async asOperator(method: string, path: string): Promise<Record<string, string>> {
    const { email, password } = this.#facts;
    const { accessToken } = await this.call("POST", "/v1/auth/login", { email, password });
    return this.call(method, path, undefined, accessToken);
  }

  async room(region: string): Promise<string> {
    return String((await this.call("POST", "/v1/rooms", { name: crypto.randomUUID(), region })).id);
  }

  async member(roomId: string, participantIdentity: string): Promise<Member> {
    const permissions = { publish: true };
    const body = { participantIdentity, permissions };
    const { token } = await this.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, body);
    const member = new Member(this.url, String(token));
    this.#members.push(member);
    await member.join();
    return member;
  }

  close(): void {
    for (const member of this.#members) member.close();
    for (const { child } of this.#processes) child.kill("SIGKILL");
    rmSync(this.#dataDir, { recursive: true, force: true });
  }
}

/** One participant: its socket, and its media once it publishes or watches. */
export class Member {
  pushes: Push[] = [];
  client: RtcClient;
  peer: LoadPeer | null = null;
  #sending: Timer | null = null;

  constructor(
    readonly url: string,
    readonly token: string,
  ) {
    this.client = this.#dial();
  }

  #dial(connectionId?: string): RtcClient {
    const { url, token } = this;
    return new RtcClient({ url, token, onPush: (push) => void this.pushes.push(push) }, connectionId);
  }

  join() {
    return this.client.join();
  }

  /** On a new socket, for as long as it takes to reach the server. */
  async resume() {
    const { connectionId, resumption } = this.client;
    for (;;) {
      this.client = this.#dial(connectionId);
      try {
        return await this.client.join(resumption);
      } catch {
        await Bun.sleep(50);
      }
    }
  }

  of<T extends Push["type"]>(type: T): Extract<Push, { type: T }>[] {
    return this.pushes.filter((push): push is Extract<Push, { type: T }> => push.type === type);
  }

  async publish(): Promise<void> {
    const peer = await this.#media("sendonly");
    await peer.connect([{ mid: "0", clientTrackId: "camera", kind: "video", source: "camera" }], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    this.#sending = setInterval(() => source.sendFrame(peer, true), 40);
  }

  async watch(publisher: string): Promise<void> {
    const track = await until(() => {
      const known = this.client.ack?.participants.find(({ identity }) => identity === publisher)?.tracks[0];
      return known ?? this.of("track.published").find(({ identity }) => identity === publisher)?.track;
    });
    const peer = await this.#media("recvonly");
    await peer.connect([], [{ mid: "0", trackId: track.id }]);
    await this.receives();
  }

  /** Ten packets more than now. */
  async receives(): Promise<void> {
    const before = this.peer?.packetsIn ?? 0;
    await until(() => (this.peer?.packetsIn ?? 0) >= before + 10);
  }

  async #media(direction: "sendonly" | "recvonly"): Promise<LoadPeer> {
    const certificate = await createCertificate();
    const sections = [{ kind: "video" as const, direction }];
    const ref = { roomId: "", participantId: "" };
    this.peer = await LoadPeer.create({ node: this.client, ...ref, sections, certificate, onRtp: () => {} });
    return this.peer;
  }

  close(): void {
    if (this.#sending) clearInterval(this.#sending);
    this.peer?.close();
    this.client.close();
  }
}
