import type { Tenant } from "../../kernel/tenant.ts";
import type { NetworkProfile } from "../../protocol/playground.ts";
import type { LiveParticipant, Participant, Permissions, Track } from "../../protocol/room-records.ts";
import type { RoomPresence } from "./room.service.ts";

/**
 * What is going on in the rooms right now; the signaling side answers. Methods that ask a media node throw
 * `SVC_RTC_SERVER_UNREACHABLE` when it does not answer, those about one participant `SVC_PARTICIPANT_NOT_FOUND`.
 */
export type LiveRooms = {
  /** How many are in each room and on which node; one question per node, however many rooms are asked for. */
  presence(roomIds: string[]): Promise<Map<string, RoomPresence>>;
  participants(roomId: string): Promise<LiveParticipant[]>;
  /** The node that the room is on; null while nobody is in it. */
  serverOf(roomId: string): string | null;
  has(roomId: string, identity: string): boolean;
  /** Every room that somebody is in at this moment. */
  roomsOf(tenant: Tenant, identity: string): string[];
  permissionsOf(roomId: string, identity: string): Permissions;
  update(
    roomId: string,
    identity: string,
    change: {
      permissions?: Permissions;
      metadata?: string | null;
      name?: string | null;
      attributes?: Record<string, string>;
    },
  ): Promise<Participant>;
  mute(roomId: string, identity: string, trackId: string): Promise<Track>;
  /** For development: a bad network between the media server and that participant. */
  setNetwork(roomId: string, identity: string, profile: NetworkProfile): Promise<void>;
  sendData(roomId: string, data: { topic?: string; to?: string[]; payload: string }): Promise<void>;
};
