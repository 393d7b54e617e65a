import type { Participant, ParticipantKind, Quality } from "../../../src/protocol/room-records.ts";
import type { RemoteTrack } from "./remote-track.ts";

/** Somebody else in the room. */
export class RemoteParticipant {
  /** As their token names them: one in a room. */
  readonly identity: string;
  /** What is known of them beside their identity. */
  metadata: string | null;
  /** For people to read; null when their token names none. */
  name: string | null;
  /** What is known of them, by name; merged on a change. */
  attributes: Readonly<Record<string, string>>;
  /** A person or a program, an agent, or an encoder (`ingress`). */
  readonly kind: ParticipantKind;
  /** ISO 8601. */
  joinedAt: string;
  /** How their connection fares; null until it was measured. */
  quality: Quality | null = null;
  /** 0 to 1; 0 unless among the active speakers. */
  audioLevel = 0;
  /** What they publish, by track id. */
  readonly tracks = new Map<string, RemoteTrack>();

  /** @internal */
  constructor({ identity, metadata, name, attributes, kind, joinedAt }: Participant) {
    this.identity = identity;
    this.metadata = metadata;
    this.name = name;
    this.attributes = attributes;
    this.kind = kind;
    this.joinedAt = joinedAt;
  }

  /** Whether they are among the active speakers. */
  get isSpeaking(): boolean {
    return this.audioLevel > 0;
  }

  /** The first track of a source: `participant.track("camera")`. */
  track(source: RemoteTrack["source"]): RemoteTrack | undefined {
    return [...this.tracks.values()].find((track) => track.source === source);
  }
}
