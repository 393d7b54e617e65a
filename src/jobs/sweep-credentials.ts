import type { Idempotency } from "../kernel/http/idempotency.ts";
import type { RtcTokenService } from "../rooms/rtc-token.service.ts";
import type { Job } from "./scheduler.ts";

/** Forgets idempotency keys past their window and tokens that are long over. */
export const sweepCredentials = ({
  idempotency,
  rtcTokens,
}: {
  idempotency: Idempotency;
  rtcTokens: RtcTokenService;
}): Job => ({
  name: "sweep-credentials",
  everyMs: 600_000,
  async runDue() {
    await idempotency.sweep();
    await rtcTokens.sweep();
  },
});
