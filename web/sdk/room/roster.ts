import type { Emitter } from "../../../src/protocol/data/emitter.ts";
import type { Decryption } from "../../../src/protocol/encryption/room-keys.ts";
import type { Participant, Speaker, Track } from "../../../src/protocol/room-records.ts";
import type { Push } from "../../../src/protocol/signaling.ts";
import { RemoteParticipant, RemoteTrack } from "./remote-participant.ts";
import type { RoomEvents } from "./room-events.ts";

export type RosterDeps = {
  autoSubscribe: boolean;
  /** Called when tracks or their subscription settings have changed. */
  onChanged: () => void;
  onUnsubscribed: (track: RemoteTrack) => void;
  /** Called when this page begins to lack keys of other participants, or has them again. */
  onKeysMissing: (identities: string[]) => void;
  /** Whether this page can decrypt the tracks of a participant. */
  decryptionOf: (identity: string) => Decryption;
  /** Called with the record of this participant when it may have changed. */
  onSelf: (record: Participant) => void;
};

/** The remote participants and their tracks, updated by the server's pushes. */
export class Roster {
  readonly participants = new Map<string, RemoteParticipant>();
  activeSpeakers: readonly Speaker[] = [];
  readonly #events: Emitter<RoomEvents>;
  readonly #deps: RosterDeps;
  #self = "";
  #missingKeysOf = "";

  constructor(events: Emitter<RoomEvents>, deps: RosterDeps) {
    this.#events = events;
    this.#deps = deps;
  }

  tracks(): RemoteTrack[] {
    return [...this.participants.values()].flatMap(({ tracks }) => [...tracks.values()]);
  }

  /** Replaces the participants after a join; those who are not listed have left meanwhile. */
  replace(participants: Participant[], self: string): void {
    this.#self = self;
    const present = new Set(participants.map(({ identity }) => identity));
    for (const identity of [...this.participants.keys()]) if (!present.has(identity)) this.#left(identity, "timeout");
    for (const participant of participants) this.#upsert(participant);
  }

  /** Called when keys have arrived or turned out to be wrong. */
  keysChanged(): void {
    for (const track of this.tracks()) {
      const decryption = this.#deps.decryptionOf(track.participant.identity);
      if (track.setDecryption(decryption)) this.#events.emit("decryptionChanged", track);
    }
    this.#reportKeys();
  }

  receive(push: Push): void {
    switch (push.type) {
      case "participant.joined":
      case "participant.updated":
        this.#upsert(push.participant);
        break;
      case "participants.changed":
        for (const { identity, reason } of push.left) this.#left(identity, reason);
        for (const record of [...push.joined, ...push.updated]) this.#upsert(record);
        break;
      case "participant.left":
        this.#left(push.identity, push.reason);
        break;
      case "track.published":
        this.#published(push.identity, push.track);
        break;
      case "track.unpublished":
        this.#unpublished(push.identity, push.trackId);
        break;
      case "track.muted":
      case "track.unmuted":
        this.#muted(push.identity, push.trackId, push.type === "track.muted");
        break;
      case "speakers.changed":
        this.#speakersChanged(push.speakers);
        break;
      case "subscription.changed": {
        const track = this.tracks().find(({ id }) => id === push.trackId);
        if (!track) break;
        track.delivered = { layer: push.layer, paused: push.paused, reason: push.reason };
        this.#events.emit("subscriptionChanged", track);
        break;
      }
      case "quality.changed": {
        const participant = this.participants.get(push.identity);
        if (participant) participant.quality = push.quality;
        this.#events.emit("qualityChanged", push.quality, push.identity);
        break;
      }
    }
  }

  #upsert(record: Participant): void {
    if (record.identity === this.#self) {
      this.#deps.onSelf(record);
      return;
    }
    const known = this.participants.get(record.identity);
    const participant = known ?? new RemoteParticipant(record);
    const changed = known !== undefined && profileOf(known) !== profileOf(record);
    this.participants.set(record.identity, participant);
    participant.metadata = record.metadata;
    participant.name = record.name;
    participant.attributes = record.attributes;
    if (!known) this.#events.emit("participantJoined", participant);
    else if (changed) this.#events.emit("participantUpdated", participant);
    const published = new Set(record.tracks.map(({ id }) => id));
    for (const id of [...participant.tracks.keys()]) if (!published.has(id)) this.#unpublished(record.identity, id);
    for (const track of record.tracks) this.#published(record.identity, track);
  }

  #left(identity: string, reason: string): void {
    const participant = this.participants.get(identity);
    if (!participant) return;
    for (const id of [...participant.tracks.keys()]) this.#unpublished(identity, id);
    this.participants.delete(identity);
    this.#events.emit("participantLeft", participant, reason);
  }

  #published(identity: string, record: Track): void {
    const participant = this.participants.get(identity);
    if (!participant) return;
    const known = participant.tracks.get(record.id);
    if (known) {
      known.muted = record.muted;
      return;
    }
    const track = new RemoteTrack(record, participant, this.#deps.autoSubscribe, this.#deps.onChanged);
    track.setDecryption(this.#deps.decryptionOf(identity));
    participant.tracks.set(track.id, track);
    this.#events.emit("trackPublished", track, participant);
    this.#reportKeys();
    this.#deps.onChanged();
  }

  #unpublished(identity: string, trackId: string): void {
    const participant = this.participants.get(identity);
    const track = participant?.tracks.get(trackId);
    if (!participant || !track) return;
    participant.tracks.delete(trackId);
    if (track.mediaStreamTrack) this.#deps.onUnsubscribed(track);
    track.close();
    this.#events.emit("trackUnpublished", track, participant);
    this.#reportKeys();
    this.#deps.onChanged();
  }

  #reportKeys(): void {
    const missing = this.tracks().filter(({ decryption }) => decryption !== "ok");
    const identities = [...new Set(missing.map(({ participant }) => participant.identity))].slice(0, MAX_REPORTED);
    if (identities.join() === this.#missingKeysOf) return;
    this.#missingKeysOf = identities.join();
    this.#deps.onKeysMissing(identities);
  }

  #muted(identity: string, trackId: string, muted: boolean): void {
    const participant = this.participants.get(identity);
    const track = participant?.tracks.get(trackId);
    if (!participant || !track) return;
    track.muted = muted;
    this.#events.emit(muted ? "trackMuted" : "trackUnmuted", track, participant);
  }

  #speakersChanged(speakers: Speaker[]): void {
    this.activeSpeakers = speakers;
    const levels = new Map(speakers.map(({ identity, level }) => [identity, level]));
    for (const participant of this.participants.values()) {
      participant.audioLevel = levels.get(participant.identity) ?? 0;
    }
    this.#events.emit("activeSpeakersChanged", speakers);
  }
}

const MAX_REPORTED = 5;

function profileOf({ metadata, name, attributes }: Pick<Participant, "metadata" | "name" | "attributes">): string {
  return JSON.stringify([metadata, name, attributes]);
}
