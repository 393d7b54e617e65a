/** Entry point of the edge thread. */

import { budgetHolder, createTrust } from "../../kernel/net/addresses.ts";
import { createIdleCollector } from "../../kernel/scheduling/idle.ts";
import { systemNow } from "../../kernel/time/clock.ts";
import { createUnsentBound } from "../../kernel/net/socket-options.ts";
import { systemTimers } from "../../kernel/time/timers.ts";
import { type ClientAddress, ClientTable } from "../../protocol/client-table.ts";
import type { TransportProtocol } from "../turn/transports.ts";
import { TurnServer } from "../turn/server.ts";
import { Admission } from "./admission.ts";
import { type ConnectionHandler, forwardOverTcp, forwardOverLoopback } from "./http-forwarding.ts";
import { TlsListener } from "./tls-listener.ts";
import type { TlsThreadSettings, TlsStats, FromTlsThread, ToTlsThread } from "./thread-messages.ts";
import { relaySockets } from "./relay-sockets.ts";
import type { StreamSocket } from "./sockets.ts";
import { WriteScheduler, TurnConnection } from "./turn-connection.ts";
import { openTurnPorts, TurnPortRefused } from "./turn-ports.ts";
import { ClosedOnce, HttpConnections } from "./visits.ts";

declare const self: Worker;

const SWEEP_MS = 1_000;
/** A connection that spoke TURN but holds no relay is of no use to anybody. */
const RELAYLESS_MS = 15_000;
/** Of media, the kernel takes no more than keeps a connection busy: what waits there can neither be seen nor dropped. */
const MAX_UNSENT_BYTES = 16 * 1_024;

type Running = { door: TlsListener; turn: TurnServer | null; turnPort: number | null; stats(): TlsStats };

async function start(settings: TlsThreadSettings, fault: (error: unknown) => void): Promise<Running> {
  const tcpClients = new ClientTable(settings.tcpClients);
  const udpClients = new ClientTable(settings.udpClients);
  const outerClients = new ClientTable(settings.nodeClients);
  const admission = new Admission(settings.admission, budgetHolder, systemNow);
  const turn =
    settings.turn &&
    new TurnServer({
      ...settings.turn,
      open: relaySockets(udpClients, outerClients),
      holderOf: budgetHolder,
      now: systemNow,
    });
  const unsentBound = createUnsentBound(MAX_UNSENT_BYTES);
  const departures = new WriteScheduler();
  const lines = new Map<TurnConnection, number>();
  const visits = new HttpConnections(systemTimers, createIdleCollector(), fault);

  function carryTurn(server: TurnServer, socket: StreamSocket, client: ClientAddress, transport: TransportProtocol): ConnectionHandler {
    if (socket.fd !== undefined) unsentBound.apply(socket.fd);
    const line = new TurnConnection(socket, client, transport, server, departures, systemNow);
    lines.set(line, systemNow());
    return new ClosedOnce(line, () => lines.delete(line));
  }

  const door = new TlsListener({
    ...settings,
    isTrustedProxy: settings.trustedProxies.length > 0 ? createTrust(settings.trustedProxies) : null,
    admission,
    http(socket, client) {
      const { upstream, loopback } = settings;
      return visits.begin(
        loopback
          ? forwardOverLoopback(loopback, upstream, socket, client, tcpClients)
          : forwardOverTcp(upstream, socket, client, tcpClients),
      );
    },
    turn: turn && ((socket, client) => carryTurn(turn, socket, client, "tls")),
  });
  const plain = settings.turn?.port ?? null;
  const ports =
    turn && plain !== null
      ? await openTurnPorts({ hostname: settings.hostname, port: plain }, turn, admission, (socket, client) =>
          carryTurn(turn, socket, client, "tcp"),
        ).catch((error) => {
          door.close();
          throw error;
        })
      : null;

  setInterval(() => {
    admission.sweep();
    turn?.tick();
    const relaylessBefore = systemNow() - RELAYLESS_MS;
    for (const [line, heldAt] of lines) {
      if (turn?.hasAllocation(line)) lines.set(line, systemNow());
      else if (heldAt < relaylessBefore) line.close();
    }
  }, SWEEP_MS);

  return {
    door,
    turn,
    turnPort: ports?.port ?? null,
    stats: () => ({
      handshakes: door.handshakes,
      httpConnections: visits.open,
      turnConnections: lines.size,
      waiting: admission.waiting,
      refused: admission.refused,
      late: admission.late,
      turn: turn?.counters ?? null,
    }),
  };
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && "code" in error ? String(error.code) : null;
}

function serve(): void {
  let edge: Running | null = null;
  const post = (message: FromTlsThread) => self.postMessage(message);
  const fault = (error: unknown) =>
    post({ type: "fault", message: error instanceof Error ? (error.stack ?? error.message) : String(error) });

  async function begin(settings: TlsThreadSettings): Promise<void> {
    try {
      edge = await start(settings, fault).catch((error) => {
        // A machine without IPv6 has no `::`.
        if (settings.hostname !== "::" || error instanceof TurnPortRefused) throw error;
        if (codeOf(error) === "EADDRINUSE" || codeOf(error) === "EACCES") throw error;
        return start({ ...settings, hostname: "0.0.0.0" }, fault);
      });
      post({ type: "started", port: edge.door.port, turnPort: edge.turnPort });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const isTurnPort = error instanceof TurnPortRefused;
      const port = isTurnPort ? error.port : settings.port;
      post({ type: "refused", message, code: codeOf(error), port, isTurnPort });
    }
  }

  self.onmessage = ({ data }: MessageEvent<ToTlsThread>) => {
    switch (data.type) {
      case "start":
        void begin(data.settings);
        break;
      case "certificate":
        edge?.door.setCertificate(data.certificate);
        break;
      case "challenge":
        edge?.door.setChallenge(data.certificate);
        if (edge) post({ type: "answer", id: data.id, stats: edge.stats() });
        break;
      case "peers":
        edge?.turn?.setPeers(data.peers);
        break;
      case "end":
        edge?.turn?.revoke(data.id, data.untilMs);
        break;
      case "ping":
        if (edge) post({ type: "answer", id: data.id, stats: edge.stats() });
        break;
      case "drain":
        edge?.door.drain();
        break;
    }
  };

  process.on("unhandledRejection", fault);
}

serve();
