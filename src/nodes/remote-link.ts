/** The WebSocket to a media node on another machine, with reconnection and liveness checks. */
import type { Log } from "../kernel/log.ts";
import { systemNow } from "../kernel/time/clock.ts";
import { every, type Timers } from "../kernel/time/timers.ts";
import type { NodeFrame } from "../protocol/media/node-messages.ts";
import { ClockOffset } from "./clock-offset.ts";
import { NodeFrameQueue } from "./node-frame-queue.ts";
import { MALFORMED, type NodeReader } from "./node-reader.ts";
import { LAST_SEQ_HEADER, NODE_SOCKET_PATH, SESSION_HEADER, TERM_HEADER, type ToNode } from "./remote-protocol.ts";

type RemoteLinkDeps = {
  serverName: string;
  internalUrl: string;
  secret: string;
  /** The leader's term; 0 without a cluster. */
  term: number;
  timers: Timers;
  log: Log;
  /** The session to resume, read at every connection attempt. */
  session(): { id: string; lastSeq: number };
  reader: Pick<NodeReader, "frame">;
  onFrame(frame: NodeFrame): void;
  /** The node sent a message that is not a valid frame. */
  onMalformed(): void;
  /** Called when the node has sent more than its share of the main thread can handle; it is then disconnected. */
  onFlood(): void;
  /** Called when the socket has closed; the link reconnects. */
  onDown(): void;
  /** Called when the connection was refused: the node's process has ended, and its media with it. */
  onRefused(): void;
};

export type RemoteLink = {
  send(frame: ToNode): void;
  /** The time since the last frame. */
  readonly silentMs: number;
  /** How far the node's clock is ahead of ours. */
  readonly clockOffsetMs: number;
  close(): void;
};

/** Bun's WebSocket class; the global type is the browser's, because web/ shares it. */
type NodeSocket = WebSocket & { terminate(): void };
const NodeSocket = WebSocket as unknown as {
  new (url: string, options: { headers: Record<string, string>; perMessageDeflate: false }): NodeSocket;
};

const REDIAL_MS = [50, 250, 500, 1_000, 2_000, 5_000];
const DIAL_TIMEOUT_MS = 3_000;
const PING_EVERY_MS = 2_000;
const SILENT_AFTER_MS = 6_000;

export function openRemoteLink(deps: RemoteLinkDeps): RemoteLink {
  const { serverName, internalUrl, secret, term, timers, log } = deps;
  const url = new URL(NODE_SOCKET_PATH, internalUrl);
  const authorization = `Bearer ${secret}`;
  let socket: NodeSocket | null = null;
  let failures = 0;
  let problem: string | null = null;
  let receivedAtMs = 0;
  let closed = false;
  let cancelDial = () => {};
  const frames = new NodeFrameQueue({ timers });
  const clockOffset = new ClockOffset();

  function dial(): void {
    const { id, lastSeq } = deps.session();
    const headers = {
      authorization,
      [SESSION_HEADER]: id,
      [LAST_SEQ_HEADER]: String(lastSeq),
      [TERM_HEADER]: String(term),
    };
    // Compression is off, so that a node cannot send a decompression bomb.
    const dialled = new NodeSocket(url.href.replace(/^http/, "ws"), { headers, perMessageDeflate: false });
    socket = dialled;
    let welcomed = false;
    const cancelTimeout = timers.after(DIAL_TIMEOUT_MS, () => {
      if (!welcomed) dialled.terminate();
    });
    const receive = (data: string) => {
      if (socket !== dialled || closed) return;
      const frame = deps.reader.frame(data);
      if (frame === MALFORMED) {
        deps.onMalformed();
        return;
      }
      if (frame.type === "welcome") {
        welcomed = true;
        failures = 0;
        problem = null;
        log.info({ serverName, resumed: frame.resumed }, "media node: connected");
        ping();
      } else if (frame.type === "pong" && frame.sentAtMs !== undefined && frame.clockMs !== undefined) {
        clockOffset.add({ sentAtMs: frame.sentAtMs, receivedAtMs: systemNow(), answeredAtMs: frame.clockMs });
      }
      deps.onFrame(frame);
    };
    let flooded = false;
    const overflowed = () => {
      flooded = true;
      reader.clear();
      // Makes the next attempt wait for the longest pause.
      failures = REDIAL_MS.length;
      deps.onFlood();
      dialled.terminate();
    };
    const reader = frames.reader({ receive, overflowed });
    dialled.onmessage = ({ data }) => {
      if (flooded) return;
      receivedAtMs = performance.now();
      // Binary frames are malformed, and count like others.
      reader.push(typeof data === "string" ? data : "");
    };
    const down = () => {
      if (socket !== dialled || closed) return;
      socket = null;
      if (welcomed) log.warn({ serverName }, "media node: connection lost");
      deps.onDown();
      void diagnose().finally(redial);
    };
    dialled.onclose = () => {
      cancelTimeout();
      // The last frames may say that the node is stopping.
      reader.end(down);
    };
  }

  function redial(): void {
    if (closed) return;
    const longest = REDIAL_MS[Math.min(failures++, REDIAL_MS.length - 1)] ?? 0;
    cancelDial = timers.after(longest * (0.5 + Math.random() / 2), dial);
  }

  /** A plain request shows why the upgrade failed, which a WebSocket does not. */
  async function diagnose(): Promise<void> {
    let found: string | null = null;
    try {
      const signal = AbortSignal.timeout(DIAL_TIMEOUT_MS);
      const { status, body } = await fetch(url, {
        headers: { authorization, [TERM_HEADER]: String(term) },
        signal,
        keepalive: false,
        redirect: "manual",
      });
      await body?.cancel();
      if (status === 401) found = "it rejects the SFU_REGISTRATION_SECRET";
      else if (status === 409) found = "it follows a newer leader";
      else if (status !== 426) found = `it answers ${status}`;
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string };
      found = message ?? String(error);
      if (code === "ECONNREFUSED" && !closed) deps.onRefused();
    }
    if (found !== null && found !== problem)
      log.warn({ serverName, problem: found }, "media node: cannot be reached, retrying");
    problem = found;
  }

  function ping(): void {
    socket?.send(JSON.stringify({ type: "ping", sentAtMs: systemNow() } satisfies ToNode));
  }

  const cancelPings = every({ timers, log }, PING_EVERY_MS, () => {
    if (socket?.readyState !== WebSocket.OPEN) return;
    if (performance.now() - receivedAtMs > SILENT_AFTER_MS) socket.terminate();
    else ping();
  });

  dial();
  return {
    send(frame) {
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
    },
    get silentMs() {
      return performance.now() - receivedAtMs;
    },
    get clockOffsetMs() {
      return clockOffset.ms;
    },
    close() {
      closed = true;
      cancelDial();
      cancelPings();
      socket?.close();
    },
  };
}
