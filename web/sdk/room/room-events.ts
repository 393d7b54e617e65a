import type { CallVerdict, Permissions, Quality } from "../../../src/protocol/room-records.ts";
import type { ConnectionState, TokenProvider, WaitingListener } from "../connection-state.ts";
import type { StoaError } from "../errors.ts";
import type { LocalTrack } from "./local-track.ts";
import type { DataMessage } from "./peer/data.ts";
import type { RemoteParticipant, RemoteTrack } from "./remote-participant.ts";

/** For `connect`. */
export type RoomOptions = {
  /** Without one, a room that has to be joined anew after the token's end is lost. */
  tokenProvider?: TokenProvider;
  /** The server was asked too often and the first connection waits. */
  onWaiting?: WaitingListener;
  /** Receive every track that is published; on by default. */
  autoSubscribe?: boolean;
  /** Play the others' sound without an element of yours; on by default. */
  playAudio?: boolean;
  /** Media through the server's relay and no other way: slower, and only to find out whether that way works. */
  relayOnly?: boolean;
  /** Tell the server how the connection fares, for its timeline; on by default. */
  telemetry?: boolean;
};

/** What a room tells of, by name; listen with `room.on(name, …)`. */
export type RoomEvents = {
  /** `error` says why, unless all is well. */
  connectionStateChanged: [state: ConnectionState, error: StoaError | null];
  participantJoined: [participant: RemoteParticipant];
  /** `reason`: left, timeout, removed, … */
  participantLeft: [participant: RemoteParticipant, reason: string];
  /** Their metadata, name or attributes have changed. */
  participantUpdated: [participant: RemoteParticipant];
  /** Somebody publishes a track; it is subscribed by itself unless `autoSubscribe` is off. */
  trackPublished: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnpublished: [track: RemoteTrack, participant: RemoteParticipant];
  /** It can be shown now: `track.attach()`. */
  trackSubscribed: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnsubscribed: [track: RemoteTrack, participant: RemoteParticipant];
  trackMuted: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnmuted: [track: RemoteTrack, participant: RemoteParticipant];
  /** The server sends more or less of it: see `track.delivered`. */
  subscriptionChanged: [track: RemoteTrack];
  /** Of your own. */
  localTrackPublished: [track: LocalTrack];
  localTrackUnpublished: [track: LocalTrack];
  /** By you, or by the server. */
  localTrackMuted: [track: LocalTrack];
  localTrackUnmuted: [track: LocalTrack];
  /** Loudest first; at most four times a second. */
  activeSpeakersChanged: [speakers: { identity: string; level: number }[]];
  /** Of anybody's connection, your own included. */
  qualityChanged: [quality: Quality, identity: string];
  /** Why your own call is as it is, when the cause has changed: a sentence to show, and what it was measured by. */
  qualityExplained: [verdict: CallVerdict];
  /** The room is being recorded from now on, or no longer: see `room.recording`. */
  recordingChanged: [active: boolean];
  /** Your backend has changed what you may do. */
  permissionsChanged: [permissions: Permissions];
  dataReceived: [message: DataMessage];
  /** Messages of yours that were not passed on, and why; at most once a second. */
  dataDropped: [dropped: { messages: number; reason: "rate_limited" | "permission_denied" | "invalid" }];
  /** The browser wants a click before it plays sound: call `room.startAudio()` from one. */
  audioBlocked: [];
  /** Something failed that nobody waits for. */
  error: [error: StoaError];
};

/** What a local track's changes are called in a room. */
export const LOCAL_EVENTS = {
  published: "localTrackPublished",
  unpublished: "localTrackUnpublished",
  muted: "localTrackMuted",
  unmuted: "localTrackUnmuted",
} as const;
