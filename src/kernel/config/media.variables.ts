import { availableParallelism } from "node:os";
import {
  apiKeyId,
  bearerToken,
  homeserver,
  host,
  lengthBetween,
  origin,
  region,
  serverName,
  turnUrl,
} from "./checks.ts";
import { boolean, choice, integer, list, optional, secret, text } from "./variable.ts";

export const mediaVariables = {
  PUBLIC_IP: list(
    ["auto"],
    host,
    "Addresses or names under which clients reach the media port; auto takes those of this machine.",
  ),
  MEDIA_UDP_PORT: integer(
    7001,
    { min: 0, max: 65_535 },
    "UDP (and fallback TCP) port of the first media worker; worker n uses this port + n. 0 takes free ones.",
  ),
  MEDIA_WORKERS: integer(
    Math.max(1, availableParallelism() - 1),
    { min: 1, max: 256, fallbackText: "cores − 1, at least 1" },
    "Media worker threads.",
  ),
  MEDIA_WORKER_MAX_MEMORY_MB: integer(
    2048,
    { min: 256, max: 1_048_576 },
    "MiB of memory that one media worker may use; a worker beyond it is replaced, and its calls reconnect.",
  ),
  MEDIA_FAN_OUT: choice(
    "auto",
    ["auto", "typescript", "native"],
    "Whether native code encrypts and sends media packets, at about half the CPU time; auto uses it where it can be loaded.",
  ),
  MEDIA_SPREAD: choice(
    "auto",
    ["auto", "off"],
    "Whether a large room is spread over several media workers: auto takes another from 100 participants on one worker, or 20 on a busy one. Also whether a room may be on several media nodes.",
  ),
  MEDIA_WARM_UP: boolean(
    true,
    "Whether a media worker without calls compiles its code three seconds after its start, so that its first calls cost half the CPU time. It takes about three seconds of CPU time, which tests that start many servers can save.",
  ),
  SFU_NODE_NAME: text("local", serverName, "Name of this media node in the fleet."),
  SFU_REGION: text("local", region, "Region of this media node."),
  SFU_CAPACITY: integer(0, { min: 0, max: 100_000 }, "Rooms that this media node accepts; 0: no limit."),
  SFU_INTERNAL_URL: optional(
    origin,
    "Address under which the control plane reaches `stoa node`. Unset: its HOST and PORT.",
  ),
  CONTROL_PLANE: optional(origin, "Server that `stoa node` registers with."),
  SFU_REGISTRATION_SECRET: secret(
    bearerToken(16, 512),
    "Secret with which media nodes register. Unset: generated once into DATA_DIR.",
  ),
  SFU_HEARTBEAT_TIMEOUT_SECONDS: integer(
    30,
    { min: 1, max: 3600 },
    "Seconds without a heartbeat after which a media node counts as unhealthy.",
  ),
  LIVEKIT_CLIENTS: choice(
    "on",
    ["on", "off"],
    "Whether LiveKit's client SDKs may join rooms, at /rtc, /agent and /twirp, with tokens signed by an API key's signing secret.",
  ),
  MATRIX_HOMESERVERS: list(
    [],
    homeserver,
    "Matrix homeservers whose users may start calls here, or * for all; unset, no tokens are given to Matrix users.",
  ),
  MATRIX_FEDERATION: choice(
    "on",
    ["on", "off"],
    "Whether users of other Matrix homeservers may join the calls that were started here.",
  ),
  MATRIX_API_KEY: optional(
    apiKeyId,
    "Public id of the API key that signs the tokens of Matrix users; the calls belong to its project. Needs MATRIX_HOMESERVERS.",
  ),
  TURN_URLS: list([], turnUrl, "TURN servers that clients are given. Needs TURN_SECRET."),
  TURN_SECRET: secret(lengthBetween(1, 512), "Shared secret of the TURN servers (static-auth-secret)."),
  SIGNALING_MAX_PARTICIPANTS_PER_ROOM: integer(
    50,
    { min: 1, max: 10_000 },
    "Participants in one room, other than that of a live stream.",
  ),
  LIVE_STREAM_MAX_PARTICIPANTS: integer(
    1_000,
    { min: 1, max: 10_000 },
    "Participants in the room of one live stream, hosts and viewers.",
  ),
  MAX_PUBLISHERS_PER_ROOM: integer(
    200,
    { min: 1, max: 10_000 },
    "Participants in one room that may publish at the same time.",
  ),
  SIGNALING_MAX_MESSAGE_BYTES: integer(16_384, { min: 1024, max: 65_536 }, "Size of a signaling frame."),
  SIGNALING_MAX_MESSAGES_PER_WINDOW: integer(
    100,
    { min: 1, max: 1_000_000 },
    "Signaling messages of one connection in a window.",
  ),
  LIVEKIT_MAX_CONNECTIONS_PER_KEY: integer(
    600,
    { min: 1, max: 1_000_000 },
    "Connection attempts of LiveKit's clients with valid tokens of one API key in a window, of which one participant gets a tenth; those without a token count by IP address.",
  ),
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: integer(
    20,
    { min: 1, max: 1_000_000 },
    "Signaling connection attempts of one IP address in a window.",
  ),
  RTC_TOKEN_DEFAULT_TTL_SECONDS: integer(
    600,
    { min: 30, max: 21_600 },
    "Lifetime of an RTC token whose request sets none.",
  ),
  CONNECTION_RETENTION_DAYS: integer(
    30,
    { min: 0, max: 36_500 },
    "Days for which connection records and classified errors are kept; 0 keeps them.",
  ),
  IP_RETENTION_DAYS: integer(
    0,
    { min: 0, max: 36_500 },
    "Days for which connection records keep the client's address; 0 keeps it as long as the record.",
  ),
};
