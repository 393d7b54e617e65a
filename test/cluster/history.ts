/** Events of all clients in the order of one clock, from which it is decided whether something was lost. */
export type Acknowledged = { id: string; seq: number; at: number };
/** A read that began at `from` and answered with this number as the newest. */
export type Read = { newest: number; from: number };
export type Stored = { id: string; seq: number };

export type Heard = number | "reset";

export type History = {
  acknowledged: readonly Acknowledged[];
  reads: readonly Read[];
  /** For each listener: the numbers of its messages in order, and when it was told to reload the history. */
  heard: readonly (readonly Heard[])[];
};

export type Verdict = {
  lost: number;
  doubled: number;
  /** Acknowledged with another number than the one it has. */
  changed: number;
  /** Numbers that no event has. */
  gaps: number;
  /** Reads that did not know what had been acknowledged before they began. */
  stale: number;
  /** Messages a listener was not told of, was told of twice, or too early. */
  misheard: number;
};

/** `messages` and `events` are what is there in the end, oldest first. */
export function judge(history: History, messages: readonly Stored[], events: readonly number[]): Verdict {
  const bySeq = [...messages].sort((a, b) => a.seq - b.seq);
  const seqOf = new Map(bySeq.map(({ id, seq }) => [id, seq]));
  const verdict: Verdict = {
    lost: 0,
    doubled: messages.length - seqOf.size,
    changed: 0,
    gaps: 0,
    stale: 0,
    misheard: 0,
  };
  for (const { id, seq } of history.acknowledged) {
    const stored = seqOf.get(id);
    if (stored === undefined) verdict.lost++;
    else if (stored !== seq) verdict.changed++;
  }
  events.forEach((seq, index) => {
    if (seq !== index + 1) verdict.gaps++;
  });
  verdict.stale = staleReads(history);
  const expected = bySeq.map(({ seq }) => seq);
  for (const heard of history.heard) verdict.misheard += misheard(heard, expected);
  return verdict;
}

/** Both in the order of time: a history may have a million of each. */
function staleReads({ acknowledged, reads }: History): number {
  const inTime = [...acknowledged].sort((a, b) => a.at - b.at);
  let [stale, known, next] = [0, 0, 0];
  for (const { newest, from } of [...reads].sort((a, b) => a.from - b.from)) {
    for (let one = inTime[next]; one !== undefined && one.at < from; one = inTime[++next]) {
      known = Math.max(known, one.seq);
    }
    if (newest < known) stale++;
  }
  return stale;
}

/**
 * A listener that missed too much is told to reload the history, before or after the first message behind the gap: which of
 * the two comes first depends on how busy the conversation is. A gap without that notice is a fault.
 */
function misheard(heard: readonly Heard[], expected: readonly number[]): number {
  let next = Math.max(0, expected.indexOf(heard.find((one) => one !== "reset") as number));
  let wrong = 0;
  let unexplained = 0;
  let explained = false;
  for (const one of heard) {
    if (one === "reset") {
      unexplained = 0;
      explained = true;
      continue;
    }
    const at = expected.indexOf(one, next);
    if (at < 0) {
      wrong++;
      continue;
    }
    if (!explained) unexplained += at - next;
    explained = false;
    next = at + 1;
  }
  return wrong + unexplained + (heard.at(-1) === "reset" ? 0 : expected.length - next);
}

export const NOTHING_WRONG: Verdict = { lost: 0, doubled: 0, changed: 0, gaps: 0, stale: 0, misheard: 0 };
