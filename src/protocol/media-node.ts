/**
 * The seam between signaling and the packets. Every method takes one plain object and answers with one, so that a call
 * travels unchanged to a Worker of this process or, as JSON, to a node on another machine.
 *
 * `participantId` names one join (a session); the same identity that joins again is another participantId.
 */
import type { FlightDump } from "./media/flight.ts";
import type { NodeFiles } from "./media/node-files.ts";
import type { NodeLoad } from "./media/node-load.ts";
import type { RecordedFeed, RecordedFile, RecordedPart, RecordingRef, StartRecording } from "./media/recording.ts";
import type { NetworkProfile } from "./playground.ts";
import type { Layer, Permissions, Quality, Speaker, Track } from "./room-records.ts";
import type {
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
  /** How many of the loudest voices are forwarded; 6 unless given. */
  audibleVoices?: number;
};

export type AddParticipant = ParticipantRef & {
  identity: string;
  permissions: Permissions;
  /** What whoever adds it wants to find again after a restart of its own; a node on another machine keeps it. */
  record?: string;
};

/** Whoever speaks for the client may name the track itself, before any media comes. */
export type NamedSection = PublishedSection & { trackId?: string };

/** `stream`: what the answer calls the track, as `a=msid` has it; else by the section's position. */
export type PlacedSection = SubscribedSection & { stream?: string };

export type Negotiate = ParticipantRef & {
  /** The client's offer, plain. */
  sdp: string;
  iceRestart?: boolean;
  /**
   * `receive`: a second connection, on which this participant gets everything from then on; the first goes on to send and
   * carries data. Its certificate may be named by a later offer: until then no handshake is answered.
   */
  connection?: "receive";
  /** Receiving sections without a track are answered inactive; one that was comes back under another SSRC. */
  idleInactive?: boolean;
  /** A client of LiveKit's: it gets data on its channels alone, and what is reliable waits until they are open. */
  data?: "packets";
  /**
   * The whole of what the connection sends. Omitted (WHIP): every sending section is published, as microphone and camera.
   */
  publish?: NamedSection[];
  /**
   * The whole of what the connection receives. Omitted (WHEP): the receiving sections are filled with the tracks of the
   * room, in the order they were published, and refilled as tracks come and go.
   */
  subscribe?: PlacedSection[];
};

export type NegotiateAnswer = {
  sdp: string;
  tracks: { clientTrackId: string; trackId: string }[];
};

type UpdateSubscriptions = ParticipantRef & { tracks: SubscriptionChange[] };

export type SendData = RoomRef & {
  /** Identity of the sender; null when the server itself speaks (REST). */
  from: string | null;
  topic?: string;
  /** Identities; everyone who may receive when omitted. The sender never gets its own. */
  to?: string[];
  payload: string;
};

export type SetNetwork = RoomRef & { identity: string; profile: NetworkProfile };

/** How a participant's packets come: by themselves, or through the relay of the edge. */
export type MediaTransport = "udp" | "tcp" | "relay";

/** What a participant's transport looks like right now; null is unknown. */
export type TransportStats = {
  transport: MediaTransport | null;
  remoteAddress: string | null;
  srtpProfile: string | null;
  rttMs: number | null;
  jitterMs: number | null;
  /** The worse of the two below. */
  packetLossPercent: number | null;
  /** From the participant, and towards it. */
  uplinkLossPercent: number | null;
  downlinkLossPercent: number | null;
  /** Estimated room towards this participant, in bits per second. */
  availableOutBps: number | null;
  /** It gets less than it wants to see, because no more fits; left out by nodes of an older version. */
  heldBack?: boolean;
  /** How long packets from it wait before they leave; left out by nodes of an older version. */
  uplinkWaitMs?: number | null;
  /** How busy the server that measured it was meanwhile; left out by nodes of an older version. */
  serverBusyPercent?: number | null;
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
  /** The number of the last reliable message, of clients that number them. */
  lastDataSequence?: number;
};

export type RoomSnapshot = { roomId: string; participants: ParticipantSnapshot[] };

/** Why media of a participant went away. */
export type MediaFailure = "consent_timeout" | "ice_timeout" | "dtls_failed" | "dtls_closed" | "worker_crashed";

type Of = ParticipantRef & { identity: string };

export type MediaEvent =
  /** ICE and DTLS are up; `connectMs` runs from the participant's first offer. */
  | (Of & { type: "participantConnected"; transport: MediaTransport; remoteAddress: string; connectMs: number })
  /** No authentic check, packet or report for 15 s: the client is silent, its media is kept. */
  | (Of & { type: "participantDisconnected"; reason: MediaFailure })
  /** A sign of life arrived again after `participantDisconnected`, or an ICE restart was completed. */
  | (Of & { type: "participantReconnected"; transport: MediaTransport; remoteAddress: string })
  /**
   * 30 s of silence, 15 s without a first check, or a failed handshake. Its tracks stay until it is removed: after a silence an offer with `iceRestart`
   * brings it back, after a failed handshake only one of a new peer connection does.
   */
  | (Of & { type: "participantFailed"; reason: MediaFailure })
  /** For observability: each step of the transport. */
  | (Of & { type: "iceStateChanged"; state: "new" | "checking" | "connected" | "disconnected" | "failed" | "closed" })
  | (Of & { type: "dtlsStateChanged"; state: "new" | "connecting" | "connected" | "failed" | "closed" })
  /** The first packet of a published track was authenticated: from here on it is announced to the room. */
  | (Of & { type: "trackPublished"; track: Track })
  /** Unpublished, no longer in the offer, not permitted any more, or its publisher is gone. */
  | (Of & { type: "trackUnpublished"; trackId: string })
  | (Of & { type: "trackMuted"; trackId: string })
  | (Of & { type: "trackUnmuted"; trackId: string })
  /** Loudest first; at most 4 a second. For everyone in the room. */
  | (RoomRef & { type: "speakersChanged"; speakers: Speaker[] })
  /** For the publisher: nobody watches the layers that are missing here. */
  | (Of & { type: "layersWanted"; trackId: string; layers: Layer[] })
  /** For the subscriber: what is really delivered; `layer` is null while nothing is. */
  | (Of & {
      type: "subscriptionChanged";
      trackId: string;
      layer: Layer | null;
      paused: boolean;
      reason: DeliveryReason;
    })
  | (RecordingRef & { type: "recordingFileStarted"; file: RecordedFile })
  /** Complete and on disk. */
  | (RecordingRef & { type: "recordingFileEnded"; file: RecordedFile })
  /** Every 2 s: the files that are being written, as they stand. */
  | (RecordingRef & { type: "recordingProgress"; files: RecordedFile[] })
  | (RecordingRef & { type: "recordingPart"; part: RecordedPart })
  | (RecordingRef & { type: "recordingFeed"; feed: RecordedFeed })
  /** A track that no live stream can carry as it is: its codec. */
  | (RecordingRef & { type: "recordingNotStreamable"; identity: string; codec: RecordedFile["codec"] })
  /** The disk cannot keep up: frames are left out. Said once. */
  | (RecordingRef & { type: "recordingSlow" })
  /** Stopped, or its room was closed: everything is on disk. */
  | (RecordingRef & { type: "recordingEnded" })
  /** The files cannot be written any more; the room goes on. */
  | (RecordingRef & { type: "recordingFailed"; reason: string })
  | (Of & { type: "qualityChanged"; quality: Quality })
  /** It answers, but brings neither packets nor reports although some are due; then that this is over. */
  | (Of & { type: "mediaStalled" })
  | (Of & { type: "mediaFlows" })
  /** Messages on its data channels that were not passed on. */
  | (Of & { type: "dataDropped"; messages: number; reason: DataDropReason })
  /** Every 5 s per connected participant. */
  | (Of & { type: "transportStats"; stats: TransportStats })
  /** Data for participants without an open data channel: deliver it on their socket. */
  | (RoomRef & { type: "data"; from: string | null; topic?: string; payload: string; recipients: string[] })
  /**
   * The worker of these rooms died and was started anew, or the whole node was lost (null): rooms and participants are
   * gone, their clients must rejoin.
   */
  | { type: "workerCrashed"; worker: number | null; rooms: { roomId: string; participantIds: string[] }[] }
  /** A node on another machine was reached for the first time, and these rooms were going on there all along. */
  | { type: "roomsFound"; rooms: RoomSnapshot[] };

export type MediaErrorCode =
  | "ROOM_NOT_FOUND"
  | "PARTICIPANT_NOT_FOUND"
  | "TRACK_NOT_FOUND"
  | "PERMISSION_DENIED"
  | "NEGOTIATION_FAILED"
  | "PAYLOAD_TOO_LARGE"
  | "RATE_LIMITED"
  | "RECORDING_RUNS"
  | "RTC_SERVER_UNREACHABLE";

/** The only error a MediaNode throws on purpose; code and message travel over the wire. */
export class MediaError extends Error {
  constructor(
    readonly code: MediaErrorCode,
    message: string,
  ) {
    super(message);
    this.name = "MediaError";
  }
}

/** Where clients reach a node's media: addresses of candidates, and the ports of its workers. */
export type MediaPlaces = { announce: readonly string[]; ports: readonly number[] };

export interface MediaNode {
  /** Only of a node on another machine, which goes on without this process. */
  readonly remote?: { readonly connected: boolean; readonly files: NodeFiles };
  /** Makes the room known and pins it to a worker. Again for an open room: no effect. */
  openRoom(room: OpenRoom): Promise<void>;
  /** Ends all media of the room; nothing is announced for its participants. An unknown room: no effect. */
  closeRoom(room: RoomRef): Promise<void>;
  /** A participant without media; `negotiate` brings it. The same participantId again: only its record changes. */
  addParticipant(participant: AddParticipant): Promise<void>;
  /** Closes its transport and unpublishes its tracks (announced as `trackUnpublished`). Unknown: no effect. */
  removeParticipant(participant: ParticipantRef): Promise<void>;
  /** Live: what is no longer permitted is unpublished, unsubscribed, or no longer relayed. */
  setPermissions(change: ParticipantRef & { permissions: Permissions }): Promise<void>;
  /** Answers an offer. Calls for one participant are served one after another. */
  negotiate(offer: Negotiate): Promise<NegotiateAnswer>;
  /** Moves tracks onto sections that exist, pauses them, or says what size is shown; no offer needed. */
  updateSubscriptions(change: UpdateSubscriptions): Promise<void>;
  /** A muted track is not forwarded, whatever its client sends. Announced as `trackMuted` / `trackUnmuted`. */
  setTrackMuted(change: TrackRef & { muted: boolean }): Promise<void>;
  /** Stops the track; its section stays and can be published on again. */
  unpublish(track: TrackRef): Promise<void>;
  /** Over data channels where they are open; the rest comes back as the event `data`. */
  sendData(data: SendData): Promise<void>;
  /** Writes down what is published in the room from now on; one at a time. The same recording again: no effect. */
  startRecording(recording: StartRecording): Promise<void>;
  /** Ends it; `recordingEnded` follows when all its files are complete. An unknown one: no effect. */
  stopRecording(recording: RecordingRef): Promise<void>;
  /** For development: a bad network between the server and everyone of that identity, also after a rejoin. */
  setNetwork(change: SetNetwork): Promise<void>;
  /** The last seconds of a participant's packets, without content. Null for one that is not here. */
  flight(participant: ParticipantRef): Promise<FlightDump | null>;
  /** Everything about one room's media, now. Null for a room that is not open here. */
  room(room: RoomRef): Promise<RoomSnapshot | null>;
  /** Names of the open rooms with their number of participants. */
  rooms(): Promise<{ roomId: string; participants: number }[]>;
  load(): Promise<NodeLoad>;
  /** Events in the order they happened. Returns the unsubscribe function. */
  onEvent(listener: (event: MediaEvent) => void): () => void;
  /** Closes every room and its sockets; of a node on another machine only the connection to it. */
  close(): Promise<void>;
}

/** Methods that are a call with one argument and one answer: what a Worker or a remote node serves. */
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
  flight: true,
  room: true,
  rooms: true,
  load: true,
} satisfies Record<MediaMethod, true>) as readonly MediaMethod[];
