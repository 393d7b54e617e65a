/** How media nodes, or the workers of one node, share a room: links between them, and the tracks and data that cross the links. */
import { type Static, Type } from "@sinclair/typebox";
import { LINK_STATES } from "../enums.ts";
import { literals } from "../literals.ts";
import { TrackEncryption, TrackKind, TrackSource } from "../room-records.ts";
import { DATA_FRAME_MAX_BYTES } from "../signaling.ts";

const Id = Type.String({ minLength: 1, maxLength: 128 });
const Identity = Type.String({ minLength: 1, maxLength: 512 });
const Ssrc = Type.Integer({ minimum: 1, maximum: 0xffff_ffff });
const PayloadType = Type.Integer({ minimum: 0, maximum: 127 });
const MAX_RECIPIENTS = 100_000;
const MAX_CODECS = 32;
const MAX_LAYERS = 3;
/** The maximum length of a message in base64, with the fields of its packet. */
const PACKET_CHARACTERS = 4 * DATA_FRAME_MAX_BYTES;

export type LinkRef = { linkId: string };
export type SharedRoom = LinkRef & { roomId: string };
export type RelayedTrackRef = SharedRoom & { trackId: string };

/** The worker at which the links of a room to other nodes end; there is one on each node. */
export const LinkPoint = Type.Object({
  worker: Type.Integer({ minimum: 0, maximum: 1_023 }),
  /** An X25519 public key, in the form of a JWK. */
  publicKey: Type.String({ pattern: "^[A-Za-z0-9_-]{43}$" }),
  addresses: Type.Array(Type.String({ pattern: "^[0-9A-Fa-f.:]{2,45}$" }), { minItems: 1, maxItems: 64 }),
  port: Type.Integer({ minimum: 1, maximum: 65_535 }),
});
export type LinkPoint = Static<typeof LinkPoint>;

/** The credentials of the connectivity checks that one end answers. */
export type LinkCredentials = { ufrag: string; pwd: string };

export type OpenNodeLink = LinkRef & {
  worker: number;
  /** Each direction has its own key, and this tells an end which one it sends with. */
  isFirst: boolean;
  credentials: LinkCredentials;
  peer: Pick<LinkPoint, "publicKey" | "addresses" | "port"> & { credentials: LinkCredentials };
};

export const LinkState = literals(LINK_STATES);
export type LinkState = Static<typeof LinkState>;

/** The condition of a link, as one end reports it. */
export type LinkCondition = {
  state: LinkState;
  rttMs: number | null;
  /** The loss of packets to this end before retransmission; null if there were none, absent from nodes of an older version. */
  lossPercent?: number | null;
  /** The bitrate to which this end limits itself; null while the link carries everything that is wanted. */
  limitBps?: number | null;
};

const RelayedLayer = Type.Object({
  rid: Type.Union([Type.String({ maxLength: 64 }), Type.Null()]),
  ssrc: Ssrc,
  repairSsrc: Ssrc,
});

const RelayedCodec = Type.Object({
  codec: literals(["opus", "red", "PCMU", "PCMA", "VP8", "VP9", "H264", "AV1"]),
  payloadType: PayloadType,
  rtxPayloadType: Type.Union([PayloadType, Type.Null()]),
  clockRate: Type.Integer({ minimum: 8_000, maximum: 192_000 }),
  variant: Type.String({ maxLength: 16 }),
  profile: Type.String({ maxLength: 16 }),
  nack: Type.Boolean(),
});

export const RelayedTrack = Type.Object({
  roomId: Id,
  linkId: Id,
  trackId: Id,
  identity: Identity,
  clientTrackId: Type.String({ maxLength: 1_024 }),
  mid: Type.String({ maxLength: 64 }),
  kind: TrackKind,
  source: TrackSource,
  name: Type.Union([Type.String({ maxLength: 1_024 }), Type.Null()]),
  encryption: Type.Optional(TrackEncryption),
  /** The track whose video this is in another codec. Its `trackId` is valid on this link only. */
  backupOf: Type.Optional(Id),
  muted: Type.Boolean(),
  codecs: Type.Array(RelayedCodec, { maxItems: MAX_CODECS }),
  /** The payload type of the codec in use. */
  payloadType: PayloadType,
  layers: Type.Array(RelayedLayer, { minItems: 1, maxItems: MAX_LAYERS }),
});
export type RelayedTrack = Static<typeof RelayedTrack>;

const Recipients = Type.Array(Type.String({ maxLength: 512 }), { maxItems: MAX_RECIPIENTS });

/** A data message in all its formats. */
export const RelayedData = Type.Object({
  roomId: Id,
  from: Type.Union([Identity, Type.Null()]),
  kind: literals(["reliable", "lossy"]),
  /** The message as a JSON frame; null if the payload is not text. */
  delivery: Type.Union([
    Type.Object({
      from: Type.Union([Identity, Type.Null()]),
      topic: Type.Optional(Type.String({ maxLength: 1_024 })),
      payload: Type.String({ maxLength: PACKET_CHARACTERS }),
    }),
    Type.Null(),
  ]),
  /** The data packet in base64. */
  packet: Type.String({ maxLength: PACKET_CHARACTERS, pattern: "^[A-Za-z0-9+/]*={0,2}$" }),
  size: Type.Integer({ minimum: 0, maximum: PACKET_CHARACTERS }),
  isStreamPart: Type.Boolean(),
  /** Null for a message to all participants. */
  to: Type.Union([Type.Object({ identities: Recipients, participantIds: Recipients }), Type.Null()]),
});
export type RelayedData = Static<typeof RelayedData>;

/** A link in the form in which a node reports its end to a control plane that has just started. */
export const OpenedLink = Type.Object({
  linkId: Id,
  worker: Type.Integer({ minimum: 0, maximum: 1_023 }),
  rooms: Type.Array(Id, { maxItems: 100_000 }),
  /** The tracks of the other node. */
  tracks: Type.Array(Type.Object({ roomId: Id, trackId: Id }), { maxItems: 100_000 }),
});
export type OpenedLink = Static<typeof OpenedLink>;

/** The limit for the tracks of both ends of a link together. */
export const MAX_LINK_TRACKS = 4_096;

/** The calls by which the ends of links share a room. */
export type RelayCalls = {
  /** Ends the link and the tracks of its other end. Has no effect for an unknown link. */
  closeLink: LinkRef;
  /**
   * Offers the room's tracks on the link, by `relayOffered`: the current ones now, later ones when they are published. A repeated
   * call offers all of them again.
   */
  shareRoom: SharedRoom;
  /** Ends the room's tracks on the link, in both directions. */
  unshareRoom: SharedRoom;
  /** Adds a track of the other end, to which participants can subscribe from now on. It is sent while one of them does. */
  addRelayed: RelayedTrack;
  muteRelayed: RelayedTrackRef & { muted: boolean };
  removeRelayed: RelayedTrackRef;
  deliverRelayed: RelayedData;
};

/** The calls between nodes; `linkChanged` follows `openLink` when the end hears the other. */
type NodeRelayCalls = RelayCalls & { openLink: OpenNodeLink };
export type RelayCall = {
  [M in keyof NodeRelayCalls]: { method: M; request: NodeRelayCalls[M] };
}[keyof NodeRelayCalls];
