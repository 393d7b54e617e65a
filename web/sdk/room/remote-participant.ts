import type { Participant, Quality } from "../../../src/protocol/room-records.ts";
import type { RemoteTrack } from "./remote-track.ts";

/** Somebody else in the room. */
export class RemoteParticipant {
  readonly identity: string;
  metadata: string | null;
  joinedAt: string;
  quality: Quality | null = null;
  /** 0 to 1; 0 unless among the active speakers. */
  audioLevel = 0;
  readonly tracks = new Map<string, RemoteTrack>();

  /** @internal */
  constructor({ identity, metadata, joinedAt }: Participant) {
    this.identity = identity;
    this.metadata = metadata;
    this.joinedAt = joinedAt;
  }

  get isSpeaking(): boolean {
    return this.audioLevel > 0;
  }

  /** The first track of a source: `participant.track("camera")`. */
  track(source: RemoteTrack["source"]): RemoteTrack | undefined {
    return [...this.tracks.values()].find((track) => track.source === source);
  }
}
