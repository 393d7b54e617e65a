import type { Author } from "../../kernel/author.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { Participant, Permissions, Track } from "../../protocol/room-records.ts";
import { DATA_SEND_MAX_BYTES } from "../../protocol/signaling.ts";
import { auditTrail } from "../audit/audit-trail.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { checkedDisplayName, checkedMetadata } from "./participant.ts";
import type { RoomRef, RoomService } from "./room.service.ts";
import type { RoomRow } from "./room.table.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

/** The limit equals what LiveKit's clients send in one message. */
const DATA_BYTES_MAX = 64_000;
/** The client has no way to renew the token of a room that it was moved to. */
const MOVED_TTL_SECONDS = 21_600;

export type ModerationService = ReturnType<typeof moderationService>;

type ParticipantChange = {
  permissions?: Partial<Permissions>;
  metadata?: string | null;
  name?: string | null;
  /** Merged with the current attributes; an empty value removes its key. */
  attributes?: Record<string, string>;
};

/** Actions of backends and operators on the participants of a room. */
export function moderationService(
  { bus, now, write }: Runtime,
  { rooms, rtcTokens, liveRooms }: { rooms: RoomService; rtcTokens: RtcTokenService; liveRooms: LiveRooms },
) {
  /** Entries name the room by its id: an entry outlives a person's data, and a room's name may name the person. */
  const audit = auditTrail({ bus, now }, "participant", ({ id }: RoomRow) => id);

  return {
    /**
     * Also revokes the tokens of a participant who is not in the room at this moment. Returns the time from which
     * tokens that a backend signs itself are valid again.
     */
    async remove(ref: RoomRef, identity: string, author: Author): Promise<number> {
      const room = rooms.find(ref);
      const wasPresent = liveRooms.has(room.id, identity);
      const { revoked, validFrom } = await write((unit) => {
        const removal = rtcTokens.revokeIdentity(unit, ref, identity);
        rtcTokens.withdrawAdmission(unit, room.id, identity);
        if (wasPresent || removal.revoked > 0) audit(unit, author, "participant.removed", room);
        return removal;
      });
      if (!wasPresent && revoked === 0) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
      return validFrom;
    },

    async update(ref: RoomRef, identity: string, change: ParticipantChange, author: Author): Promise<Participant> {
      const room = rooms.find(ref);
      const { id: roomId } = room;
      const fields = Object.keys(change).filter((name) => change[name as keyof ParticipantChange] !== undefined);
      const record = () => write((unit) => audit(unit, author, "participant.updated", room, { fields }));
      const metadata = change.metadata === undefined ? undefined : checkedMetadata(change.metadata);
      const name = change.name === undefined ? undefined : checkedDisplayName(change.name);
      const profile = { metadata, name, attributes: change.attributes };
      if (!change.permissions) {
        const updated = await liveRooms.update(roomId, identity, profile);
        await record();
        return updated;
      }
      const changed = change.permissions;
      if (!liveRooms.has(roomId, identity)) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
      // The permissions are saved first, so that a participant who reconnects in the meantime does not get the old
      // ones. What is applied is what is saved then: of two changes at the same time, neither takes back the other.
      await write((unit) => rtcTokens.changePermissions(unit, roomId, identity, changed));
      const granted = liveRooms.permissionsOf(roomId, identity);
      const permissions = rtcTokens.effectivePermissions(roomId, identity, granted);
      const updated = await liveRooms.update(roomId, identity, { permissions, ...profile });
      await record();
      return updated;
    },

    /** Sends a participant to another room, which its client joins before it leaves this one. */
    async move(ref: RoomRef, identity: string, to: string, author: Author, publicUrl: string): Promise<RoomRow> {
      const room = rooms.findActive(ref);
      const { projectId, environment } = room;
      const destination = rooms.findActive({ projectId, environment, roomId: to });
      if (destination.id === room.id) throw new ApiError("SVC_CONFLICT", "The participant is in this room already.");
      const { permissions, ...profile } = liveRooms.movable(room.id, identity);
      const at = now();
      const grant = await write((unit) => {
        bus.publish(unit, "webhook", {
          type: "participant.moved",
          projectId,
          environment,
          at,
          data: {
            roomId: room.id,
            roomName: room.name,
            toRoomId: destination.id,
            toRoomName: destination.name,
            identity,
            at: iso(at),
          },
        });
        audit(unit, author, "participant.moved", room, { to: destination.id });
        const ref = { projectId, environment, roomId: destination.id };
        return rtcTokens.mint(unit, ref, {
          ...profile,
          name: profile.name ?? undefined,
          metadata: profile.metadata ?? undefined,
          participantIdentity: identity,
          ttlSeconds: MOVED_TTL_SECONDS,
          // A participant that is moved does not wait in the lobby of the destination.
          permissions: { ...permissions, admit: true },
        });
      });
      const { token, endpoint } = await rtcTokens.sign(grant, publicUrl);
      liveRooms.move(room.id, identity, { room: { id: destination.id, name: destination.name }, endpoint, token });
      return destination;
    },

    waiting: (ref: RoomRef) => liveRooms.waiting(rooms.find(ref).id),

    /** May be called before the participant comes. The admission stays until the participant is removed or the room is closed. */
    admit: (ref: RoomRef, identity: string, author: Author) => liveRooms.admit(rooms.findActive(ref), identity, author),

    deny: (ref: RoomRef, identity: string, author: Author) => liveRooms.deny(rooms.find(ref), identity, author),

    async mute(ref: RoomRef, identity: string, trackId: string, author: Author): Promise<Track> {
      const room = rooms.find(ref);
      const track = await liveRooms.mute(room.id, identity, trackId);
      await write((unit) => audit(unit, author, "participant.muted", room, { trackId }));
      return track;
    },

    async sendData(ref: RoomRef, data: { topic?: string; to?: string[]; payload: string }): Promise<void> {
      const room = rooms.findActive(ref);
      if (Buffer.byteLength(data.payload) > DATA_SEND_MAX_BYTES) {
        throw invalid("payload", `must have at most ${DATA_SEND_MAX_BYTES} bytes`);
      }
      await liveRooms.sendData(room.id, data);
    },

    /** Sends any bytes, as LiveKit's server API does. */
    async sendBytes(
      ref: RoomRef,
      bytes: Uint8Array,
      { nonce, ...options }: { topic?: string; to?: string[]; lossy: boolean; nonce?: Uint8Array },
    ): Promise<void> {
      const room = rooms.findActive(ref);
      if (bytes.length > DATA_BYTES_MAX) throw invalid("data", `must have at most ${DATA_BYTES_MAX} bytes`);
      const base64 = (of: Uint8Array) => Buffer.from(of).toString("base64");
      await liveRooms.sendData(room.id, {
        ...options,
        payload: base64(bytes),
        encoding: "base64",
        ...(nonce && nonce.length > 0 && { nonce: base64(nonce) }),
      });
    },
  };
}
