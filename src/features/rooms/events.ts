import type { Environment } from "../../protocol/enums.ts";
import type { RoomRow } from "./room.table.ts";

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    roomCreated: RoomRow;
    roomClosed: {
      roomId: string;
      projectId: string;
      environment: Environment;
      reason: "closed" | "stream_ended" | "empty";
    };
  }
  interface BusEvents {
    /** A participant was removed permanently; their tokens for the room are revoked as well. */
    participantRemoved: { roomId: string; identity: string };
    rtcTokenRevoked: { tokenId: string; roomId: string };
    roomChanged: { roomId: string; fields: readonly string[] };
  }
}
