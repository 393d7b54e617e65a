/** A server that a test upgrades: each process of it ends with the test. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, stoa } from "../cli/stoa.ts";
import { Member } from "../nodes/remote/member.ts";
import { keyPath, prepareData, type Served, served } from "./served.ts";

const MEDIA = ["--media-workers", "1", "--media-warm-up", "true", "--public-ip", "127.0.0.1"];
const OPTIONS = [...MEDIA, "--chat-max-history-page-size", "1000"];
const LIMITS = ["--chat-request-rate-limit", "--signaling-max-connections-per-window"].flatMap((flag) => [
  flag,
  "100000",
]);

const OPERATOR = { email: "operator@example.com", password: "a long password" };

export class Upgradable {
  readonly work = mkdtempSync(join(tmpdir(), "stoa-live-upgrade-"));
  readonly members: Member[] = [];
  server!: Served;
  dataDir = "";
  readonly #processes = new Set<number>();

  prepare(): Promise<void> {
    return prepareData(join(this.work, "prepared"));
  }

  /** The note of the process that serves now. */
  note(): { pid: number } {
    return JSON.parse(readFileSync(join(this.dataDir, "serve.json"), "utf8"));
  }

  /** Remembers the process that serves now, which an upgrade has started. */
  adopt(): void {
    this.#processes.add(this.note().pid);
  }

  start(...args: string[]): Promise<void> {
    return this.startProgram(PROGRAM, ...args);
  }

  async startProgram(command: readonly string[], ...args: string[]): Promise<void> {
    this.dataDir = mkdtempSync(join(this.work, "data-"));
    cpSync(join(this.work, "prepared"), this.dataDir, { recursive: true });
    cpSync(keyPath(join(this.work, "prepared")), keyPath(this.dataDir));
    this.server = await served(this.dataDir, [...OPTIONS, ...LIMITS, ...args], command);
    this.#processes.add(this.server.child.pid);
  }

  async upgrade(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    const finished = await stoa(["upgrade", "--data-dir", this.dataDir, ...args]);
    this.adopt();
    return finished;
  }

  async token(roomId: string, participantIdentity: string): Promise<string> {
    const request = { participantIdentity, permissions: { publish: true, subscribe: true } };
    const { status, body } = await this.server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, request);
    if (status !== 201) throw new Error(`no token for ${participantIdentity}: ${JSON.stringify(body)}`);
    return body.token;
  }

  async member(roomId: string, identity: string): Promise<Member> {
    const joined = new Member(this.server.url, await this.token(roomId, identity));
    this.members.push(joined);
    await joined.join();
    return joined;
  }

  /** Two participants, one of whom watches the other. */
  async call(): Promise<{ roomId: string; ada: Member; ben: Member }> {
    const { body } = await this.server.call("POST", "/v1/rooms", { name: crypto.randomUUID() });
    const ada = await this.member(body.id, "ada");
    await ada.publish();
    const ben = await this.member(body.id, "ben");
    await ben.watch("ada");
    return { roomId: body.id, ada, ben };
  }

  /** The key of the server as LiveKit's SDKs use it. */
  async livekitKey(): Promise<{ apiKey: string; apiSecret: string }> {
    const { call } = this.server;
    const { accessToken } = (await call("POST", "/v1/auth/login", OPERATOR)).body;
    const list = async (path: string) => (await call("GET", path, undefined, accessToken)).body;
    const [project] = await list("/v1/projects");
    const [key] = await list(`/v1/projects/${project.id}/api-keys`);
    return list(`/v1/projects/${project.id}/api-keys/${key.id}/signing-secret`);
  }

  async end(): Promise<void> {
    for (const one of this.members.splice(0)) one.close();
    for (const pid of this.#processes) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The process has ended.
      }
    }
    this.#processes.clear();
    await this.server.child.exited;
  }

  remove(): void {
    rmSync(this.work, { recursive: true, force: true });
  }
}
