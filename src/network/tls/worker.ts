/** Entry point of the TLS thread. */
import { codeOf, messageOf } from "../../kernel/error-message.ts";
import { createRangeCheck, rateLimitKey } from "../../kernel/net/addresses.ts";
import { createUnsentBound } from "../../kernel/net/socket-options.ts";
import { createIdleCollector } from "../../kernel/scheduling/idle.ts";
import { systemNow } from "../../kernel/time/clock.ts";
import { systemTimers } from "../../kernel/time/timers.ts";
import { type ClientAddress, ClientTable } from "../../protocol/client-table.ts";
import { TurnServer } from "../turn/server.ts";
import type { TransportProtocol } from "../turn/transports.ts";
import { Admission } from "./admission.ts";
import { forwardOverLoopback, forwardOverTcp, HttpConnections } from "./http-forwarding.ts";
import { relaySockets } from "./relay-sockets.ts";
import { ClosedOnce, type ConnectionHandler, type StreamSocket } from "./sockets.ts";
import type { FromTlsThread, TlsStats, TlsThreadSettings, ToTlsThread } from "./thread-messages.ts";
import { TlsListener } from "./tls-listener.ts";
import { TurnConnection, WriteScheduler } from "./turn-connection.ts";
import { openTurnPorts, TurnPortRefused } from "./turn-ports.ts";

declare const self: Worker;

const SWEEP_MS = 1_000;
/** A TURN connection without an allocation is closed after this time. */
const UNALLOCATED_MS = 15_000;
/**
 * Media in the kernel's send buffer cannot be dropped, so the kernel's buffer is only large enough to keep a connection
 * busy.
 */
const MAX_UNSENT_BYTES = 16 * 1_024;

type Running = { listener: TlsListener; turn: TurnServer | null; turnPort: number | null; stats(): TlsStats };

async function start(settings: TlsThreadSettings, reportFault: (error: unknown) => void): Promise<Running> {
  const tcpClients = new ClientTable(settings.tcpClients);
  const udpClients = new ClientTable(settings.udpClients);
  const nodeClients = new ClientTable(settings.nodeClients);
  const admission = new Admission(settings.admission, rateLimitKey, systemNow);
  const turn =
    settings.turn &&
    new TurnServer({
      ...settings.turn,
      open: relaySockets(udpClients, nodeClients),
      holderOf: rateLimitKey,
      now: systemNow,
    });
  const unsentBound = createUnsentBound(MAX_UNSENT_BYTES);
  const writes = new WriteScheduler();
  const turnConnections = new Map<TurnConnection, number>();
  const httpConnections = new HttpConnections(systemTimers, createIdleCollector(), reportFault);

  function handleTurn(
    server: TurnServer,
    socket: StreamSocket,
    client: ClientAddress,
    protocol: TransportProtocol,
  ): ConnectionHandler {
    if (socket.fd !== undefined) unsentBound.apply(socket.fd);
    const connection = new TurnConnection(socket, client, protocol, server, writes, systemNow);
    turnConnections.set(connection, systemNow());
    return new ClosedOnce(connection, () => turnConnections.delete(connection));
  }

  const listener = new TlsListener({
    ...settings,
    isTrustedProxy: settings.trustedProxies.length > 0 ? createRangeCheck(settings.trustedProxies) : null,
    admission,
    http(socket, client) {
      const { upstream, loopback } = settings;
      return httpConnections.add(
        loopback
          ? forwardOverLoopback(loopback, upstream, socket, client, tcpClients)
          : forwardOverTcp(upstream, socket, client, tcpClients),
      );
    },
    turn: turn && ((socket, client) => handleTurn(turn, socket, client, "tls")),
  });
  const plainPort = settings.turn?.port ?? null;
  const turnPort =
    turn && plainPort !== null
      ? await openTurnPorts({ hostname: settings.hostname, port: plainPort }, turn, admission, (socket, client) =>
          handleTurn(turn, socket, client, "tcp"),
        ).catch((error) => {
          listener.close();
          throw error;
        })
      : null;

  setInterval(() => {
    admission.sweep();
    turn?.tick();
    const unallocatedBefore = systemNow() - UNALLOCATED_MS;
    for (const [connection, allocatedAt] of turnConnections) {
      if (turn?.hasAllocation(connection)) turnConnections.set(connection, systemNow());
      else if (allocatedAt < unallocatedBefore) connection.close();
    }
  }, SWEEP_MS);

  return {
    listener,
    turn,
    turnPort,
    stats: () => ({
      handshakes: listener.handshakes,
      httpConnections: httpConnections.open,
      turnConnections: turnConnections.size,
      waiting: admission.waiting,
      refused: admission.refused,
      late: admission.late,
      turn: turn?.counters ?? null,
    }),
  };
}

function serve(): void {
  let running: Running | null = null;
  const post = (message: FromTlsThread) => self.postMessage(message);
  const reportFault = (error: unknown) =>
    post({ type: "fault", message: error instanceof Error ? (error.stack ?? error.message) : String(error) });

  async function listen(settings: TlsThreadSettings): Promise<void> {
    try {
      running = await start(settings, reportFault).catch((error) => {
        // On a machine without IPv6 `::` cannot be bound.
        if (settings.hostname !== "::" || error instanceof TurnPortRefused) throw error;
        if (codeOf(error) === "EADDRINUSE" || codeOf(error) === "EACCES") throw error;
        return start({ ...settings, hostname: "0.0.0.0" }, reportFault);
      });
      post({ type: "started", port: running.listener.port, turnPort: running.turnPort });
    } catch (error) {
      const message = messageOf(error);
      const isTurnPort = error instanceof TurnPortRefused;
      const port = isTurnPort ? error.port : settings.port;
      post({ type: "refused", message, code: codeOf(error), port, isTurnPort });
    }
  }

  self.onmessage = ({ data }: MessageEvent<ToTlsThread>) => {
    switch (data.type) {
      case "start":
        void listen(data.settings);
        break;
      case "certificate":
        running?.listener.setCertificate(data.certificate);
        break;
      case "challenge":
        running?.listener.setChallenge(data.certificate);
        if (running) post({ type: "response", id: data.id, stats: running.stats() });
        break;
      case "peers":
        running?.turn?.setPeers(data.peers);
        break;
      case "revoke":
        running?.turn?.revoke(data.id, data.untilMs);
        break;
      case "ping":
        if (running) post({ type: "response", id: data.id, stats: running.stats() });
        break;
      case "drain":
        running?.listener.drain();
        break;
      case "stopListening":
        running?.listener.stopListening();
        break;
    }
  };

  process.on("unhandledRejection", reportFault);
}

serve();
