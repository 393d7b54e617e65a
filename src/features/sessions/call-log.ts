import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { every } from "../../kernel/timers.ts";
import type { Environment } from "../../protocol/enums.ts";
import type { CallVerdict } from "../../protocol/room-records.ts";
import type { CallStore } from "./call.store.ts";
import type { CallParticipantRow, CallRow } from "./call.table.ts";
import type { RtcConnectionEvent } from "./events.ts";
import { createVisits } from "./visits.ts";

/** How exact the end of a call is that a crash ended. */
const TOUCH_EVERY_MS = 5_000;

type LiveCall = {
  id: string;
  publicId: string;
  projectId: string;
  environment: Environment;
  roomId: string;
  roomName: string;
  /** Sessions that are in it, dropped sockets included. */
  present: Set<string>;
  /** Identities whose other client takes over at this moment: between the two the call does not end. */
  replacing: Set<string>;
  /** From before this process: who is in it is known when the media nodes have told. */
  recovered: boolean;
};

type CallLogDeps = {
  store: CallStore;
  /** How busy the processors of a media server are; null when nobody knows. */
  cpuOf: (serverName: string) => number | null;
};

export type CallLog = ReturnType<typeof createCallLog>;

/**
 * Keeps the record of calls. What it hears happened already; each change and its webhooks share one transaction, and the
 * order of what is heard is the order in which it is written.
 */
export function createCallLog({ bus, ids, log, now, timers, write }: Runtime, { store, cpuOf }: CallLogDeps) {
  const live = new Map<string, LiveCall>();
  const visits = createVisits({
    cpuOf,
    onExplained: (sessionId, verdict) => bus.emit("callExplained", { sessionId, verdict }),
  });

  bus.on("rtcReported", ({ roomId, connectionId, identity, ...report }) => {
    for (const sessionId of live.get(roomId)?.present ?? []) {
      visits.report(sessionId, { connectionId, identity }, report, now());
    }
  });
  bus.on("rtcConnection", (fact) => {
    visits.hear(fact);
    if (fact.type === "started") joined(fact);
    else if (fact.type === "left") left(fact);
    else if (fact.type === "qualityChanged") {
      const call = live.get(fact.roomId);
      if (call?.present.has(fact.sessionId))
        keep(write((unit) => store.setQuality(unit, call.id, fact.sessionId, fact.quality)));
    }
  });

  function joined(fact: Extract<RtcConnectionEvent, { type: "started" }>): void {
    const { sessionId, participantIdentity: identity, connectionId, at } = fact;
    const known = live.get(fact.roomId);
    const call = known ?? begin(fact);
    call.replacing.delete(identity);
    if (call.present.has(sessionId)) return;
    call.present.add(sessionId);
    visits.enter(sessionId, { connectionId, identity, at });
    // It was in the call before this process started.
    if (call.recovered && store.presentParticipant(call.id, sessionId)) return;
    const peak = call.present.size;
    keep(
      write((unit) => {
        if (!known) insert(unit, call, at);
        if (!store.get(call.id)) return;
        const participant = { callId: call.id, sessionId, identity, connectionId, joinedAt: at };
        store.addParticipant(
          unit,
          { ...participant, leftAt: null, leaveReason: null, quality: null, verdict: null },
          peak,
        );
        announce(unit, call, at, {
          type: "call.participant_joined",
          data: { ...subject(call), identity, connectionId, ...profileOf(fact), metadata: fact.metadata, at: iso(at) },
        });
      }),
    );
  }

  function left(fact: Extract<RtcConnectionEvent, { type: "left" }>): void {
    const { sessionId, participantIdentity: identity, at, reason } = fact;
    const call = live.get(fact.roomId);
    if (!call) return;
    const wasPresent = call.present.delete(sessionId);
    const verdict = visits.verdict(sessionId, at);
    visits.leave(sessionId);
    if (fact.mediaKept) {
      // This process goes, and the call goes on without it.
      if (call.present.size === 0) live.delete(call.roomId);
      return;
    }
    if (wasPresent) {
      if (reason === "replaced") call.replacing.add(identity);
      keep(
        write((unit) => {
          const row = store.presentParticipant(call.id, sessionId);
          if (row) leave(unit, call, row, at, reason, verdict);
        }),
      );
    } else call.replacing.delete(identity);
    endIfEmpty(call, at);
  }

  function begin({ projectId, environment, roomId, roomName }: RtcConnectionEvent): LiveCall {
    const call: LiveCall = {
      ...{ projectId, environment, roomId, roomName },
      id: ids.uuid(),
      publicId: ids.publicId("call"),
      present: new Set(),
      replacing: new Set(),
      recovered: false,
    };
    live.set(roomId, call);
    return call;
  }

  function insert(unit: Unit, { id, publicId, ...call }: LiveCall, at: number): void {
    const { projectId, environment, roomId, roomName } = call;
    store.insert(unit, {
      ...{ id, publicId, projectId, environment, roomId, roomName },
      ...{ startedAt: at, lastSeenAt: at, endedAt: null, participantCount: 0, peakParticipants: 0 },
    });
    announce(unit, call, at, {
      type: "call.started",
      data: { callId: publicId, roomId, roomName, startedAt: iso(at) },
    });
  }

  function leave(
    unit: Unit,
    call: LiveCall,
    row: CallParticipantRow,
    at: number,
    reason: string,
    verdict: CallVerdict | null,
  ): void {
    const { sessionId, identity, connectionId, joinedAt } = row;
    store.leave(unit, call.id, sessionId, { at, reason, verdict: verdict && JSON.stringify(verdict) });
    announce(unit, call, at, {
      type: "call.participant_left",
      data: { ...subject(call), identity, connectionId, reason, durationMs: at - joinedAt, at: iso(at) },
    });
  }

  function endIfEmpty(call: LiveCall, at: number): void {
    if (call.present.size > 0 || call.replacing.size > 0) return;
    live.delete(call.roomId);
    keep(write((unit) => end(unit, call, at)));
  }

  function end(unit: Unit, call: LiveCall, at: number): void {
    const row = store.get(call.id);
    // What could not be written when it began has no end either.
    if (!row || row.endedAt !== null) return;
    const endedAt = Math.max(at, row.startedAt);
    store.end(unit, call.id, endedAt);
    const { startedAt, participantCount, peakParticipants } = row;
    announce(unit, call, endedAt, {
      type: "call.ended",
      data: {
        ...{ callId: call.publicId, roomId: call.roomId, startedAt: iso(startedAt), endedAt: iso(endedAt) },
        ...{ durationMs: endedAt - startedAt, participantCount, peakParticipants },
      },
    });
  }

  type CallEvent = Extract<Parameters<typeof bus.publish<"webhook">>[2], { type: `call.${string}` }>;
  type Told = {
    [T in CallEvent["type"]]: { type: T; data: Extract<CallEvent, { type: T }>["data"] };
  }[CallEvent["type"]];

  function announce(
    unit: Unit,
    { projectId, environment }: Pick<LiveCall, "projectId" | "environment">,
    at: number,
    told: Told,
  ) {
    bus.publish(unit, "webhook", { projectId, environment, at, ...told } as CallEvent);
  }

  function keep(written: Promise<void>): void {
    written.catch((err) => log.error({ err }, "calls: a change was not recorded"));
  }

  return {
    /** The call that is on in the room. */
    liveIn: (roomId: string): { id: string; publicId: string } | undefined => live.get(roomId),

    /** Of somebody who is in a call, as it looks at this moment; null for everybody else. */
    liveVerdict: (sessionId: string): CallVerdict | null => visits.verdict(sessionId, now()),

    /** Before anybody joins: calls that a crash, or a restart that left their media running, did not end. */
    recover(): void {
      for (const row of store.live()) live.set(row.roomId, recoveredCall(row));
    },

    /** The media nodes have told who is still there: what has nobody left ended when it was last known to live. */
    async settle(): Promise<void> {
      for (const call of [...live.values()]) {
        if (!call.recovered) continue;
        call.recovered = false;
        const gone = store.presentParticipants(call.id).filter(({ sessionId }) => !call.present.has(sessionId));
        const at = store.get(call.id)?.lastSeenAt ?? now();
        if (call.present.size === 0) live.delete(call.roomId);
        await write((unit) => {
          for (const row of gone) leave(unit, call, row, Math.max(at, row.joinedAt), "restart", null);
          if (call.present.size === 0) end(unit, call, at);
        });
      }
    },

    /** Notes now and then that what is on is on. */
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

function recoveredCall({ id, publicId, projectId, environment, roomId, roomName }: CallRow): LiveCall {
  const nobody = { present: new Set<string>(), replacing: new Set<string>() };
  return { id, publicId, projectId, environment, roomId, roomName, ...nobody, recovered: true };
}

function subject({ publicId, roomId }: LiveCall): { callId: string; roomId: string } {
  return { callId: publicId, roomId };
}

function profileOf({ participantName, participantAttributes, participantKind }: RtcConnectionEvent) {
  return { name: participantName, attributes: participantAttributes, kind: participantKind };
}
