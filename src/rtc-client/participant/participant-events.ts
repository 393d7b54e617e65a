export type Pcm = { samples: Int16Array; sampleRate: number; channels: 1 | 2 };

export type EncodedVideo = {
  codec: string;
  data: Uint8Array;
  keyframe: boolean;
  /** Of a keyframe that tells; 0 otherwise. */
  width: number;
  height: number;
  /** RTP timestamp, 90,000 a second. */
  timestamp: number;
};

export type NetworkFaults = {
  /** 0 … 1 of the packets, in each direction. */
  loss?: number;
  /** Added in each direction. */
  delayMs?: number;
  /** The same seed loses the same packets. */
  seed?: number;
};

export type JoinOptions = {
  /** What the server's records call this client. */
  name?: string;
  /** Receive what others publish; on by default. */
  autoSubscribe?: boolean;
  /** Only these kinds. */
  receive?: ("audio" | "video")[];
  /** A bad network from the moment of having joined; see `network()`. */
  network?: NetworkFaults;
};

export type RemoteTrack = {
  id: string;
  kind: "audio" | "video";
  source: "camera" | "microphone" | "screenShare" | "screenShareAudio" | "other";
  muted: boolean;
};

export type RemoteParticipant = {
  identity: string;
  metadata: string | null;
  name: string | null;
  attributes: Readonly<Record<string, string>>;
  kind: "standard" | "agent" | "ingress";
  joinedAt: string;
  tracks: readonly RemoteTrack[];
};

export type DataMessage = {
  /** Null when the server itself speaks. */
  from: string | null;
  topic?: string;
  payload: string;
};

export type SendOptions = { topic?: string; to?: string[] };

export type PublishedTrack = {
  id: string;
  kind: "audio" | "video";
  /** When the source is at its end, or the track was stopped. */
  done: Promise<void>;
  /** Frames of sound that left later than they should have. */
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
  /** 20 ms of somebody's sound, usually. */
  audio: [event: AudioEvent];
  /** One encoded picture. */
  video: [event: VideoEvent];
  dataReceived: [message: DataMessage];
  activeSpeakersChanged: [speakers: { identity: string; level: number }[]];
  reconnecting: [];
  reconnected: [];
  /** For good: `null` when it was asked for. */
  closed: [error: Error | null];
  error: [error: Error];
};
