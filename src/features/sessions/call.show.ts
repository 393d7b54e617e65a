import { iso } from "../../kernel/clock.ts";
import type { CallStatus } from "../../protocol/enums.ts";
import type { CallVerdict } from "../../protocol/room-records.ts";
import type { CallParticipantRow, CallRow } from "./call.table.ts";

/** `minutes`: what its participants used, together. */
export function showCall(row: CallRow, now: number, minutes: number) {
  const { publicId, roomId, roomName, startedAt, endedAt, participantCount, peakParticipants } = row;
  const status: CallStatus = endedAt === null ? "LIVE" : "ENDED";
  return {
    ...{ id: publicId, roomId, roomName, status, startedAt: iso(startedAt) },
    endedAt: endedAt === null ? null : iso(endedAt),
    durationMs: (endedAt ?? now) - startedAt,
    participantCount,
    peakParticipants,
    minutes,
  };
}

export function showParticipant(row: CallParticipantRow) {
  const { identity, connectionId, joinedAt, leftAt, leaveReason, quality, verdict } = row;
  return {
    ...{ identity, connectionId, joinedAt: iso(joinedAt), leftAt: leftAt === null ? null : iso(leftAt), leaveReason },
    quality,
    verdict: verdict === null ? null : (JSON.parse(verdict) as CallVerdict),
  };
}
