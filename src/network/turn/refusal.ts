/** The error codes of RFC 8489 and RFC 8656. Reasons are short because they are also sent to unauthenticated clients. */
const REASONS = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  420: "Unknown Attribute",
  437: "Allocation Mismatch",
  438: "Stale Nonce",
  440: "Address Family not Supported",
  441: "Wrong Credentials",
  442: "Unsupported Transport Protocol",
  443: "Peer Address Family Mismatch",
  486: "Allocation Quota Reached",
  508: "Insufficient Capacity",
} as const;

export type RefusalCode = keyof typeof REASONS;

export class Refusal {
  readonly code: RefusalCode;

  constructor(code: RefusalCode) {
    this.code = code;
  }

  get reason(): string {
    return REASONS[this.code];
  }
}
