/** The interfaces between a participant, its uplink and downlink, its room and its worker. */
import type { RelayedData } from "../../protocol/media/relay.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import type { BackupCodec } from "../../protocol/signaling.ts";
import type { Publication } from "../tracks/publication.ts";
import type { Connection, ConnectionHost } from "../transport/connection.ts";
import type { TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import type { SrtpRefusals } from "../wire/srtp/srtp.ts";

/** The worker, as a participant uses it. */
export type ParticipantHost = ConnectionHost & {
  /** Values of `a=candidate`, for the answer. */
  candidates: readonly string[];
  fingerprint: { algorithm: string; value: string };
  /** Shared by all participants, because it is too large to have one each. */
  transportFeedback: TransportFeedback;
  /** Takes over the counters of a closed connection, so that the worker's counters never decrease. */
  retired(refusals: Partial<SrtpRefusals>): void;
  emit(event: MediaEvent): void;
  /** Hands data to the other workers that have participants of the room. */
  relayData(data: RelayedData): void;
  /** Requests a feedback round soon, instead of at the next tick. */
  expediteFeedback(): void;
  newId(): string;
  /** How busy the worker was in the last seconds; null when unknown. */
  busyPercent(): number | null;
};

export type ParticipantIdentity = { roomId: string; participantId: string; identity: string };

/** Events about one participant. */
export type ParticipantEvent = Extract<MediaEvent, ParticipantIdentity>;
export type WithoutIdentity<T> = T extends unknown ? Omit<T, keyof ParticipantIdentity> : never;

/** The participant, as its uplink and downlink use it. */
export interface MediaOwner {
  readonly self: ParticipantIdentity;
  readonly permissions: Permissions;
  /** Null before the first offer, and while the next connection is created. */
  readonly connection: Connection | null;
  /**
   * The connection on which the participant receives media: equal to `connection`, unless its client uses two peer
   * connections.
   */
  readonly receivingConnection: Connection | null;
  /** The round trip; null before the first report. */
  readonly rttMs: number | null;
  emit(event: WithoutIdentity<ParticipantEvent>): void;
}

/** The participant, as the room that has its tracks uses it. */
export interface TrackOwner {
  readonly uplink: { tick(nowMs: number): void; isBusy(nowMs: number): boolean; readonly isUrgent: boolean };
  emit(event: WithoutIdentity<ParticipantEvent>): void;
}

/** A link to another worker that has participants of the room too. */
export interface RoomLink {
  readonly kind: "worker" | "node";
  /** The track is announced: the other worker may ask for it. A backup is offered once `wantedBackup` names one. */
  offer(roomId: string, publication: Publication): void;
  /** The codec in which viewers on the other worker need the track besides its own; null if they need none. */
  wantedBackup(publication: Publication): BackupCodec | null;
  muted(publication: Publication): void;
  /** The track has ended. */
  end(publication: Publication): void;
}

/** The room, as its participants use it. */
export interface RoomTracks {
  publications(): Iterable<Publication>;
  publication(trackId: string): Publication | undefined;
  /** The audible microphones, the loudest of the room first. */
  voices(): Publication[];
  published(publication: Publication, owner: TrackOwner): void;
  unpublished(publication: Publication): void;
  /** The first packet of the track has arrived. */
  announced(publication: Publication): void;
  /** The first packet of a backup has arrived, for those who can decode nothing else. */
  backupBegan(backup: Publication, primary: Publication): void;
  backupEnded(backup: Publication, primary: Publication): void;
  /** Is true when the publisher has been told to send the track. */
  isWanted(publication: Publication): boolean;
  muteChanged(publication: Publication): void;
  /** `level` is the value of the header extension: 0 (loudest) … 127 (silence). */
  observeAudioLevel(publication: Publication, level: number, nowMs: number): void;
  /** Is true when further audio levels of the track cannot change which tracks are audible. */
  isVoiceUncontested(publication: Publication): boolean;
}
