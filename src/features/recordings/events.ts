import type { Tenant } from "../../kernel/tenant.ts";

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    /** A recording that has content ended; its duration counts as recorded time. */
    recordingEnded: Tenant & { startedAt: number; endedAt: number };
  }
  interface BusEvents {
    /** A participant joined a room that records every call. */
    recordedRoomEntered: { roomId: string };
    /** Recording of the room started (`active`) or stopped. */
    recordingChanged: { roomId: string; active: boolean };
  }
}
