import type { ErrorCategory } from "../../../protocol/observability.ts";

/** A failure before its classification. */
export type Failure = {
  /** `refused`: the server refused the join; `transport`: media failed; `client`: the SDK reported an error. */
  source: "refused" | "transport" | "client";
  code: string;
};

type Classified = { category: ErrorCategory; code: string; likelyCause: string; suggestedAction: string };

type Rule = { source: Failure["source"]; codes: readonly string[] } & Omit<Classified, "code">;

/** The names of errors that browsers throw when a camera, microphone or screen is unavailable. */
const DEVICE_ERRORS: readonly string[] = [
  "NotAllowedError",
  "NotFoundError",
  "NotReadableError",
  "OverconstrainedError",
  "SecurityError",
  "AbortError",
];

/** The first matching rule applies. Causes and advice are written for the developer who reads the record. */
export const RULES: readonly Rule[] = [
  {
    source: "refused",
    codes: ["TOKEN_EXPIRED"],
    category: "TOKEN_ERROR",
    likelyCause: "The RTC token had expired when the client joined.",
    suggestedAction: "Mint the token right before joining, or pass the SDK a tokenProvider that fetches a fresh one.",
  },
  {
    source: "refused",
    codes: ["TOKEN_REVOKED"],
    category: "TOKEN_ERROR",
    likelyCause: "The token was revoked, or its participant was removed from the room.",
    suggestedAction: "Mint another token if this participant is allowed to return.",
  },
  {
    source: "refused",
    codes: ["AUTH_ERROR", "INVALID_CREDENTIALS"],
    category: "AUTHENTICATION_ERROR",
    likelyCause: "The token is not valid on this server: it is damaged, of another kind, or from another installation.",
    suggestedAction: "Pass the token exactly as it was minted, to the endpoint that came with it.",
  },
  {
    source: "refused",
    codes: ["PERMISSION_DENIED"],
    category: "AUTHORIZATION_ERROR",
    likelyCause: "The token does not have the permission to join.",
    suggestedAction: "Mint it with permissions.join set to true.",
  },
  {
    source: "refused",
    codes: ["ORIGIN_NOT_ALLOWED"],
    category: "AUTHORIZATION_ERROR",
    likelyCause: "The page's origin is not in the project's list of allowed origins.",
    suggestedAction: "Add the origin in the project's settings, with scheme and port.",
  },
  {
    source: "refused",
    codes: ["ROOM_NOT_FOUND", "ROOM_CLOSED"],
    category: "SIGNALING_ERROR",
    likelyCause: "The room was closed before the client arrived.",
    suggestedAction: "Create the room again, or stop minting tokens for rooms that are closed.",
  },
  {
    source: "refused",
    codes: ["ROOM_FULL"],
    category: "SIGNALING_ERROR",
    likelyCause: "The room has reached its maximum number of participants.",
    suggestedAction:
      "Create the room with a higher maxParticipants, or raise SIGNALING_MAX_PARTICIPANTS_PER_ROOM, or for a live stream LIVE_STREAM_MAX_PARTICIPANTS.",
  },
  {
    source: "refused",
    codes: ["RATE_LIMITED"],
    category: "SIGNALING_ERROR",
    likelyCause: "One address opened too many connections, or one connection sent too many frames.",
    suggestedAction:
      "Look for a client that reconnects in a loop. Behind a proxy, set TRUSTED_PROXIES; otherwise all users seem to have one address.",
  },
  {
    source: "refused",
    codes: ["JOIN_TIMEOUT", "INVALID_MESSAGE", "UNKNOWN_TYPE", "NEGOTIATION_FAILED", "PAYLOAD_TOO_LARGE"],
    category: "SIGNALING_ERROR",
    likelyCause: "The client violated the protocol.",
    suggestedAction: "Use the SDK that this server serves at /sdk.js, or compare your client with the protocol.",
  },
  {
    source: "refused",
    codes: ["NO_RTC_CAPACITY"],
    category: "SFU_ERROR",
    likelyCause: "No healthy media server had capacity.",
    suggestedAction: "On the Servers page, undrain a server; or raise SFU_CAPACITY, or add a media node.",
  },
  {
    source: "refused",
    codes: ["RTC_SERVER_UNREACHABLE", "SHUTTING_DOWN", "INTERNAL_ERROR"],
    category: "SFU_ERROR",
    likelyCause: "The media server of the room did not answer.",
    suggestedAction: "Look at its log around this time. Clients reconnect automatically once it is back.",
  },
  {
    source: "transport",
    codes: ["ice_timeout"],
    category: "ICE_ERROR",
    likelyCause:
      "No packet from the client reached the media port: a firewall blocks UDP and TCP to it, or the announced address is wrong.",
    suggestedAction:
      "Open MEDIA_UDP_PORT for UDP and TCP, check PUBLIC_IP with `stoa doctor`, or set DOMAIN (built-in relay) or TURN_URLS.",
  },
  {
    source: "transport",
    codes: ["dtls_failed"],
    category: "ICE_ERROR",
    likelyCause:
      "Packets arrived, but the DTLS handshake failed: packets were altered on the way, or the certificate is not the one in the offer.",
    suggestedAction: "Check that no middlebox rewrites UDP packets and that no proxy changes the SDP.",
  },
  {
    source: "transport",
    codes: ["consent_timeout", "timeout", "dtls_closed", "failed"],
    category: "NETWORK_ERROR",
    likelyCause: "The client lost its network for too long, or the page was closed without leaving.",
    suggestedAction:
      "There is nothing to do on the server. If many clients are affected at once, check the server's own network.",
  },
  {
    source: "transport",
    codes: ["media_stalled"],
    category: "NETWORK_ERROR",
    likelyCause:
      "The client was connected but sent no media for seconds: its browser did not recover from a network change, or a device on the path passes ICE checks but drops media.",
    suggestedAction:
      "The SDK recovers automatically. Your own client should restart ICE on media.stalled, then open a new connection.",
  },
  {
    source: "transport",
    codes: ["worker_crashed", "node_lost"],
    category: "SFU_ERROR",
    likelyCause: "The media worker or node that carried the room stopped.",
    suggestedAction: "Look at its log around this time. Clients rejoin automatically.",
  },
  {
    source: "client",
    codes: DEVICE_ERRORS,
    category: "CLIENT_ERROR",
    likelyCause: "The browser could not give the page a camera, microphone or screen.",
    suggestedAction: "Tell the user why: the SDK's error has a reason and a message.",
  },
  {
    source: "client",
    codes: ["TURN_UNREACHABLE", "TURN_ERROR"],
    category: "TURN_ERROR",
    likelyCause: "The TURN server did not respond or rejected the credentials.",
    suggestedAction: "Check TURN_URLS and TURN_SECRET with `stoa doctor`.",
  },
  {
    source: "client",
    codes: ["MEDIA_UNREACHABLE", "UDP_BLOCKED", "ICE_FAILED"],
    category: "ICE_ERROR",
    likelyCause: "The client found no network path to the media server.",
    suggestedAction: "Open MEDIA_UDP_PORT for UDP and TCP, or set DOMAIN (built-in relay) or TURN_URLS.",
  },
  {
    source: "client",
    codes: ["UNREACHABLE", "OPEN_TIMEOUT", "NO_ANSWER"],
    category: "NETWORK_ERROR",
    likelyCause: "The client could not reach the server for a while.",
    suggestedAction: "If it reconnected, there is nothing to do. Otherwise, check that the proxy forwards WebSockets.",
  },
];

const DEFAULTS: Record<Failure["source"], Omit<Classified, "code">> = {
  refused: {
    category: "UNKNOWN_ERROR",
    likelyCause: "The join was refused for an unknown reason.",
    suggestedAction: "Look at the server's log around this time.",
  },
  transport: {
    category: "UNKNOWN_ERROR",
    likelyCause: "Media ended for an unknown reason.",
    suggestedAction: "Look at the server's log around this time.",
  },
  client: {
    category: "CLIENT_ERROR",
    likelyCause: "The client reported an error.",
    suggestedAction: "See the event in the connection's timeline.",
  },
};

export function isDeviceError(code: string): boolean {
  return DEVICE_ERRORS.includes(code);
}

/** Every failure has exactly one category. */
export function classify({ source, code }: Failure): Classified {
  const rule = RULES.find((candidate) => candidate.source === source && candidate.codes.includes(code));
  const { category, likelyCause, suggestedAction } = rule ?? DEFAULTS[source];
  return { category, code, likelyCause, suggestedAction };
}

/** Explains a stored error: several sources can use its code, but only one of them uses its category. */
export function explain(category: ErrorCategory, code: string): { likelyCause: string; suggestedAction: string } {
  const rule = RULES.find((candidate) => candidate.category === category && candidate.codes.includes(code));
  const { likelyCause, suggestedAction } = rule ?? DEFAULTS[category === "CLIENT_ERROR" ? "client" : "transport"];
  return { likelyCause, suggestedAction };
}
