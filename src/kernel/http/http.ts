import type { Sockets } from "../socket/sockets.ts";
import type { Guards } from "./guards.ts";
import type { Idempotency } from "./idempotency.ts";
import type { RateLimit } from "./rate-limit.ts";
import type { RequestInfo } from "./request-info.ts";

export type Http = {
  guards: Guards;
  rateLimit: RateLimit;
  idempotency: Idempotency;
  infoOf: (request: Request) => RequestInfo;
  sockets: Sockets;
};
