/** A media node that is registered with a real key and says whatever a test wants it to. */
import type { Server, ServerWebSocket } from "bun";
import type { MediaEvent, MediaMethod } from "../../src/protocol/media-node.ts";

type Call = { id: number; method: MediaMethod; request: Record<string, unknown> };

type Registration = {
  /** The control plane, and the secret of the node of that name. */
  url: string;
  name: string;
  secret: string;
  /** The rooms that it claims to have in its first welcome. */
  rooms?: unknown[];
};

/** Rooms that name its name as their region are placed on it; until a test says otherwise, it answers as a node does. */
export class HostileNode {
  readonly calls: Call[] = [];
  /** Requests for files, as `METHOD path`. */
  readonly requests: string[] = [];
  answers: Partial<Record<MediaMethod, (request: Record<string, unknown>) => unknown>> = {};
  files: (request: Request) => Response | Promise<Response> = () => new Response("no such file", { status: 404 });
  welcome: object;
  readonly #server: Server<undefined>;
  #socket: ServerWebSocket<undefined> | null = null;
  #connected = Promise.withResolvers<void>();
  #seq = 0;

  static async register({ url, name, secret, rooms = [] }: Registration): Promise<HostileNode> {
    const node = new HostileNode(rooms);
    await node.announce({ url, name, secret });
    await node.connected;
    return node;
  }

  /** Registers; again under the same name it is the same node. */
  async announce({ url, name, secret }: Pick<Registration, "url" | "name" | "secret">): Promise<void> {
    const response = await fetch(`${url}/v1/rtc/servers/register`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ name, region: name, publicHost: "127.0.0.1", internalUrl: this.url }),
    });
    if (!response.ok) throw new Error(`register: ${response.status} ${await response.text()}`);
  }

  constructor(rooms: unknown[] = []) {
    this.welcome = { type: "welcome", resumed: false, lastCall: 0, rooms, links: [] };
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 255,
      fetch: (request, server) => this.#requested(request, server),
      websocket: {
        maxPayloadLength: 128 * 1024 * 1024,
        open: (socket) => {
          this.#socket = socket;
          this.#seq = 0;
          this.send(this.welcome);
          this.#connected.resolve();
        },
        message: (_, text) => this.#received(JSON.parse(String(text))),
        close: () => {
          this.#socket = null;
          this.#connected = Promise.withResolvers();
        },
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** Resolves while the control plane is connected. */
  get connected(): Promise<void> {
    return this.#connected.promise;
  }

  get isConnected(): boolean {
    return this.#socket !== null;
  }

  #requested(request: Request, server: Server<undefined>): Response | Promise<Response> | undefined {
    const { pathname } = new URL(request.url);
    if (pathname === "/v1/media" && server.upgrade(request)) return undefined;
    this.requests.push(`${request.method} ${pathname}`);
    return this.files(request);
  }

  #received(frame: { type: string } & Call): void {
    if (frame.type === "ping") this.send({ type: "pong" });
    if (frame.type !== "call") return;
    this.calls.push(frame);
    const { id, method, request } = frame;
    const response = (this.answers[method] ?? HONEST[method])?.(request);
    if (response instanceof MediaRefusal) this.send({ type: "error", seq: ++this.#seq, id, ...response.body });
    else if (response !== SILENCE) this.send({ type: "answer", seq: ++this.#seq, id, response });
    const { method: relayed, request: relay } = (request ?? {}) as { method?: string; request?: { linkId: string } };
    if (relayed === "openLink") this.tell({ type: "linkChanged", linkId: relay?.linkId, state: "up", rttMs: 1 });
    if (method === "stopRecording" && !this.answers.stopRecording)
      this.tell({ type: "recordingEnded", ...(request as { roomId: string; recordingId: string }) });
  }

  /** Exactly this, on the socket. */
  raw(data: string | Uint8Array<ArrayBuffer>): void {
    if (!this.#socket) throw new Error("the control plane is not connected");
    this.#socket.send(data);
  }

  send(frame: unknown): void {
    this.raw(JSON.stringify(frame));
  }

  /** An event, whatever it is. */
  tell(event: unknown): void {
    this.send({ type: "event", seq: ++this.#seq, event });
  }

  say(event: MediaEvent): void {
    this.tell(event);
  }

  last(method: MediaMethod): Call["request"] {
    const call = this.calls.findLast((one) => one.method === method);
    if (!call) throw new Error(`${method} was not called`);
    return call.request;
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }
}

/** A call that is never answered. */
export const SILENCE = Symbol("silence");

/** A call that is answered with an error frame. */
export class MediaRefusal {
  constructor(readonly body: object) {}
}

const HONEST: Partial<Record<MediaMethod, (request: Record<string, unknown>) => unknown>> = {
  room: ({ roomId }) => ({ roomId, participants: [] }),
  rooms: () => [],
  flight: () => null,
  linkPoint: () => ({ worker: 0, publicKey: "A".repeat(43), addresses: ["127.0.0.1"], port: 9 }),
  negotiate: () => ({ sdp: "v=0\r\n", tracks: [] }),
};

const WRONG: readonly unknown[] = [
  null,
  true,
  -1,
  0.5,
  1e300,
  "",
  "../../canary.txt",
  "/etc/passwd",
  "..%2f..%2fcanary.txt",
  "a\u0000b",
  'quote"\n#EXT-X-STREAM-INF\nhttp://evil.example/',
  "<script>alert(1)</script>",
  "x".repeat(2_000),
  [],
  [["nested"]],
  {},
  { __proto__: null, toString: 1, constructor: 1 },
];

/** The same message with one thing in it wrong: every field, at every depth, in every way. */
export function* malformed(message: unknown): Generator<unknown> {
  for (const path of pathsOf(message)) {
    for (const wrong of WRONG) yield changed(message, path, wrong);
    yield changed(message, path, undefined);
  }
}

function* pathsOf(value: unknown, path: readonly string[] = []): Generator<readonly string[]> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    yield [...path, name];
    yield* pathsOf(inner, [...path, name]);
  }
}

function changed(message: unknown, [name = "", ...rest]: readonly string[], to: unknown): unknown {
  const copy = (Array.isArray(message) ? [...message] : { ...(message as object) }) as Record<string, unknown>;
  copy[name] = rest.length === 0 ? to : changed(copy[name], rest, to);
  return copy;
}

/** The same message about what belongs to another node: each id, and all of them together. */
export function* foreign(message: object, theirs: Readonly<Record<string, string>>): Generator<unknown> {
  const replaced = (names: ReadonlySet<string>) =>
    JSON.parse(JSON.stringify(message), (name, value) =>
      typeof value === "string" && names.has(name) ? theirs[name] : value,
    );
  for (const name of Object.keys(theirs)) yield replaced(new Set([name]));
  yield replaced(new Set(Object.keys(theirs)));
}
