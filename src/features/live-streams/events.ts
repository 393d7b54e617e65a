import type { LiveStreamStatus } from "../../protocol/enums.ts";

declare module "../../kernel/bus.ts" {
  interface BusEvents {
    /** A live stream was started or ended. Viewers who wait in its room receive media when it becomes LIVE. */
    streamChanged: { streamId: string; roomId: string; status: LiveStreamStatus };
  }
}
