import type { CallVerdict, Quality, VerdictCause } from "../../../protocol/room-records.ts";
import type { ClientReport, RtcConnectionEvent } from "../events.ts";
import { EvidenceCollector } from "./evidence.ts";
import { type Evidence, verdictOf } from "./verdict.ts";

/** The live verdict is based on the last one to two windows. */
const WINDOW_MS = 15_000;
/** A single sample of the first seconds is not enough for a verdict. */
const FIRST_VERDICT_AFTER_MS = 10_000;

type Participation = {
  connectionId: string;
  identity: string;
  joinedAt: number;
  /** Evidence of the whole participation, for its final verdict. */
  whole: EvidenceCollector;
  /** Evidence of the last half minute, in two windows. The older one decides the live verdict. */
  older: EvidenceCollector;
  newer: EvidenceCollector;
  windowStartedAt: number;
  liveCause: VerdictCause;
  /** The state when the client's socket closed; null while it is open. Later evidence counts only if the client reconnects. */
  departure: { evidence: Evidence; quality: Quality | null } | null;
  /** The last live verdict that had a cause. */
  lastExplained: CallVerdict | null;
};

type ParticipationDeps = {
  cpuOf: (serverName: string) => number | null;
  onVerdictChanged: (sessionId: string, verdict: CallVerdict) => void;
};

/** Collects the evidence of every participant in a call, by session, for the final verdict and for the live one. */
export function createParticipations({ cpuOf, onVerdictChanged }: ParticipationDeps) {
  const participations = new Map<string, Participation>();

  function collect(participation: Participation, at: number, add: (evidence: EvidenceCollector) => void): void {
    if (at - participation.windowStartedAt >= WINDOW_MS) {
      participation.older = participation.newer;
      participation.newer = participation.older.continuedFrom(at);
      participation.windowStartedAt = at;
    }
    for (const evidence of new Set([participation.whole, participation.older, participation.newer])) add(evidence);
  }

  function updateLiveVerdict(sessionId: string, participation: Participation, at: number): void {
    if (at - participation.joinedAt < FIRST_VERDICT_AFTER_MS || participation.departure) return;
    const verdict = verdictOf(participation.older.at(at));
    if (verdict.cause === participation.liveCause) return;
    participation.liveCause = verdict.cause;
    if (verdict.cause !== "none") participation.lastExplained = verdict;
    onVerdictChanged(sessionId, verdict);
  }

  /** The load during the measurement; the last heartbeat of a busy node may be old. */
  function serverCpuOf(event: RtcConnectionEvent): number | null {
    if (event.type !== "stats") return null;
    return event.serverBusyPercent ?? (event.serverName === null ? null : cpuOf(event.serverName));
  }

  return {
    join(sessionId: string, { connectionId, identity, at }: { connectionId: string; identity: string; at: number }) {
      const newer = new EvidenceCollector();
      participations.set(sessionId, {
        connectionId,
        identity,
        joinedAt: at,
        windowStartedAt: at,
        whole: new EvidenceCollector(),
        older: newer,
        newer,
        liveCause: "none",
        departure: null,
        lastExplained: null,
      });
    },

    record(event: RtcConnectionEvent): void {
      const participation = participations.get(event.sessionId);
      if (!participation) return;
      const { at } = event;
      collect(participation, at, (evidence) => evidence.record(event, at, serverCpuOf(event)));
      if (event.type === "reconnecting" && event.path === "signaling") {
        participation.departure ??= { evidence: participation.whole.at(at), quality: participation.whole.quality };
      }
      if (event.type === "reconnected") participation.departure = null;
      if (event.type !== "left") updateLiveVerdict(event.sessionId, participation, at);
    },

    /** A client's report counts only for its own sessions. */
    report(
      sessionId: string,
      { connectionId, identity }: Pick<Participation, "connectionId" | "identity">,
      report: ClientReport,
      at: number,
    ): void {
      const participation = participations.get(sessionId);
      if (participation?.connectionId !== connectionId || participation.identity !== identity) return;
      collect(participation, at, (evidence) => evidence.report(report, at));
      updateLiveVerdict(sessionId, participation, at);
    },

    /** Null for a session that is not in a call. */
    verdict(sessionId: string, at: number): CallVerdict | null {
      const participation = participations.get(sessionId);
      if (!participation) return null;
      const { lastExplained, departure } = participation;
      const verdict = verdictOf(departure?.evidence ?? participation.whole.at(at));
      // A cause that lasted for a part of the call may not be visible in the total, but explains why the total was bad.
      const isUnexplained = verdict.cause === "none" && (verdict.quality === "poor" || verdict.quality === "lost");
      return isUnexplained && lastExplained ? { ...lastExplained, quality: verdict.quality } : verdict;
    },

    /** The quality when the client's socket closed; null while it is open. */
    qualityAtDeparture: (sessionId: string): Quality | null =>
      participations.get(sessionId)?.departure?.quality ?? null,

    leave: (sessionId: string): void => void participations.delete(sessionId),
  };
}
