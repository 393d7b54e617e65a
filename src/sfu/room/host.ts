/** What a participant and its two halves need of what is around them: the worker, the room, and the participant itself. */

import type { MediaEvent } from "../../protocol/media-node.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import type { Publication } from "../tracks/publication.ts";
import type { Connection, ConnectionHost } from "../transport/connection.ts";
import type { TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import type { SrtpRefusals } from "../wire/srtp/srtp.ts";

/** What a participant needs of the worker it lives on. */
export type ParticipantHost = ConnectionHost & {
  /** Values of `a=candidate`, for the answer. */
  candidates: readonly string[];
  fingerprint: { algorithm: string; value: string };
  /** Reads one report at a time, for whomever: it is too large to have one per viewer. */
  transportFeedback: TransportFeedback;
  /** What a closed connection had refused: the counts of the worker never go down. */
  retired(refusals: Partial<SrtpRefusals>): void;
  emit(event: MediaEvent): void;
  /** Something is to be asked of a publisher: it does not wait for its turn. */
  expediteFeedback(): void;
  newId(): string;
  /** How busy the worker was in the last seconds; null when nobody knows. */
  busyPercent(): number | null;
};

export type ParticipantIdentity = { roomId: string; participantId: string; identity: string };

/** The part of an event that says whom it is about. */
export type ParticipantEvent = Extract<MediaEvent, ParticipantIdentity>;
export type WithoutIdentity<T> = T extends unknown ? Omit<T, keyof ParticipantIdentity> : never;

/** The participant, to the half that sends and to the half that receives. */
export interface MediaOwner {
  readonly self: ParticipantIdentity;
  readonly permissions: Permissions;
  /** Null before the first offer, and while the next connection is being made. */
  readonly connection: Connection | null;
  /** On which it gets what others send: the same one, unless its client has two. */
  readonly receivingConnection: Connection | null;
  /** To it and back; null before it has reported. */
  readonly rttMs: number | null;
  emit(event: WithoutIdentity<ParticipantEvent>): void;
}

/** The participant, to the room that keeps its tracks. */
export interface TrackOwner {
  readonly uplink: { tick(nowMs: number): void; isBusy(nowMs: number): boolean; readonly isUrgent: boolean };
  emit(event: WithoutIdentity<ParticipantEvent>): void;
}

/** The room, to those whose tracks it knows. */
export interface RoomTracks {
  publications(): Iterable<Publication>;
  publication(trackId: string): Publication | undefined;
  published(publication: Publication, owner: TrackOwner): void;
  unpublished(publication: Publication): void;
  /** Somebody watches or listens, so its publisher is to send it. */
  isWanted(publication: Publication): boolean;
  muteChanged(publication: Publication): void;
  /** `level` as in the header: 0 (loudest) … 127 (silence). */
  observeAudioLevel(publication: Publication, level: number, nowMs: number): void;
  /** What `heard` is told of it next changes nothing for anybody. */
  isVoiceUncontested(publication: Publication): boolean;
}
