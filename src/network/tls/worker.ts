/** Entry point of the edge thread. */

import { budgetHolder, createTrust } from "../../kernel/addresses.ts";
import { createLeftovers } from "../../kernel/calm.ts";
import { systemNow } from "../../kernel/clock.ts";
import { createUnsentBound } from "../../kernel/net/socket-options.ts";
import { systemTimers } from "../../kernel/timers.ts";
import { type ClientAddress, ClientTable } from "../../protocol/client-table.ts";
import type { TurnTransport } from "../turn/line.ts";
import { TurnServer } from "../turn/server.ts";
import { Admission } from "./admission.ts";
import { type Carrier, carryTo, carryWithin } from "./carrier.ts";
import { Door } from "./door.ts";
import type { EdgeSettings, EdgeStats, FromEdge, ToEdge } from "./edge-protocol.ts";
import { relaySockets } from "./relay-sockets.ts";
import type { EdgeSocket } from "./socket.ts";
import { Departures, TurnConnection } from "./turn-connection.ts";
import { openTurnPorts, TurnPortRefused } from "./turn-ports.ts";
import { OnceClosed, Visits } from "./visits.ts";

declare const self: Worker;

const SWEEP_MS = 1_000;
/** A connection that spoke TURN but holds no relay is of no use to anybody. */
const RELAYLESS_MS = 15_000;
/** Of media, the kernel takes no more than keeps a connection busy: what waits there can neither be seen nor dropped. */
const MAX_UNSENT_BYTES = 16 * 1_024;

type Running = { door: Door; turn: TurnServer | null; turnPort: number | null; stats(): EdgeStats };

async function start(settings: EdgeSettings, fault: (error: unknown) => void): Promise<Running> {
  const tcpClients = new ClientTable(settings.tcpClients);
  const udpClients = new ClientTable(settings.udpClients);
  const outerClients = new ClientTable(settings.outerClients);
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
  const departures = new Departures();
  const lines = new Map<TurnConnection, number>();
  const visits = new Visits(systemTimers, createLeftovers(), fault);

  function carryTurn(server: TurnServer, socket: EdgeSocket, client: ClientAddress, transport: TurnTransport): Carrier {
    if (socket.fd !== undefined) unsentBound.apply(socket.fd);
    const line = new TurnConnection(socket, client, transport, server, departures, systemNow);
    lines.set(line, systemNow());
    return new OnceClosed(line, () => lines.delete(line));
  }

  const door = new Door({
    ...settings,
    isTrustedProxy: settings.trustedProxies.length > 0 ? createTrust(settings.trustedProxies) : null,
    admission,
    http(socket, client) {
      const { upstream, inner } = settings;
      return visits.begin(
        inner
          ? carryWithin(inner, upstream, socket, client, tcpClients)
          : carryTo(upstream, socket, client, tcpClients),
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
      if (turn?.holds(line)) lines.set(line, systemNow());
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
  const post = (message: FromEdge) => self.postMessage(message);
  const fault = (error: unknown) =>
    post({ type: "fault", message: error instanceof Error ? (error.stack ?? error.message) : String(error) });

  async function begin(settings: EdgeSettings): Promise<void> {
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

  self.onmessage = ({ data }: MessageEvent<ToEdge>) => {
    switch (data.type) {
      case "start":
        void begin(data.settings);
        break;
      case "certificate":
        edge?.door.present(data.certificate);
        break;
      case "challenge":
        edge?.door.challenge(data.certificate);
        if (edge) post({ type: "answer", id: data.id, stats: edge.stats() });
        break;
      case "peers":
        edge?.turn?.relayTo(data.peers);
        break;
      case "end":
        edge?.turn?.end(data.id, data.untilMs);
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
