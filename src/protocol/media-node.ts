/**
 * The interface between signaling and media. Every method takes one plain object and returns one, so that a request can
 * be sent unchanged to a Worker of this process or, as JSON, to a node on another machine.
 *
 * `participantId` identifies one join (a session); when the same identity joins again, it gets another participantId.
 */
import type { FlightDump } from "./media/flight.ts";
import type { NodeFiles } from "./media/node-files.ts";
import type { NodeLoad } from "./media/node-load.ts";
import type { RecordedFeed, RecordedFile, RecordedPart, RecordingRef, StartRecording } from "./media/recording.ts";
import type {
  LinkCondition,
  LinkPoint,
  LinkRef,
  OpenedLink,
  RelayCall,
  RelayedData,
  RelayedTrack,
  RelayedTrackRef,
} from "./media/relay.ts";
import type { NetworkProfile } from "./playground.ts";
import type { Layer, Permissions, Quality, Speaker, Track } from "./room-records.ts";
import type {
  BackupCodec,
  DataDropReason,
  DeliveryReason,
  PublishedSection,
  SubscribedSection,
  SubscriptionChange,
} from "./signaling.ts";

export type RoomRef = { roomId: string };
export type ParticipantRef = RoomRef & { participantId: string };
type TrackRef = ParticipantRef & { trackId: string };

export type OpenRoom = RoomRef & {
  /** How many of the loudest speakers are forwarded; 6 by default. */
  audibleVoices?: number;
};

export type AddParticipant = ParticipantRef & {
  identity: string;
  permissions: Permissions;
  /** Opaque data of the caller, which a remote node keeps and returns after a restart of the caller. */
  record?: string;
  /** The participant belongs to no session, so `room` and `rooms` leave it out. */
  unlisted?: true;
  /** May send text for other participants, such as what they have said. */
  agent?: boolean;
};

/** A gateway may choose the track's id before any media arrives. */
export type NamedSection = PublishedSection & { trackId?: string };

/** `stream` is the `a=msid` of the track in the answer; by default it depends on the section's position. */
export type PlacedSection = SubscribedSection & { stream?: string };

export type Negotiate = ParticipantRef & {
  /** The client's offer, uncompressed. */
  sdp: string;
  iceRestart?: boolean;
  /**
   * `receive`: a second connection, on which this participant receives all media from then on; the first continues to
   * send media and carries data. The certificate may be part of a later offer: until then no DTLS handshake is
   * answered.
   */
  connection?: "receive";
  /** Receiving sections without a track are answered as inactive; when reactivated, a section has another SSRC. */
  idleInactive?: boolean;
  /** A LiveKit client: it receives data on data channels only, and reliable data waits until they are open. */
  data?: "packets";
  /**
   * All tracks that the connection sends. Omitted (WHIP): every sending section is published, as microphone and camera.
   */
  publish?: NamedSection[];
  /**
   * All tracks that the connection receives. Omitted (WHEP): the receiving sections are filled with the tracks of the
   * room, in the order they were published, and filled again when tracks are published or unpublished.
   */
  subscribe?: PlacedSection[];
  /**
   * The receiving sections on which the loudest microphones are delivered, except for those that `subscribe` has, and
   * those whose subscription was ended or is not allowed.
   */
  voices?: { mids: string[]; except: string[] };
};

export type NegotiateAnswer = {
  sdp: string;
  tracks: { clientTrackId: string; trackId: string }[];
};

type UpdateSubscriptions = ParticipantRef & { tracks: SubscriptionChange[] };

export type SendData = RoomRef & {
  /** The sender's identity; null for data from a backend (REST). */
  from: string | null;
  topic?: string;
  /**
   * The recipients' identities; omitted for all participants that may receive data. The sender never receives its own
   * data.
   */
  to?: string[];
  payload: string;
  /**
   * The payload is bytes in base64, as LiveKit's server API sends them; our own clients receive the bytes if they are
   * text.
   */
  encoding?: "base64";
  /** The message may be lost, and is not sent again. */
  lossy?: boolean;
  /**
   * Asks the one participant in `to`, by RPC in the format of LiveKit; acknowledgement and response arrive as
   * `requestAnswered`. The payload is text.
   */
  request?: { id: string; method: string; timeoutMs: number };
  /** The id by which LiveKit's clients recognize a repeated message; base64. */
  nonce?: string;
};

export type SetNetwork = RoomRef & { identity: string; profile: NetworkProfile };

/** How a participant's packets reach the server: directly, or through its TURN relay. */
export type MediaTransport = "udp" | "tcp" | "relay";

/** The current state of a participant's transport; null means unknown. */
export type TransportStats = {
  transport: MediaTransport | null;
  remoteAddress: string | null;
  srtpProfile: string | null;
  rttMs: number | null;
  jitterMs: number | null;
  /**
   * The loss that determines the quality: the higher one of both directions. From the participant, it is the loss after
   * retransmission.
   */
  packetLossPercent: number | null;
  /** The loss on the path from the participant (uplink) and to it (downlink), before retransmission. */
  uplinkLossPercent: number | null;
  downlinkLossPercent: number | null;
  /** The estimated bandwidth to this participant, in bits per second. */
  availableOutBps: number | null;
  /**
   * The participant receives less than it subscribed to, because of insufficient bandwidth; absent from nodes of an
   * older version.
   */
  heldBack?: boolean;
  /** How long packets of the participant wait before they are forwarded; absent from nodes of an older version. */
  uplinkWaitMs?: number | null;
  /** The CPU load of the node during the measurement; absent from nodes of an older version. */
  serverBusyPercent?: number | null;
  /** The participant receives tracks of other nodes or workers; absent from nodes of an older version. */
  usesLinks?: boolean;
  bytesIn: number;
  bytesOut: number;
};

export type MediaState = "new" | "connecting" | "connected" | "disconnected" | "failed";

export type ParticipantSnapshot = {
  participantId: string;
  identity: string;
  record?: string;
  state: MediaState;
  permissions: Permissions;
  quality: Quality | null;
  tracks: Track[];
  subscriptions: { trackId: string; mid: string; layer: Layer | null; paused: boolean }[];
  transport: TransportStats;
  /** The sequence number of the last reliable message, for clients that number their messages. */
  lastDataSequence?: number;
};

export type RoomSnapshot = { roomId: string; participants: ParticipantSnapshot[] };

/** Why the media of a participant failed. */
export type MediaFailure = "consent_timeout" | "ice_timeout" | "dtls_failed" | "dtls_closed" | "worker_crashed";

type OfParticipant = ParticipantRef & { identity: string };

export type MediaEvent =
  /** ICE and DTLS are connected; `connectMs` counts from the participant's first offer. */
  | (OfParticipant & {
      type: "participantConnected";
      transport: MediaTransport;
      remoteAddress: string;
      connectMs: number;
    })
  /** No authentic connectivity check, packet or report for 15 s: the client is silent, but its media stays. */
  | (OfParticipant & { type: "participantDisconnected"; reason: MediaFailure })
  /** Packets of the client arrived again after `participantDisconnected`, or an ICE restart was completed. */
  | (OfParticipant & { type: "participantReconnected"; transport: MediaTransport; remoteAddress: string })
  /**
   * 30 s of silence, 15 s without a first connectivity check, or a failed handshake. The participant's tracks stay
   * until it is removed: after a silence an offer with `iceRestart` reconnects it; after a failed handshake, only an
   * offer of a new peer connection does.
   */
  | (OfParticipant & { type: "participantFailed"; reason: MediaFailure })
  /** Each state of the transport, for connection records. */
  | (OfParticipant & {
      type: "iceStateChanged";
      state: "new" | "checking" | "connected" | "disconnected" | "failed" | "closed";
    })
  | (OfParticipant & { type: "dtlsStateChanged"; state: "new" | "connecting" | "connected" | "failed" | "closed" })
  /** The first packet of a published track was authenticated; the track is now announced to the room. */
  | (OfParticipant & { type: "trackPublished"; track: Track })
  /** The track was unpublished, is no longer in the offer, is no longer permitted, or its publisher is gone. */
  | (OfParticipant & { type: "trackUnpublished"; trackId: string })
  | (OfParticipant & { type: "trackMuted"; trackId: string })
  | (OfParticipant & { type: "trackUnmuted"; trackId: string })
  /** The speakers, loudest first; sent at most 4 times a second to all participants of the room. */
  | (RoomRef & { type: "speakersChanged"; speakers: Speaker[] })
  /** Sent to the publisher: no subscriber receives the layers that are missing from the list. */
  | (OfParticipant & { type: "layersWanted"; trackId: string; layers: Layer[] })
  /** Sent to the publisher: what viewers that cannot decode the track's codec could decode; empty when there are none. */
  | (OfParticipant & { type: "codecsWanted"; trackId: string; codecs: BackupCodec[] })
  /** Sent to the subscriber: the layer that is delivered; null while there is none. */
  | (OfParticipant & {
      type: "subscriptionChanged";
      trackId: string;
      layer: Layer | null;
      paused: boolean;
      reason: DeliveryReason;
    })
  | (RecordingRef & { type: "recordingFileStarted"; file: RecordedFile })
  /** The file is complete and on disk. */
  | (RecordingRef & { type: "recordingFileEnded"; file: RecordedFile })
  /** The current state of the files that are being written, every 2 s. */
  | (RecordingRef & { type: "recordingProgress"; files: RecordedFile[] })
  | (RecordingRef & { type: "recordingPart"; part: RecordedPart })
  | (RecordingRef & { type: "recordingFeed"; feed: RecordedFeed })
  /** The codec of a track that HLS does not support. */
  /** The track is end-to-end encrypted, so it is not recorded. */
  | (RecordingRef & { type: "recordingTrackOmitted"; identity: string; trackId: string })
  | (RecordingRef & { type: "recordingNotStreamable"; identity: string; codec: RecordedFile["codec"] })
  /** The disk is too slow and frames are skipped. Sent once. */
  | (RecordingRef & { type: "recordingSlow" })
  /** The recording was stopped, or its room was closed: all files are on disk. */
  | (RecordingRef & { type: "recordingEnded" })
  /** The files cannot be written any more; the room stays open. */
  | (RecordingRef & { type: "recordingFailed"; reason: string })
  /** Sent to the subscriber: the identities on its sections for the loudest voices, by `mid`. */
  | (OfParticipant & { type: "voicesChanged"; voices: Record<string, string> })
  | (OfParticipant & { type: "qualityChanged"; quality: Quality })
  /**
   * Connectivity checks are answered, but neither packets nor reports arrive although some are expected; `mediaFlows`
   * ends this state.
   */
  | (OfParticipant & { type: "mediaStalled" })
  | (OfParticipant & { type: "mediaFlows" })
  /** Messages of the participant, or to it, that were not forwarded; `reader` did not get them. */
  | (OfParticipant & { type: "dataDropped"; messages: number; reason: DataDropReason; reader?: string })
  /** The participant has sent more than `reader` has received: this many bytes wait. */
  | (OfParticipant & { type: "dataBehind"; reader: string; bytes: number })
  /** As the two above, for the sender `from`, which is on another worker than the reader. */
  | (RoomRef & { type: "relayedDataDropped"; from: string; messages: number; reason: DataDropReason; reader: string })
  | (RoomRef & { type: "relayedDataBehind"; from: string; reader: string; bytes: number })
  /** A `DataPacket` in base64 with the acknowledgement of a request of the server, or its response. */
  | (OfParticipant & { type: "requestAnswered"; requestId: string; packet: string })
  /** Sent every 5 s for each connected participant. */
  | (OfParticipant & { type: "transportStats"; stats: TransportStats })
  /** Data for participants without an open data channel, which is delivered on their socket. */
  | (RoomRef & { type: "data"; from: string | null; topic?: string; payload: string; recipients: string[] })
  /**
   * The worker of these rooms crashed and was restarted, or the whole node was lost (null): the rooms and participants are
   * gone, and their clients must rejoin. A room that `remains` was on other workers too and has lost only these participants;
   * `recordingEnds` when the lost worker recorded it.
   */
  | {
      type: "workerCrashed";
      worker: number | null;
      rooms: { roomId: string; participantIds: string[]; remains?: boolean; recordingEnds?: boolean }[];
    }
  | RelayEvent
  /** A remote node was reached for the first time, and had these rooms and links already open. */
  | { type: "roomsFound"; rooms: RoomSnapshot[]; links: OpenedLink[] };

/** What a worker tells the other workers of its node, or the other nodes of a room. */
export type RelayEvent =
  | (LinkRef & LinkCondition & { type: "linkChanged" })
  | { type: "relayOffered"; track: RelayedTrack }
  | (RelayedTrackRef & { type: "relayMuted"; muted: boolean })
  | (RelayedTrackRef & { type: "relayEnded" })
  | { type: "relayData"; data: RelayedData };

export const MEDIA_ERROR_CODES = [
  "ROOM_NOT_FOUND",
  "PARTICIPANT_NOT_FOUND",
  "TRACK_NOT_FOUND",
  "PERMISSION_DENIED",
  "NEGOTIATION_FAILED",
  "PAYLOAD_TOO_LARGE",
  "RATE_LIMITED",
  "RECORDING_RUNS",
  "RTC_SERVER_UNREACHABLE",
] as const;
export type MediaErrorCode = (typeof MEDIA_ERROR_CODES)[number];

/** The only error that a MediaNode throws intentionally; code and message are sent to the client. */
export class MediaError extends Error {
  constructor(
    readonly code: MediaErrorCode,
    message: string,
  ) {
    super(message);
    this.name = "MediaError";
  }
}

/** The IP addresses of a node's media for clients, and the ports of its workers. */
export type MediaEndpoints = { announce: readonly string[]; ports: readonly number[] };

/**
 * The media endpoints that a media node on another machine announces, and the IP addresses of its internalUrl, at which
 * it responds.
 */
export type NodeEndpoints = MediaEndpoints & { answersAt: readonly string[] };

export interface MediaNode {
  /** Set for a remote node only, which continues without this process. */
  readonly remote?: {
    readonly connected: boolean;
    readonly files: NodeFiles;
    readonly links: boolean;
    /** It writes recordings into the folders of this process; other nodes keep them until they are downloaded. */
    readonly sharesDisk: boolean;
    /** The time since something was last received from the node. */
    readonly silentMs: number;
  };
  /** Opens the room on a worker; it spreads over more while it is large. Opening an open room has no effect. */
  openRoom(room: OpenRoom): Promise<void>;
  /** Ends all media of the room without events for its participants. Has no effect for an unknown room. */
  closeRoom(room: RoomRef): Promise<void>;
  /** Adds a participant without media, which `negotiate` adds. For a known participantId only the record is changed. */
  addParticipant(participant: AddParticipant): Promise<void>;
  /**
   * Closes the participant's transport and unpublishes its tracks, with `trackUnpublished`. Has no effect for an
   * unknown participant.
   */
  removeParticipant(participant: ParticipantRef): Promise<void>;
  /**
   * The change applies at once: tracks that are no longer permitted are unpublished or unsubscribed, and data is
   * dropped.
   */
  setPermissions(change: ParticipantRef & { permissions: Permissions }): Promise<void>;
  /** Answers an offer. Requests for one participant run one after another. */
  negotiate(offer: Negotiate): Promise<NegotiateAnswer>;
  /** Moves tracks to existing sections, pauses them, or changes their size, without an offer. */
  updateSubscriptions(change: UpdateSubscriptions): Promise<void>;
  /**
   * A muted track is not forwarded, even if its client sends. The change is reported with `trackMuted` and
   * `trackUnmuted`.
   */
  setTrackMuted(change: TrackRef & { muted: boolean }): Promise<void>;
  /** Stops the track; its section stays and can be used again. */
  unpublish(track: TrackRef): Promise<void>;
  /** Sends over the data channels that are open. For recipients without one, the event `data` is emitted. */
  sendData(data: SendData): Promise<void>;
  /**
   * Records the tracks of the room from now on, one recording at a time. Starting the same recording again has no
   * effect.
   */
  startRecording(recording: StartRecording): Promise<void>;
  /**
   * Stops a recording; `recordingEnded` follows when its files are complete. Has no effect for an unknown recording.
   */
  stopRecording(recording: RecordingRef): Promise<void>;
  /** Simulates a bad network for all participants with that identity, even after a rejoin; for development. */
  setNetwork(change: SetNetwork): Promise<void>;
  /**
   * Assumes that the path to the participant carries no more than this, until it leaves; null for what the estimate says.
   * Nothing is dropped: layers are chosen that fit, and videos that do not fit are paused.
   */
  limitDownlink(change: ParticipantRef & { bitsPerSecond: number | null }): Promise<void>;
  /** The last seconds of a participant's packets, without content. Null for an unknown participant. */
  flight(participant: ParticipantRef): Promise<FlightDump | null>;
  /** Where links to the other nodes of the room end. */
  linkPoint(room: RoomRef): Promise<LinkPoint>;
  /** Takes part in sharing a room with other nodes. */
  relay(call: RelayCall): Promise<void>;
  /** The current media of a room. Null for a room that is not open on this node. */
  room(room: RoomRef): Promise<RoomSnapshot | null>;
  /** The open rooms with their number of participants. */
  rooms(): Promise<{ roomId: string; participants: number }[]>;
  load(): Promise<NodeLoad>;
  /** Emits events in the order in which they occurred. Returns a function that unsubscribes. */
  onEvent(listener: (event: MediaEvent) => void): () => void;
  /** Closes every room and its sockets; for a remote node only the connection to it. */
  close(): Promise<void>;
}

/** The methods with one argument and one result, which a Worker or a remote node handles. */
export type MediaMethod = Exclude<keyof MediaNode, "onEvent" | "close" | "remote">;
export type MediaRequest<M extends MediaMethod> = Parameters<MediaNode[M]>[0];
export type MediaResponse<M extends MediaMethod> = Awaited<ReturnType<MediaNode[M]>>;

export const MEDIA_METHODS = Object.keys({
  openRoom: true,
  closeRoom: true,
  addParticipant: true,
  removeParticipant: true,
  setPermissions: true,
  negotiate: true,
  updateSubscriptions: true,
  setTrackMuted: true,
  unpublish: true,
  sendData: true,
  startRecording: true,
  stopRecording: true,
  setNetwork: true,
  limitDownlink: true,
  flight: true,
  linkPoint: true,
  relay: true,
  room: true,
  rooms: true,
  load: true,
} satisfies Record<MediaMethod, true>) as readonly MediaMethod[];
