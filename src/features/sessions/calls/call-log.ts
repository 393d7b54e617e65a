import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import { every } from "../../../kernel/time/timers.ts";
import type { Environment } from "../../../protocol/enums.ts";
import type { CallVerdict } from "../../../protocol/room-records.ts";
import type { LeaveReason } from "../../../protocol/signaling.ts";
import type { RtcConnectionEvent } from "../events.ts";
import type { CallParticipantRow, CallStore } from "./call.store.ts";
import { createParticipations } from "./participations.ts";

/** The precision of the end of a call that a crash interrupted. */
const TOUCH_EVERY_MS = 5_000;

type LiveCall = {
  id: string;
  publicId: string;
  projectId: string;
  environment: Environment;
  roomId: string;
  roomName: string;
  /** Sessions in the call, including those whose socket dropped. */
  present: Set<string>;
  /**
   * Identities whose client has left for one that is still joining, so that the call does not end in between. One is removed
   * when that client has joined or given up, but not when a third one replaces it in turn.
   */
  replacing: Set<string>;
  /** The call began before this process; the media nodes will report who is still in it. */
  recovered: boolean;
};

type Departure = {
  at: number;
  reason: LeaveReason;
  verdict: CallVerdict | null;
  /** Null when the departure was found after a restart. */
  connection: RtcConnectionEvent | null;
};

type CallLogDeps = {
  store: CallStore;
  /** The CPU load of a media server; null when it is unknown. */
  cpuOf: (serverName: string) => number | null;
};

/**
 * Keeps the records of calls. Each change and its webhooks share one transaction, and changes are written in the order of
 * the events.
 */
export function createCallLog({ bus, ids, log, now, timers, write }: Runtime, { store, cpuOf }: CallLogDeps) {
  const live = new Map<string, LiveCall>();
  const participations = createParticipations({
    cpuOf,
    onVerdictChanged: (sessionId, verdict) => bus.emit("liveVerdictChanged", { sessionId, verdict }),
  });

  bus.on("rtcReported", ({ roomId, connectionId, identity, ...report }) => {
    for (const sessionId of live.get(roomId)?.present ?? []) {
      participations.report(sessionId, { connectionId, identity }, report, now());
    }
  });
  bus.on("rtcConnection", (event) => {
    participations.record(event);
    if (event.type === "started") join(event);
    else if (event.type === "connected") connect(event);
    else if (event.type === "left") leave(event);
    else if (event.type === "qualityChanged") {
      const call = live.get(event.roomId);
      if (call?.present.has(event.sessionId))
        save((unit) => store.setQuality(unit, call.id, event.sessionId, event.quality));
    }
  });

  function join(event: Extract<RtcConnectionEvent, { type: "started" }>): void {
    const { sessionId, participantIdentity: identity, connectionId, at } = event;
    const known = live.get(event.roomId);
    const call = known ?? newCall(event);
    call.replacing.delete(identity);
    if (call.present.has(sessionId)) return;
    call.present.add(sessionId);
    participations.join(sessionId, { connectionId, identity, at });
    // The participant was in the call before this process started.
    if (call.recovered && store.presentParticipant(call.id, sessionId)) return;
    const participantCount = call.present.size;
    save((unit) => {
      if (!known) insert(unit, call, at);
      if (!store.get(call.id)) return;
      const { participantName: name, participantAttributes: attributes, participantKind: kind, metadata } = event;
      const participant = { callId: call.id, sessionId, identity, name, connectionId, joinedAt: at };
      store.addParticipant(
        unit,
        { ...participant, connectedAt: null, leftAt: null, leaveReason: null, quality: null, verdict: null },
        participantCount,
      );
      publish(unit, call, at, {
        type: "call.participant_joined",
        data: { ...idsOf(call), identity, connectionId, name, attributes, kind, metadata, at: iso(at) },
      });
    });
  }

  /** A call that is taken over after a restart reports its participants as connected again. */
  function connect(event: Extract<RtcConnectionEvent, { type: "connected" }>): void {
    const { roomId, sessionId, at } = event;
    const call = live.get(roomId);
    if (!call?.present.has(sessionId)) return;
    save((unit) => {
      if (store.presentParticipant(call.id, sessionId)?.connectedAt !== null) return;
      store.setConnected(unit, call.id, sessionId, at);
      bus.publish(unit, "callProgress", { ...tenantOf(call), roomId, at, type: "connected", connection: event });
    });
  }

  function leave(event: Extract<RtcConnectionEvent, { type: "left" }>): void {
    const { sessionId, participantIdentity: identity, at, reason } = event;
    const call = live.get(event.roomId);
    if (!call) return;
    const wasPresent = call.present.delete(sessionId);
    const verdict = participations.verdict(sessionId, at);
    const quality = participations.qualityAtDeparture(sessionId);
    participations.leave(sessionId);
    if (event.mediaKept) {
      // This process stops, and the call continues on its media node.
      if (call.present.size === 0) live.delete(call.roomId);
      return;
    }
    if (wasPresent) {
      if (reason === "replaced") call.replacing.add(identity);
      save((unit) => {
        const row = store.presentParticipant(call.id, sessionId);
        if (!row) return;
        if (quality !== null) store.setQuality(unit, call.id, sessionId, quality);
        endParticipation(unit, call, row, { at, reason, verdict, connection: event });
      });
    } else if (reason !== "replaced") call.replacing.delete(identity);
    if (call.present.size > 0 || call.replacing.size > 0) return;
    live.delete(call.roomId);
    save((unit) => end(unit, call, at));
  }

  function newCall({ projectId, environment, roomId, roomName }: RtcConnectionEvent): LiveCall {
    const call: LiveCall = {
      id: ids.uuid(),
      publicId: ids.publicId("call"),
      projectId,
      environment,
      roomId,
      roomName,
      present: new Set(),
      replacing: new Set(),
      recovered: false,
    };
    live.set(roomId, call);
    return call;
  }

  function insert(unit: Unit, call: LiveCall, at: number): void {
    const { id, publicId, projectId, environment, roomId, roomName } = call;
    store.insert(unit, {
      id,
      publicId,
      projectId,
      environment,
      roomId,
      roomName,
      startedAt: at,
      lastSeenAt: at,
      endedAt: null,
      participantCount: 0,
      peakParticipants: 0,
      quality: null,
      cause: null,
    });
    publish(unit, call, at, { type: "call.started", data: { ...idsOf(call), roomName, startedAt: iso(at) } });
  }

  function endParticipation(
    unit: Unit,
    call: LiveCall,
    { sessionId, identity, connectionId, joinedAt, connectedAt }: CallParticipantRow,
    { at, reason, verdict, connection }: Departure,
  ): void {
    store.leave(unit, call.id, sessionId, { at, reason, verdict });
    publish(unit, call, at, {
      type: "call.participant_left",
      data: { ...idsOf(call), identity, connectionId, reason, durationMs: at - joinedAt, at: iso(at) },
    });
    bus.publish(unit, "callProgress", {
      ...tenantOf(call),
      roomId: call.roomId,
      at,
      type: "left",
      sessionId,
      identity,
      joinedAt,
      connectedAt,
      reason,
      connection,
    });
  }

  function end(unit: Unit, call: LiveCall, at: number): void {
    const row = store.get(call.id);
    // If the start of the call could not be saved, there is no row to end.
    if (!row || row.endedAt !== null) return;
    const { startedAt, participantCount, peakParticipants } = row;
    const endedAt = Math.max(at, startedAt);
    store.end(unit, call.id, endedAt);
    publish(unit, call, endedAt, {
      type: "call.ended",
      data: {
        ...idsOf(call),
        roomName: call.roomName,
        startedAt: iso(startedAt),
        endedAt: iso(endedAt),
        durationMs: endedAt - startedAt,
        participantCount,
        peakParticipants,
      },
    });
    bus.publish(unit, "callProgress", { ...tenantOf(call), roomId: call.roomId, at: endedAt, type: "ended" });
  }

  type CallEvent = Extract<Parameters<typeof bus.publish<"webhook">>[2], { type: `call.${string}` }>;
  type CallEventContent = {
    [T in CallEvent["type"]]: { type: T; data: Extract<CallEvent, { type: T }>["data"] };
  }[CallEvent["type"]];

  function publish(unit: Unit, { projectId, environment }: LiveCall, at: number, content: CallEventContent): void {
    bus.publish(unit, "webhook", { projectId, environment, at, ...content } as CallEvent);
  }

  function save(change: (unit: Unit) => void): void {
    write(change).catch((err) => log.error({ err }, "sessions: call not saved"));
  }

  return {
    liveIn: (roomId: string): { id: string; publicId: string } | undefined => live.get(roomId),

    /** The verdict so far; null for a session that is not in a call. */
    liveVerdict: (sessionId: string): CallVerdict | null => participations.verdict(sessionId, now()),

    /** Reads the calls that the last process left open. Called before the first join. */
    recover(): void {
      for (const { id, publicId, projectId, environment, roomId, roomName } of store.live()) {
        const call = { id, publicId, projectId, environment, roomId, roomName };
        live.set(roomId, { ...call, present: new Set(), replacing: new Set(), recovered: true });
      }
    },

    /** Ends recovered calls without participants. Called once the media nodes have reported their participants. */
    async settle(): Promise<void> {
      for (const call of [...live.values()]) {
        if (!call.recovered) continue;
        call.recovered = false;
        const gone = store.presentParticipants(call.id).filter(({ sessionId }) => !call.present.has(sessionId));
        const at = store.get(call.id)?.lastSeenAt ?? now();
        if (call.present.size === 0) live.delete(call.roomId);
        await write((unit) => {
          for (const row of gone) {
            const foundAt = Math.max(at, row.joinedAt);
            endParticipation(unit, call, row, { at: foundAt, reason: "restart", verdict: null, connection: null });
          }
          if (call.present.size === 0) end(unit, call, at);
        });
      }
    },

    /** Saves every few seconds that the calls are still live. */
    start: (): (() => void) =>
      every({ timers, log }, TOUCH_EVERY_MS, async () => {
        if (live.size === 0) return;
        const at = now();
        await write((unit) => {
          for (const { id } of live.values()) store.touch(unit, id, at);
        });
      }),
  };
}

const tenantOf = ({ projectId, environment }: LiveCall): Tenant => ({ projectId, environment });

function idsOf({ publicId, roomId }: LiveCall): { callId: string; roomId: string } {
  return { callId: publicId, roomId };
}
