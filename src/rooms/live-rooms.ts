import type { Participant } from "../protocol/room-records.ts";
import type { RoomPresence } from "./room.service.ts";

/** What is going on in the rooms right now. The signaling side knows; rooms only ask. */
export type LiveRooms = {
  /** How many are in each room and on which node; one question per node, however many rooms are asked for. */
  presence(roomIds: string[]): Promise<Map<string, RoomPresence>>;
  /** Throws `SVC_RTC_SERVER_UNREACHABLE` when the room's node does not answer. */
  participants(roomId: string): Promise<Participant[]>;
};

export function noLiveRooms(): LiveRooms {
  return {
    presence: async () => new Map(),
    participants: async () => [],
  };
}
