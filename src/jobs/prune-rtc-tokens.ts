import type { RtcTokenService } from "../rooms/rtc-token.service.ts";
import type { Runtime } from "../runtime.ts";
import type { Job } from "./scheduler.ts";

/** RTC tokens that are long over are forgotten. */
export const pruneRtcTokens = ({ write }: Runtime, rtcTokens: RtcTokenService): Job => ({
  name: "prune-rtc-tokens",
  everyMs: 600_000,
  runDue: async () => {
    await write(() => void rtcTokens.sweep());
  },
});
