import type { Config } from "../../src/kernel/config/index.ts";
import type { Socket, SocketEvents } from "../../src/kernel/socket/sockets.ts";
import { createMediaNodes, type MediaNodes } from "../../src/nodes/media-nodes.ts";
import { written } from "./logged-runtime.ts";
import { type FakeMediaNode, fakeMediaNode } from "./media-node.ts";
import { type TestServer, testServer } from "./server.ts";

export type Frame = { type: string; id?: string; seq?: number; code?: string; [field: string]: unknown };

/** A client whose socket stays in this process. */
export type RtcClient = {
  frames: Frame[];
  /** Code and reason of the close; null while it is open. */
  closed: { code: number; reason: string } | null;
  send(frame: unknown): void;
  /** Sends a text frame as it is; null sends a binary frame. */
  raw(text: string | null): void;
  /** Sends a request and returns its `ack` or `error`. */
  ask(type: string, fields?: object): Promise<Frame>;
  join(fields?: object): Promise<Frame>;
  of(type: string): Frame[];
  /** The network breaks, or with 1001 the page is closed: no more frames arrive, and the server sees the socket close. */
  cut(code?: number): void;
  /** Unread bytes are counted, as for a real socket. */
  unread: number;
};

export type Ticket = { token: string; tokenId: string; roomId: string };

export type RtcServer = TestServer & {
  node: FakeMediaNode;
  /** To add others. */
  nodes: MediaNodes;
  key: string;
  projectId: string;
  room(name?: string): Promise<string>;
  mint(roomId: string, identity: string, body?: object): Promise<Ticket>;
  connect(token: string | null, request?: { origin?: string | null; ipAddress?: string }): RtcClient;
  /** Mints, connects and joins; fails the test when the join is refused. */
  joined(
    roomId: string,
    identity: string,
    options?: { mint?: object; join?: object },
  ): Promise<RtcClient & { ack: Frame }>;
};

const ALL = { publish: true, publishData: true, updateMetadata: true };
let clients = 0;

/** Lets all pending callbacks and promises run. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) {
    await new Promise((done) => setImmediate(done));
    await written();
  }
}

/** Waits for a condition; the test's own timeout is the limit. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((done) => setImmediate(done));
}

/** The whole application with one fake media node in its fleet. */
export async function rtcServer(overrides: Partial<Config> = {}): Promise<RtcServer> {
  const node = fakeMediaNode();
  const limits = { SFU_HEARTBEAT_TIMEOUT_SECONDS: 3600, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 };
  let nodes = {} as MediaNodes;
  const server = testServer({ ...limits, RATE_LIMIT_RTC_TOKENS: 10_000, ...overrides }, (timers) => {
    nodes = createMediaNodes(timers);
    nodes.add("n1", node);
    return nodes;
  });
  const { fleet, signaling } = server.services;
  const fields = { region: "local", publicHost: "127.0.0.1", internalUrl: "http://127.0.0.1" };
  await server.runtime.write((unit) => fleet.register(unit, { name: "n1", ...fields }));
  const { key, projectId } = await server.project();

  const rtc: RtcServer = {
    ...server,
    node,
    nodes,
    key,
    projectId,
    async room(name = crypto.randomUUID()) {
      return String((await server.call("POST", "/v1/rooms", { key, body: { name } })).body.id);
    },
    async mint(roomId, participantIdentity, body = {}) {
      const reply = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, {
        key,
        body: { participantIdentity, permissions: ALL, ...body },
      });
      return { token: String(reply.body.token), tokenId: String(reply.body.tokenId), roomId };
    },
    connect: (token, { origin = null, ipAddress = "127.0.0.1" } = {}) =>
      createClient((socket) => signaling.connect(socket, { token, origin, ipAddress, userAgent: "test" })),
    async joined(roomId, identity, { mint, join } = {}) {
      const { token } = await rtc.mint(roomId, identity, mint);
      const client = rtc.connect(token);
      const ack = await client.join(join);
      if (ack.type !== "ack") throw new Error(`join refused: ${JSON.stringify(ack)}`);
      return Object.assign(client, { ack });
    },
    async close() {
      // In the order of the server: participants leave, the resulting writes finish, then the database closes.
      signaling.drain();
      await settled();
      await server.services.rtcSessions.recorder.flush();
      await server.close();
    },
  };
  return rtc;
}

function createClient(open: (socket: Socket) => SocketEvents): RtcClient {
  const connectionId = `c${++clients}`;
  let requests = 0;
  const waiting = new Map<string, (frame: Frame) => void>();
  const client: RtcClient = {
    frames: [],
    closed: null,
    unread: 0,
    raw(text) {
      if (client.closed === null) events.received(text, Buffer.byteLength(text ?? ""));
    },
    send: (frame) => client.raw(JSON.stringify(frame)),
    ask(type, fields = {}) {
      const id = `r${++requests}`;
      const answer = new Promise<Frame>((resolve) => waiting.set(id, resolve));
      client.send({ type, id, ...fields });
      return answer;
    },
    join: (fields = {}) => client.ask("room.join", { connectionId, ...fields }),
    of: (type) => client.frames.filter((frame) => frame.type === type),
    cut(code = 1006) {
      if (client.closed) return;
      client.closed = { code, reason: "" };
      events.closed(code);
    },
  };
  const events = open({
    send(text) {
      if (client.closed) return;
      const frame = JSON.parse(text) as Frame;
      client.frames.push(frame);
      if (frame.id !== undefined) waiting.get(frame.id)?.(frame);
    },
    close(code, reason) {
      if (client.closed) return;
      client.closed = { code, reason };
      // The close callback runs from the event loop, as in Bun, and not within the call.
      setImmediate(() => events.closed(code));
    },
    get bufferedBytes() {
      return client.unread;
    },
  });
  return client;
}
