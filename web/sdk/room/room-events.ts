import type { Permissions, Quality } from "../../../src/protocol/room-records.ts";
import type { ConnectionState, TokenProvider } from "../connection-state.ts";
import type { StoaError } from "../errors.ts";
import type { DataMessage } from "./data.ts";
import type { LocalTrack } from "./local-track.ts";
import type { RemoteParticipant } from "./remote-participant.ts";
import type { RemoteTrack } from "./remote-track.ts";

export type RoomOptions = {
  tokenProvider?: TokenProvider;
  /** Receive every track that is published; on by default. */
  autoSubscribe?: boolean;
  /** Play the others' sound without an element of yours; on by default. */
  playAudio?: boolean;
  /** Tell the server how the connection fares, for its timeline; on by default. */
  telemetry?: boolean;
};

export type RoomEvents = {
  connectionStateChanged: [state: ConnectionState, error: StoaError | null];
  participantJoined: [participant: RemoteParticipant];
  participantLeft: [participant: RemoteParticipant, reason: string];
  participantUpdated: [participant: RemoteParticipant];
  trackPublished: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnpublished: [track: RemoteTrack, participant: RemoteParticipant];
  trackSubscribed: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnsubscribed: [track: RemoteTrack, participant: RemoteParticipant];
  trackMuted: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnmuted: [track: RemoteTrack, participant: RemoteParticipant];
  subscriptionChanged: [track: RemoteTrack];
  localTrackPublished: [track: LocalTrack];
  localTrackUnpublished: [track: LocalTrack];
  localTrackMuted: [track: LocalTrack];
  localTrackUnmuted: [track: LocalTrack];
  activeSpeakersChanged: [speakers: { identity: string; level: number }[]];
  qualityChanged: [quality: Quality, identity: string];
  permissionsChanged: [permissions: Permissions];
  dataReceived: [message: DataMessage];
  /** The browser wants a click before it plays sound: call `room.startAudio()` from one. */
  audioBlocked: [];
  error: [error: StoaError];
};

/** What a local track's changes are called in a room. */
export const LOCAL_EVENTS = {
  published: "localTrackPublished",
  unpublished: "localTrackUnpublished",
  muted: "localTrackMuted",
  unmuted: "localTrackUnmuted",
} as const;
