import type { Server } from "bun";
import { sameSecret } from "../kernel/crypto/secrets.ts";
import { bearerOf } from "../kernel/http/bearer.ts";
import { parseRange } from "../kernel/http/range.ts";
import { type Listener, stopGently } from "../kernel/http/serving/listener.ts";
import { VERSION } from "../kernel/version.ts";
import type { NodeRecordings } from "./node-recordings.ts";
import type { NodeServer } from "./node-server.ts";
import {
  LAST_SEQ_HEADER,
  NODE_FILES_PATH,
  NODE_FRAME_MAX_BYTES,
  NODE_SOCKET_PATH,
  SESSION_HEADER,
  TERM_HEADER,
} from "./remote-protocol.ts";

type NodeHttpOptions = {
  hostname: string;
  port: number;
  secret: string;
  /** Null when the node is ready, otherwise the reason. */
  problem(): string | null;
  /** Absent when the files are on the disk of the control plane. */
  recordings?: NodeRecordings;
};

type Data = { session: string; lastSeq: number; events?: ReturnType<NodeServer["connect"]> };

/** The HTTP server of a media node: its control plane's socket, recorded files and health. It has no API. */
export function serveNode(node: NodeServer, options: NodeHttpOptions): Pick<Listener, "server" | "stop"> {
  const { hostname, port, secret, problem, recordings } = options;
  const isControlPlane = (request: Request) => {
    const presented = bearerOf(request);
    return presented !== null && sameSecret(presented, secret);
  };

  // A former leader that does not know its successor must not take over the rooms again.
  let highestTerm = 0;

  /** Returns null for a request of the current leader, otherwise the error response. */
  function refusal(request: Request): Response | null {
    if (!isControlPlane(request)) return new Response("not the control plane's secret", { status: 401 });
    const term = Number(request.headers.get(TERM_HEADER) ?? 0);
    if (term < highestTerm) return new Response("another server leads now", { status: 409 });
    highestTerm = term;
    return null;
  }

  const server = Bun.serve<Data>({
    hostname,
    port,
    routes: {
      "/healthz": () => Response.json({ status: "ok", version: VERSION }),
      "/readyz": () => {
        const why = problem();
        return Response.json(why === null ? { status: "ok" } : { status: "unavailable", reasons: [why] }, {
          status: why === null ? 200 : 503,
        });
      },
      [NODE_SOCKET_PATH]: (request: Request, server: Server<Data>) => {
        const refused = refusal(request);
        if (refused) return refused;
        const { headers } = request;
        const lastSeq = Number(headers.get(LAST_SEQ_HEADER) ?? 0);
        const data = { session: headers.get(SESSION_HEADER) ?? crypto.randomUUID(), lastSeq };
        if (server.upgrade(request, { data })) return undefined;
        return new Response("a WebSocket is expected", { status: 426, headers: { upgrade: "websocket" } });
      },
      [`${NODE_FILES_PATH}:recordingId/:fileName`]: (request: Bun.BunRequest) =>
        refusal(request) ?? recordedFile(request, recordings),
    },
    fetch: () => new Response("a media node serves no API; ask its control plane", { status: 404 }),
    websocket: {
      maxPayloadLength: NODE_FRAME_MAX_BYTES,
      backpressureLimit: NODE_FRAME_MAX_BYTES,
      // A control plane that cannot keep up reconnects and resumes.
      closeOnBackpressureLimit: true,
      idleTimeout: 16,
      open(ws) {
        const socket = {
          send: (text: string) => void ws.send(text),
          close: (code: number, reason: string) => ws.close(code, reason),
          get bufferedBytes() {
            return ws.getBufferedAmount();
          },
        };
        ws.data.events = node.connect(socket, ws.data);
      },
      message: (ws, message) => ws.data.events?.received(String(message)),
      close: (ws) => ws.data.events?.closed(),
    },
  }) as Server<unknown>;
  return { server, stop: (deadline) => stopGently(server, deadline, Date.now) };
}

/** A file of a running recording is not served, because its reader would consider it complete. */
async function recordedFile(request: Bun.BunRequest, recordings: NodeRecordings | undefined): Promise<Response> {
  const { recordingId = "", fileName = "" } = request.params as Record<string, string>;
  const path = recordings?.pathOf(recordingId, fileName) ?? null;
  if (!recordings || path === null) return new Response("no such file", { status: 404 });
  if (recordings.isRunning(recordingId)) return new Response("the recording runs", { status: 423 });
  if (request.method === "DELETE") {
    await recordings.remove(path);
    return new Response(null, { status: 204 });
  }
  const file = Bun.file(path);
  if (request.method !== "GET") return new Response("GET or DELETE", { status: 405 });
  if (!(await file.exists())) return new Response("no such file", { status: 404 });
  const { size } = file;
  const range = parseRange(request.headers.get("range") ?? "bytes=0-", size);
  if (range === null || range === "unsatisfiable")
    return new Response(null, { status: 416, headers: { "content-range": `bytes */${size}` } });
  const { start, end } = range;
  const headers = { "content-range": `bytes ${start}-${end}/${size}`, "content-type": "application/octet-stream" };
  return new Response(file.slice(start, end + 1), { status: 206, headers });
}
