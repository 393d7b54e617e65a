import type { CallVerdict, VerdictCause } from "../../protocol/room-records.ts";
import type { RtcConnectionEvent } from "./events.ts";
import { type ClientReport, EvidenceGatherer } from "./evidence.ts";
import { judgeCall } from "./verdict.ts";

/** What is told to somebody who is in the call is of the last one to two of these. */
const WINDOW_MS = 15_000;
/** A single sample of the first seconds says little. */
const JUDGED_AFTER_MS = 10_000;

type Visit = {
  connectionId: string;
  identity: string;
  since: number;
  /** Of the whole visit: what its verdict is made of. */
  whole: EvidenceGatherer;
  /** Of the last half minute, in two halves of which the older is judged. */
  older: EvidenceGatherer;
  newer: EvidenceGatherer;
  turnedAt: number;
  told: VerdictCause;
  /** The last cause that it was told. */
  explained: CallVerdict | null;
};

type Deps = {
  cpuOf: (serverName: string) => number | null;
  /** Why it is as it is has changed for somebody who is in a call. */
  onExplained: (sessionId: string, verdict: CallVerdict) => void;
};

/** What is measured of everybody who is in a call, by session: for the verdict at the end, and for them meanwhile. */
export function createVisits({ cpuOf, onExplained }: Deps) {
  const visits = new Map<string, Visit>();

  function gather(visit: Visit, at: number, into: (gathered: EvidenceGatherer) => void): void {
    if (at - visit.turnedAt >= WINDOW_MS) {
      visit.older = visit.newer;
      visit.newer = visit.older.goingOn(at);
      visit.turnedAt = at;
    }
    for (const gathered of new Set([visit.whole, visit.older, visit.newer])) into(gathered);
  }

  function explain(sessionId: string, visit: Visit, at: number): void {
    if (at - visit.since < JUDGED_AFTER_MS) return;
    const verdict = judgeCall(visit.older.at(at));
    if (verdict.cause === visit.told) return;
    visit.told = verdict.cause;
    if (verdict.cause !== "none") visit.explained = verdict;
    onExplained(sessionId, verdict);
  }

  /** As it was when it measured: what it reports by itself may be late, most of all when it is busy. */
  function busyPercent(fact: RtcConnectionEvent): number | null {
    if (fact.type !== "stats") return null;
    return fact.serverBusyPercent ?? (fact.serverName === null ? null : cpuOf(fact.serverName));
  }

  return {
    enter(sessionId: string, { connectionId, identity, at }: { connectionId: string; identity: string; at: number }) {
      const newer = new EvidenceGatherer();
      const gatherers = { whole: new EvidenceGatherer(), older: newer, newer };
      const untold = { turnedAt: at, told: "none", explained: null } as const;
      visits.set(sessionId, { connectionId, identity, since: at, ...gatherers, ...untold });
    },

    hear(fact: RtcConnectionEvent): void {
      const visit = visits.get(fact.sessionId);
      if (!visit) return;
      const { at } = fact;
      gather(visit, at, (gathered) => gathered.hear(fact, at, busyPercent(fact)));
      if (fact.type !== "left") explain(fact.sessionId, visit, at);
    },

    /** What a client says of itself counts for its own sessions alone. */
    report(
      sessionId: string,
      { connectionId, identity }: Pick<Visit, "connectionId" | "identity">,
      report: ClientReport,
      at: number,
    ): void {
      const visit = visits.get(sessionId);
      if (visit?.connectionId !== connectionId || visit.identity !== identity) return;
      gather(visit, at, (gathered) => gathered.report(report));
      explain(sessionId, visit, at);
    },

    /** Of somebody who is in a call; null for everybody else. */
    verdict(sessionId: string, at: number): CallVerdict | null {
      const visit = visits.get(sessionId);
      if (!visit) return null;
      const verdict = judgeCall(visit.whole.at(at));
      // What made a part of it bad may not show in the whole; of one that is remembered as bad it is the cause all the same.
      const isUnexplained = verdict.cause === "none" && (verdict.quality === "poor" || verdict.quality === "lost");
      return isUnexplained && visit.explained ? { ...visit.explained, quality: verdict.quality } : verdict;
    },

    leave: (sessionId: string): void => void visits.delete(sessionId),
  };
}
