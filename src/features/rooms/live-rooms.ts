import type { Tenant } from "../../kernel/tenant.ts";
import type { SendData } from "../../protocol/media-node.ts";
import type { NetworkProfile } from "../../protocol/playground.ts";
import type { LiveParticipant, Participant, Permissions, Track } from "../../protocol/room-records.ts";
import type { RoomPresence } from "./room.service.ts";

/**
 * The live state of the rooms, which signaling provides. Methods that query a media node throw
 * `SVC_RTC_SERVER_UNREACHABLE` when it does not respond, and methods about one participant throw
 * `SVC_PARTICIPANT_NOT_FOUND`.
 */
export type LiveRooms = {
  /** Sends one query per node, however many rooms are on it. */
  presence(roomIds: string[]): Promise<Map<string, RoomPresence>>;
  participants(roomId: string): Promise<LiveParticipant[]>;
  /** The identities that are connected, without a query to the node; null while the node of the room cannot be reached. */
  connected(roomId: string): string[] | null;
  /** The media nodes of the room, its main one first; none while the room is empty. */
  serversOf(roomId: string): string[];
  has(roomId: string, identity: string): boolean;
  /** The rooms that the participant is in at this moment. */
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
  /** Simulates a bad network between the media server and the participant, for development. */
  setNetwork(roomId: string, identity: string, profile: NetworkProfile): Promise<void>;
  sendData(roomId: string, data: Omit<SendData, "roomId" | "from">): Promise<void>;
};
