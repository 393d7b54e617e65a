import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { Participant, Permissions, Track } from "../../protocol/room-records.ts";
import { DATA_SEND_MAX_BYTES } from "../../protocol/signaling.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { checkedDisplayName, checkedMetadata, resolvePermissions } from "./participant.ts";
import type { RoomRef, RoomService } from "./room.service.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

export type ModerationService = ReturnType<typeof moderationService>;

type ParticipantChange = {
  permissions?: Partial<Permissions>;
  metadata?: string | null;
  name?: string | null;
  /** Merged with the current ones; an empty value removes its key. */
  attributes?: Record<string, string>;
};

/** Actions of backends and operators on the participants of a room. */
export function moderationService(
  { write }: Runtime,
  { rooms, rtcTokens, liveRooms }: { rooms: RoomService; rtcTokens: RtcTokenService; liveRooms: LiveRooms },
) {
  return {
    /**
     * Also revokes the tokens of a participant who is not in the room at this moment. Returns from when on tokens that a
     * backend signs itself are valid again.
     */
    async remove(ref: RoomRef, identity: string): Promise<number> {
      const wasPresent = liveRooms.has(rooms.find(ref).id, identity);
      const { revoked, validFrom } = await write((unit) => rtcTokens.revokeIdentity(unit, ref, identity));
      if (!wasPresent && revoked === 0) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
      return validFrom;
    },

    async update(ref: RoomRef, identity: string, change: ParticipantChange): Promise<Participant> {
      const { id: roomId } = rooms.find(ref);
      const metadata = change.metadata === undefined ? undefined : checkedMetadata(change.metadata);
      const name = change.name === undefined ? undefined : checkedDisplayName(change.name);
      const profile = { metadata, name, attributes: change.attributes };
      if (!change.permissions) return liveRooms.update(roomId, identity, profile);
      const changed = change.permissions;
      const permissions = resolvePermissions(changed, liveRooms.permissionsOf(roomId, identity));
      // They are saved first, so that a participant who reconnects meanwhile does not get the old ones.
      await write((unit) => rtcTokens.changePermissions(unit, roomId, identity, changed));
      return liveRooms.update(roomId, identity, { permissions, ...profile });
    },

    mute: (ref: RoomRef, identity: string, trackId: string): Promise<Track> =>
      liveRooms.mute(rooms.find(ref).id, identity, trackId),

    async sendData(ref: RoomRef, data: { topic?: string; to?: string[]; payload: string }): Promise<void> {
      const room = rooms.findActive(ref);
      if (Buffer.byteLength(data.payload) > DATA_SEND_MAX_BYTES) {
        throw invalid("payload", `must have at most ${DATA_SEND_MAX_BYTES} bytes`);
      }
      await liveRooms.sendData(room.id, data);
    },
  };
}
