/** The RTC socket in a browser: requests, pushes and resuming. */
import { until } from "./page-media.ts";

export type Frame = { type: string; id?: string; seq?: number; [field: string]: unknown };
type Listed = { identity: string; tracks: ListedTrack[] };
export type ListedTrack = { id: string; kind: string; source: string; codec: string };
type Joined = Frame & { mode: string; sessionId: string; resumeToken: string; seq: number; participants: Listed[] };

export class RtcSocket {
  readonly pushes: Frame[] = [];
  readonly connectionId = crypto.randomUUID();
  /** Called after each step of a join. */
  onStage: (stage: "opened" | "joined" | "offered" | "answered") => void = () => {};
  closed: { code: number; reason: string } | null = null;
  joined: Joined | null = null;
  #socket: WebSocket | null = null;
  #requests = 0;
  #hungUp: Promise<Frame> = new Promise(() => {});
  readonly #waiting = new Map<string, (frame: Frame) => void>();

  get lastSeq(): number {
    return Number(this.pushes.at(-1)?.seq ?? 0);
  }

  /** Opens the socket and joins, or resumes the last session. */
  async join(url: string, token: string, { resume = false } = {}): Promise<Joined> {
    const socket = new WebSocket(url, ["stoa", `token.${token}`]);
    this.#socket = socket;
    this.closed = null;
    this.#hungUp = new Promise((resolve) => {
      socket.onclose = ({ code, reason }) => {
        if (this.#socket === socket) this.closed = { code, reason };
        resolve({ type: "error", code: `closed ${code}`, message: reason });
      };
    });
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data) as Frame;
      if (frame.type === "ack" || frame.type === "error") this.#waiting.get(String(frame.id))?.(frame);
      else this.pushes.push({ ...frame, arrivedAtMs: Date.now() });
    };
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    this.onStage("opened");
    const { sessionId, resumeToken } = this.joined ?? {};
    const fields = resume ? { resume: { sessionId, resumeToken, lastSeq: this.lastSeq } } : {};
    this.joined = (await this.ask("room.join", { connectionId: this.connectionId, sdk: "test", ...fields })) as Joined;
    this.onStage("joined");
    return this.joined;
  }

  /** Drops the socket without leaving. */
  cut(): void {
    this.#socket?.close();
  }

  async ask(type: string, fields: object = {}): Promise<Frame> {
    const id = `r${++this.#requests}`;
    const answer = new Promise<Frame>((resolve) => this.#waiting.set(id, resolve));
    this.#socket?.send(JSON.stringify({ type, id, ...fields }));
    const frame = await Promise.race([answer, this.#hungUp]);
    if (frame.type === "error") throw new Error(`${frame.code}: ${frame.message}`);
    return frame;
  }

  /** Resolves with the first push after `since` pushes that has these fields. */
  push(type: string, fields: object = {}, since = 0): Promise<Frame> {
    const fits = (push: Frame) => push.type === type && has(push, fields);
    return until(() => this.pushes.slice(since).find(fits), `${type} ${JSON.stringify(fields)}`, 40_000);
  }

  closing(): Promise<{ code: number; reason: string }> {
    return until(() => this.closed ?? undefined, "the close");
  }

  /** The current tracks of a participant, newest first. */
  tracksOf(identity: string): ListedTrack[] {
    const gone = this.pushes.filter(({ type }) => type === "track.unpublished").map(({ trackId }) => trackId);
    const listed = this.joined?.participants.find((one) => one.identity === identity)?.tracks ?? [];
    const pushed = this.pushes
      .filter((push) => push.type === "track.published" && push.identity === identity)
      .map(({ track }) => track as ListedTrack);
    return [...pushed.reverse(), ...listed].filter(({ id }) => !gone.includes(id));
  }
}

function has(value: unknown, part: unknown): boolean {
  if (typeof part !== "object" || part === null) return value === part;
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(part) && (value as unknown[]).length !== part.length) return false;
  return Object.entries(part).every(([field, inner]) => has((value as Record<string, unknown>)[field], inner));
}
