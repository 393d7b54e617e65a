import type { Caption } from "../../../src/protocol/data/captions.ts";
import type { DataMessage } from "../../../src/protocol/data/room-data.ts";
import type { EncryptionOptions } from "../../../src/protocol/encryption/key-provider.ts";
import type { CallVerdict, Knock, Permissions, Quality, RoomState } from "../../../src/protocol/room-records.ts";
import type { ConnectionState, TokenProvider, WaitingListener } from "../connection-state.ts";
import type { StoaError } from "../errors.ts";
import type { LocalTrack } from "./local-track.ts";
import type { RemoteParticipant, RemoteTrack } from "./remote-participant.ts";

/** Options for `connect`. */
export type RoomOptions = {
  /** Renews the token; without it the room cannot be joined again after the token has expired. */
  tokenProvider?: TokenProvider;
  /** Called when the first connection is rate limited and has to wait. */
  onWaiting?: WaitingListener;
  /** Called when the participant waits in the room's lobby: `connect` resolves when a host or your backend admits them. */
  onLobby?: () => void;
  /** Leaves the room, or ends the attempt to join it, for instance because the user does not want to wait in the lobby. */
  signal?: AbortSignal;
  /** Whether to subscribe to every published track; true by default. */
  autoSubscribe?: boolean;
  /**
   * Which other participants `room.participants` has: `all`, those who publish (`publishers`), or the same without their
   * quality and, with more than 50 participants, without active speakers (`none`). By default `all` in a room of up to 50
   * participants, `publishers` in a larger one, and `none` for viewers of a live stream.
   */
  roster?: "all" | "publishers" | "none";
  /**
   * Whether microphones beyond the first six take turns on shared receivers, the loudest first; by default if `roster` is
   * not `all`. Not for encrypted calls. A track with `setSubscribed(true)` has a receiver of its own.
   */
  sharedVoices?: boolean;
  /** Whether to play remote audio automatically; true by default. */
  playAudio?: boolean;
  /** Whether to send media only through the TURN relay, which is slower; use it to test the relay. */
  relayOnly?: boolean;
  /** Whether to report connection events to the server for its timeline; true by default. */
  telemetry?: boolean;
  /** Encrypts all media end to end: the server forwards it without being able to read it. */
  encryption?: EncryptionOptions;
};

/** A participant that waits in the lobby. */
/** What hosts and your backend decide about the room. */
/** A participant as `room.listParticipants` describes it. */
export type { Knock, Participant as ParticipantRecord, RoomState } from "../../../src/protocol/room-records.ts";
/** A page of all participants; `next` is the `after` of the next page, and null on the last one. */
export type { ParticipantsAck as ParticipantPage } from "../../../src/protocol/signaling.ts";

/** The events of a room and their arguments; listen with `room.on(name, …)`. */
export type RoomEvents = {
  /** The connection state has changed; `error` is the cause, if there is one. */
  connectionStateChanged: [state: ConnectionState, error: StoaError | null];
  participantJoined: [participant: RemoteParticipant];
  /** A participant has left; `reason` is `left`, `timeout`, `removed`, … */
  participantLeft: [participant: RemoteParticipant, reason: string];
  /** A participant's metadata, name or attributes have changed. */
  participantUpdated: [participant: RemoteParticipant];
  /** This participant's metadata, name or attributes may have changed. */
  localParticipantUpdated: [];
  /** A participant has published a track; the room subscribes to it unless `autoSubscribe` is false. */
  trackPublished: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnpublished: [track: RemoteTrack, participant: RemoteParticipant];
  /** A track's media can be played now: call `track.attach()`. */
  trackSubscribed: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnsubscribed: [track: RemoteTrack, participant: RemoteParticipant];
  trackMuted: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnmuted: [track: RemoteTrack, participant: RemoteParticipant];
  /** The server sends another layer of a track: see `track.delivered`. */
  subscriptionChanged: [track: RemoteTrack];
  /** The key of an encrypted track has arrived, or turned out to be wrong: see `track.decryption`. */
  decryptionChanged: [track: RemoteTrack];
  /** Someone has joined or left while the participants agree on keys: see `room.safetyNumber`. */
  safetyNumberChanged: [number: string | null];
  /** The local participant has published a track. */
  localTrackPublished: [track: LocalTrack];
  localTrackUnpublished: [track: LocalTrack];
  /** A local track was muted, by the local participant or by the server. */
  localTrackMuted: [track: LocalTrack];
  localTrackUnmuted: [track: LocalTrack];
  /** The active speakers have changed, loudest first; emitted at most four times a second. */
  activeSpeakersChanged: [speakers: { identity: string; level: number }[]];
  /** A participant's connection quality has changed; this includes the local participant. */
  qualityChanged: [quality: Quality, identity: string];
  /** The cause of the local participant's call quality has changed: a sentence to show, and the measurements behind it. */
  qualityExplained: [verdict: CallVerdict];
  /** Recording has started or stopped: see `room.recording`. */
  recordingChanged: [active: boolean];
  /** For hosts, on each join too: who waits in the lobby; see `room.lobby`. */
  lobbyChanged: [waiting: readonly Knock[]];
  /** What hosts or your backend have decided about the room, on each join too: see `room.roomState`. */
  roomStateChanged: [state: RoomState];
  /** Your backend has moved the local participant to another room: `room.id`, `room.name` and `room.participants` describe that one. */
  moved: [room: { id: string; name: string }];
  /** Your backend has changed the local participant's permissions. */
  permissionsChanged: [permissions: Permissions];
  dataReceived: [message: DataMessage];
  /** Speech as text, from an agent or another participant; a caption replaces the earlier one with the same id. */
  caption: [caption: Caption];
  /**
   * Data messages of the local participant were dropped; emitted at most once a second. With `slow_reader`, the participant
   * `identity` has read so little that it did not get them, or was left out of a stream. It is told too, with its own identity.
   * With `text_only`, they were bytes, and the client of `identity` reads text only.
   * With `not_encrypted` or `undecryptable`, `identity` sent them, in a call that this page encrypts.
   */
  dataDropped: [
    dropped: {
      messages: number;
      reason:
        | ("rate_limited" | "permission_denied" | "invalid" | "slow_reader" | "text_only")
        | ("not_encrypted" | "undecryptable");
      identity?: string;
      topic?: string;
    },
  ];
  /** The browser blocks audio until the user interacts with the page: call `room.startAudio()` from a click handler. */
  audioBlocked: [];
  /** An operation failed in the background. */
  error: [error: StoaError];
};

/** The room event for each change of a local track. */
export const LOCAL_EVENTS = {
  published: "localTrackPublished",
  unpublished: "localTrackUnpublished",
  muted: "localTrackMuted",
  unmuted: "localTrackUnmuted",
} as const;
