import type { Metadata } from "../../../protocol/chat-records.ts";

/** The `metadata.call` of a message about a call, from which its text is made. */
export type CallNote = {
  /** Null when the ring did not lead to a call. */
  callId: string | null;
  ringId: string | null;
  roomId: string;
  status: "LIVE" | "ENDED" | "MISSED";
  /** Null without a ring, or when a backend started the ring. */
  callerId: string | null;
  startedAt: string;
  endedAt: string | null;
  durationMs: number | null;
  /** The first participants, in the order in which they joined; `participantCount` counts all. */
  participants: string[];
  participantCount: number;
  /** Members who did not join; empty during the call, null when there are too many to list. */
  missed: string[] | null;
};

export const MAX_NAMES = 50;
const NAMES_IN_TEXT = 3;

/** `nameOf` gives the name of a participant for people to read. */
export function callText(
  { status, participants, participantCount, durationMs, missed, callerId }: CallNote,
  nameOf: (userId: string) => string = (userId) => userId,
): string {
  const missedText = (caller: string | null) =>
    caller === null ? "Missed call" : `Missed call from ${nameOf(caller)}`;
  switch (status) {
    case "LIVE":
      if (participantCount === 0) return "Call started";
      return `Call started: ${joinedText(participants.slice(0, NAMES_IN_TEXT).map(nameOf), participantCount)}`;
    case "MISSED":
      return missedText(callerId);
    case "ENDED":
      // Only one participant came, and other members did not join.
      if (participantCount <= 1 && missed !== null && missed.length > 0)
        return missedText(callerId ?? participants[0] ?? null);
      return `Call ended, ${durationText(durationMs ?? 0)}`;
  }
}

function joinedText(listed: string[], count: number): string {
  const others = count - listed.length;
  if (others > 0) return `${listed.join(", ")} and ${others} ${others === 1 ? "other" : "others"} joined`;
  const last = listed.pop();
  return listed.length === 0 ? `${last} joined` : `${listed.join(", ")} and ${last} joined`;
}

export function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function parseCallNote(metadata: string | null): CallNote | null {
  const { call } = (metadata === null ? {} : JSON.parse(metadata)) as { call?: CallNote };
  return call ?? null;
}

export function callNoteMetadata(call: CallNote): string {
  return JSON.stringify({ call } satisfies Metadata);
}
