/** Records of rooms, shared by REST, the RTC socket, media nodes and the browser SDK. */
import { type Static, Type } from "@sinclair/typebox";
import { QUALITIES, VERDICT_CAUSES } from "./enums.ts";
import { literals } from "./literals.ts";
import { CONNECTION_STATES } from "./observability.ts";

/**
 * An existing identity. Tokens minted by this server follow `IDENTITY_PATTERN`; LiveKit's tokens may contain any text.
 */
export const Identity = Type.String({ minLength: 1, maxLength: 512 });

export const TrackKind = literals(["audio", "video"]);
export type TrackKind = Static<typeof TrackKind>;

export const TrackSource = literals(["camera", "microphone", "screenShare", "screenShareAudio", "other"]);
export type TrackSource = Static<typeof TrackSource>;

/** End-to-end encryption by AES-GCM in the frame format of LiveKit's clients. */
export const TrackEncryption = Type.Literal("gcm");

export const Track = Type.Object({
  id: Type.String(),
  kind: TrackKind,
  source: TrackSource,
  name: Type.Union([Type.String(), Type.Null()]),
  muted: Type.Boolean(),
  simulcast: Type.Boolean(),
  /** The negotiated codec, such as `opus`, `VP8` or `H264`; null until the first packet has arrived. */
  codec: Type.Union([Type.String(), Type.Null()]),
  /** Absent unless the track is end-to-end encrypted. */
  encryption: Type.Optional(TrackEncryption),
});
export type Track = Static<typeof Track>;

/** Every field is present. `publishAudio` and `publishVideo` restrict `publish` when exactly one of them is set. */
export const Permissions = Type.Object({
  join: Type.Boolean(),
  subscribe: Type.Boolean(),
  publish: Type.Boolean(),
  publishAudio: Type.Boolean(),
  publishVideo: Type.Boolean(),
  publishData: Type.Boolean(),
  /** The participant may replace its own metadata, which was signed by its backend. */
  updateMetadata: Type.Boolean(),
  /** The participant may change the state of the room, and admits those who wait in its lobby. */
  host: Type.Optional(Type.Boolean()),
  /** The participant joins without waiting in the lobby, and while the room is locked. */
  admit: Type.Optional(Type.Boolean()),
  /** Restricts publishing to these sources; all sources if absent or empty. */
  publishSources: Type.Optional(Type.Array(TrackSource, { maxItems: 5 })),
});
export type Permissions = Static<typeof Permissions>;

/** The permissions of a participant whose token states none. */
export const SUBSCRIBE_ONLY: Permissions = {
  join: true,
  subscribe: true,
  publish: false,
  publishAudio: false,
  publishVideo: false,
  publishData: false,
  updateMetadata: false,
};

export const DISPLAY_NAME_MAX_CHARACTERS = 128;
/** The limit for all attributes of a participant together, as JSON. */
export const ATTRIBUTES_MAX_BYTES = 16 * 1_024;
const ATTRIBUTE_KEY_PATTERN = "^.{1,256}$";

/** The server counts code points, each of which has up to two UTF-16 units. */
export const DisplayName = Type.String({ maxLength: 2 * DISPLAY_NAME_MAX_CHARACTERS });
export const Attributes = Type.Record(
  Type.String({ pattern: ATTRIBUTE_KEY_PATTERN }),
  Type.String({ maxLength: ATTRIBUTES_MAX_BYTES }),
  { maxProperties: 256 },
);
export const PARTICIPANT_KINDS = ["standard", "agent", "ingress", "egress", "sip", "connector", "bridge"] as const;
/**
 * A client (`standard`), an AI agent, an encoder (`ingress`), a recorder (`egress`), a telephone (`sip`), or a link to
 * another service (`connector`, `bridge`).
 */
export const ParticipantKind = literals(PARTICIPANT_KINDS);
export type ParticipantKind = Static<typeof ParticipantKind>;

/** The public properties of a participant besides its identity and metadata. */
export const Profile = Type.Object({
  name: Type.Union([Type.String(), Type.Null()]),
  attributes: Type.Record(Type.String(), Type.String()),
  kind: ParticipantKind,
});
export type Profile = Static<typeof Profile>;

/** The attribute of a raised hand: the server's time in milliseconds, different for each hand of a room. */
export const HAND_ATTRIBUTE = "stoa.hand";

/** What hosts and the backend have decided about a room. A higher version is newer. */
export const RoomState = Type.Object({
  version: Type.Integer(),
  /** The identities that all clients show large. */
  spotlight: Type.Array(Identity),
  /** Only hosts and admitted participants may join. */
  locked: Type.Boolean(),
  /** Participants wait until a host admits them. */
  lobby: Type.Boolean(),
  /** Clients show captions if there are any. */
  captions: Type.Boolean(),
});
export type RoomState = Static<typeof RoomState>;

/** A participant that waits in the lobby. */
export const Knock = Type.Object({
  identity: Identity,
  name: Type.Union([Type.String(), Type.Null()]),
  since: Type.String(),
});
export type Knock = Static<typeof Knock>;

export const Participant = Type.Object({
  identity: Identity,
  ...Profile.properties,
  connectionId: Type.String(),
  state: literals(CONNECTION_STATES),
  permissions: Permissions,
  metadata: Type.Union([Type.String(), Type.Null()]),
  joinedAt: Type.String(),
  tracks: Type.Array(Track),
});
export type Participant = Static<typeof Participant>;

/** Simulcast layers; their RIDs are `q`, `h` and `f`. */
export const Layer = literals(["low", "medium", "high"]);
export type Layer = Static<typeof Layer>;
export const LAYER_RIDS = { low: "q", medium: "h", high: "f" } as const satisfies Record<Layer, string>;

export const Quality = literals(QUALITIES);
export type Quality = Static<typeof Quality>;

/** A participant that is in the room now; `quality` is null until it is measured. */
export const LiveParticipant = Type.Object({
  ...Participant.properties,
  quality: Type.Union([Quality, Type.Null()]),
});
export type LiveParticipant = Static<typeof LiveParticipant>;

export const IceServer = Type.Object({
  urls: Type.Array(Type.String()),
  username: Type.Optional(Type.String()),
  credential: Type.Optional(Type.String()),
});
export type IceServer = Static<typeof IceServer>;

export const Speaker = Type.Object({
  identity: Identity,
  /** From 0 (silent) to 1 (loudest). */
  level: Type.Number({ minimum: 0, maximum: 1 }),
});
export type Speaker = Static<typeof Speaker>;

export type VerdictCause = (typeof VERDICT_CAUSES)[number];

export const CallVerdict = Type.Object({
  quality: Quality,
  cause: literals(VERDICT_CAUSES),
  /** An explanation for users. */
  sentence: Type.String(),
  evidence: Type.Record(Type.String(), Type.Unknown()),
});
export type CallVerdict = Static<typeof CallVerdict>;
