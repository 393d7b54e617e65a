import type { Caption } from "../../protocol/data/captions.ts";
import type { DataMessage } from "../../protocol/data/room-data.ts";
import type { EncryptionOptions } from "../../protocol/encryption/key-provider.ts";
import type { Decryption } from "../../protocol/encryption/room-keys.ts";

export type { Caption, CaptionOptions } from "../../protocol/data/captions.ts";
export type { DataMessage, DataOptions, SendFileOptions } from "../../protocol/data/room-data.ts";

export type Pcm = { samples: Int16Array; sampleRate: number; channels: 1 | 2 };

export type EncodedVideo = {
  codec: string;
  data: Uint8Array;
  keyframe: boolean;
  /** 0 unless the frame is a keyframe with a size. */
  width: number;
  height: number;
  /** The RTP timestamp, in 1/90,000 s. */
  timestamp: number;
};

export type NetworkFaults = {
  /** The share of lost packets in each direction, 0 … 1. */
  loss?: number;
  /** The additional delay in each direction. */
  delayMs?: number;
  /** The same seed drops the same packets. */
  seed?: number;
};

export type JoinOptions = {
  /** The name of this client in the server's connection records. */
  name?: string;
  /** Subscribes to all tracks of others; on by default. */
  autoSubscribe?: boolean;
  /** The other participants that it learns about; the server's default depends on the room's size. */
  roster?: "all" | "publishers" | "none";
  /** Subscribes to these kinds only. */
  receive?: ("audio" | "video")[];
  /** Simulates a bad network after the join; see `network()`. */
  network?: NetworkFaults;
  /** Called when the participant has to wait in a lobby. Without it, `join` fails with `IN_LOBBY`. */
  onLobby?: () => void;
  /** Ends the wait in the lobby. */
  signal?: AbortSignal;
  /** Encrypts all media and data end to end, with the keys of the other participants. */
  encryption?: EncryptionOptions;
};

export type RemoteTrack = {
  id: string;
  kind: "audio" | "video";
  source: "camera" | "microphone" | "screenShare" | "screenShareAudio" | "other";
  muted: boolean;
  /** Whether the track is end-to-end encrypted. */
  encrypted: boolean;
  /** Always `ok` for a track that is not encrypted; others are received only while it is `ok`. */
  decryption: Decryption;
};

export type RemoteParticipant = {
  identity: string;
  metadata: string | null;
  name: string | null;
  attributes: Readonly<Record<string, string>>;
  kind: "standard" | "agent" | "ingress" | "egress" | "sip" | "connector" | "bridge";
  joinedAt: string;
  tracks: readonly RemoteTrack[];
};

export type PublishedTrack = {
  id: string;
  kind: "audio" | "video";
  /** Resolves when the source has ended, or the track was stopped. */
  done: Promise<void>;
  /** Audio frames that were sent too late. */
  readonly late: number;
  mute(muted?: boolean): Promise<void>;
  stop(): Promise<void>;
};

export type AudioEvent = { identity: string; trackId: string } & Pcm;
export type VideoEvent = { identity: string; trackId: string } & EncodedVideo;

export type ParticipantEvents = {
  participantJoined: [participant: RemoteParticipant];
  participantLeft: [participant: RemoteParticipant, reason: string];
  participantUpdated: [participant: RemoteParticipant];
  trackPublished: [track: RemoteTrack, participant: RemoteParticipant];
  trackUnpublished: [track: RemoteTrack, participant: RemoteParticipant];
  /** The key of an encrypted track has arrived, or turned out to be wrong: see `track.decryption`. */
  decryptionChanged: [track: RemoteTrack, participant: RemoteParticipant];
  /** Someone has joined or left while the participants agree on keys: see `participant.safetyNumber`. */
  safetyNumberChanged: [number: string | null];
  /** Decoded audio of one track, usually 20 ms. */
  audio: [event: AudioEvent];
  /** One encoded video frame. */
  video: [event: VideoEvent];
  dataReceived: [message: DataMessage];
  /** Speech as text, from an agent or another participant; a caption replaces the earlier one with the same id. */
  caption: [caption: Caption];
  /**
   * Messages were dropped. With `slow_reader`, `identity` reads too slowly and did not get them; with `not_encrypted` or
   * `undecryptable`, `identity` sent them in a call that this participant encrypts.
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
  activeSpeakersChanged: [speakers: { identity: string; level: number }[]];
  reconnecting: [];
  reconnected: [];
  /** Your backend has moved the participant to another room, where it publishes what it published before. */
  moved: [room: { id: string; name: string }];
  /** The session has ended; `null` after `close()`. */
  closed: [error: Error | null];
  error: [error: Error];
};
