import type { Metadata } from "../../../protocol/chat-records.ts";

/** What a message about a call says in `metadata.call`; its text is made of it. */
export type CallNote = {
  /** Null when a ring led to no call. */
  callId: string | null;
  ringId: string | null;
  roomId: string;
  status: "LIVE" | "ENDED" | "MISSED";
  /** Who rang; null when nobody did, or it was the server. */
  callerId: string | null;
  startedAt: string;
  endedAt: string | null;
  durationMs: number | null;
  /** In the order in which they came, as many as are listed; `participantCount` is all. */
  participants: string[];
  participantCount: number;
  /** Members who were not there; empty while it is on, null in a crowd. */
  missed: string[] | null;
};

/** As many names as a message about a call keeps. */
export const NAMES_KEPT = 50;
const NAMES_TOLD = 3;

export function callText({ status, participants, participantCount, durationMs, missed, callerId }: CallNote): string {
  const alone = participantCount <= 1;
  switch (status) {
    case "LIVE":
      return participantCount === 0 ? "Call started" : `Call started: ${joined(participants, participantCount)}`;
    case "MISSED":
      return missedText(callerId);
    case "ENDED":
      // Somebody waited, and nobody came.
      if (alone && missed !== null && missed.length > 0) return missedText(callerId ?? participants[0] ?? null);
      return `Call ended, ${durationText(durationMs ?? 0)}`;
  }
}

function missedText(callerId: string | null): string {
  return callerId === null ? "Missed call" : `Missed call from ${callerId}`;
}

function joined(names: string[], count: number): string {
  const told = names.slice(0, NAMES_TOLD);
  const others = count - told.length;
  if (others > 0) return `${told.join(", ")} and ${others} ${others === 1 ? "other" : "others"} joined`;
  const last = told.pop();
  return told.length === 0 ? `${last} joined` : `${told.join(", ")} and ${last} joined`;
}

export function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function noteOf(metadata: string | null): CallNote | null {
  const { call } = (metadata === null ? {} : JSON.parse(metadata)) as { call?: CallNote };
  return call ?? null;
}

export function metadataOf(call: CallNote): string {
  return JSON.stringify({ call } satisfies Metadata);
}
