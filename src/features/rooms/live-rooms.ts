import type { Author } from "../../kernel/author.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { ServerLink } from "../../nodes/node-links.ts";
import type { SendData } from "../../protocol/media-node.ts";
import type { NetworkProfile } from "../../protocol/playground.ts";
import type { Knock, LiveParticipant, Participant, Permissions, Profile, Track } from "../../protocol/room-records.ts";
import type { PushBody } from "../../protocol/signaling.ts";
import type { RoomPresence } from "./room.service.ts";
import type { RoomRow } from "./room.table.ts";

export type Moved = Omit<Extract<PushBody, { type: "room.moved" }>, "type">;

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
  /** The links between the media nodes of the room; none while it is on one node. */
  linksOf(roomId: string): Omit<ServerLink, "id" | "tracks" | "roomIds">[];
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
  /**
   * The profile and permissions that a participant keeps in another room. Throws for a participant that cannot move, such as an
   * encoder.
   */
  movable(roomId: string, identity: string): Profile & { metadata: string | null; permissions: Permissions };
  move(roomId: string, identity: string, to: Moved): void;
  /** The participants who wait in the lobby. */
  waiting(roomId: string): Knock[];
  admit(room: RoomRow, identity: string, author: Author): Promise<void>;
  deny(room: RoomRow, identity: string, author: Author): Promise<void>;
  mute(roomId: string, identity: string, trackId: string): Promise<Track>;
  /** Simulates a bad network between the media server and the participant, for development. */
  setNetwork(roomId: string, identity: string, profile: NetworkProfile): Promise<void>;
  sendData(roomId: string, data: Omit<SendData, "roomId" | "from">): Promise<void>;
};
