import { isDeepStrictEqual } from "node:util";
import type { Decryption } from "../../protocol/encryption/room-keys.ts";
import type { Participant as ParticipantRecord, Track } from "../../protocol/room-records.ts";
import type { Push } from "../../protocol/signaling.ts";
import type { SubscribedTrack } from "./media-connection.ts";
import type { ParticipantEvents, RemoteParticipant, RemoteTrack } from "./participant-events.ts";

type Emit = <K extends keyof ParticipantEvents>(event: K, ...args: ParticipantEvents[K]) => void;

/** The other participants, as the server reports them. */
export class Roster {
  readonly participants = new Map<string, RemoteParticipant>();
  readonly #emit: Emit;
  readonly #decryptionOf: (identity: string) => Decryption;
  #self = "";

  constructor(emit: Emit, decryptionOf: (identity: string) => Decryption) {
    this.#emit = emit;
    this.#decryptionOf = decryptionOf;
  }

  /** Adopts the server's list after a join and emits the differences. A list that is current gets them as pushes. */
  adopt(records: readonly ParticipantRecord[], self: string, isCurrent: boolean): void {
    const first = this.#self === "";
    this.#self = self;
    if (isCurrent) return;
    const others = records.filter(({ identity }) => identity !== self);
    for (const known of [...this.participants.values()]) {
      if (!others.some(({ identity }) => identity === known.identity)) this.#remove(known.identity, "left");
    }
    for (const record of others) {
      const known = this.participants.get(record.identity);
      const participant = this.#participant(record);
      this.participants.set(record.identity, known ? { ...participant, tracks: known.tracks } : participant);
      if (!known) {
        if (!first) this.#emit("participantJoined", participant);
        continue;
      }
      this.#change(record.identity, () => participant.tracks);
      if (!isDeepStrictEqual({ ...known, tracks: [] }, { ...participant, tracks: [] })) {
        this.#emit("participantUpdated", participant);
      }
    }
  }

  tracks(): SubscribedTrack[] {
    return [...this.participants.values()].flatMap(({ identity, tracks }) =>
      tracks.flatMap(({ id, kind, encrypted, decryption }) =>
        decryption === "ok" ? [{ trackId: id, identity, kind, encrypted }] : [],
      ),
    );
  }

  /** Called when keys have arrived or turned out to be wrong. */
  keysChanged(): void {
    for (const known of [...this.participants.values()]) {
      const tracks = known.tracks.map((track) => ({ ...track, ...this.#decryption(known.identity, track.encrypted) }));
      const now = { ...known, tracks };
      this.participants.set(known.identity, now);
      for (const [at, track] of tracks.entries()) {
        if (track.decryption !== known.tracks[at]?.decryption) this.#emit("decryptionChanged", track, now);
      }
    }
  }

  /** Returns true when the tracks have changed. */
  receive(push: Push): boolean {
    switch (push.type) {
      case "participant.joined":
      case "participant.updated": {
        if (push.participant.identity === this.#self) return false;
        const participant = this.#participant(push.participant);
        this.participants.set(participant.identity, participant);
        this.#emit(push.type === "participant.joined" ? "participantJoined" : "participantUpdated", participant);
        return true;
      }
      case "participants.changed": {
        for (const { identity, reason } of push.left) this.#remove(identity, reason);
        for (const record of [...push.joined, ...push.updated]) {
          if (record.identity === this.#self) continue;
          const known = this.participants.has(record.identity);
          const participant = this.#participant(record);
          this.participants.set(record.identity, participant);
          this.#emit(known ? "participantUpdated" : "participantJoined", participant);
        }
        return true;
      }
      case "participant.left":
        return this.#remove(push.identity, push.reason);
      case "track.published":
        return this.#change(push.identity, (tracks) => [
          ...tracks.filter(({ id }) => id !== push.track.id),
          this.#track(push.identity, push.track),
        ]);
      case "track.unpublished":
        return this.#change(push.identity, (tracks) => tracks.filter(({ id }) => id !== push.trackId));
      case "track.muted":
      case "track.unmuted": {
        const muted = push.type === "track.muted";
        this.#change(push.identity, (tracks) =>
          tracks.map((track) => (track.id === push.trackId ? { ...track, muted } : track)),
        );
        return false;
      }
      case "speakers.changed":
        this.#emit("activeSpeakersChanged", push.speakers);
        return false;
      default:
        return false;
    }
  }

  #remove(identity: string, reason: string): boolean {
    const known = this.participants.get(identity);
    if (!known) return false;
    this.participants.delete(identity);
    this.#emit("participantLeft", known, reason);
    return true;
  }

  #change(identity: string, change: (tracks: RemoteParticipant["tracks"]) => RemoteParticipant["tracks"]): boolean {
    const known = this.participants.get(identity);
    if (!known) return false;
    const tracks = change(known.tracks);
    const now = { ...known, tracks };
    this.participants.set(identity, now);
    for (const track of tracks) {
      if (!known.tracks.some(({ id }) => id === track.id)) this.#emit("trackPublished", track, now);
    }
    for (const track of known.tracks) {
      if (!tracks.some(({ id }) => id === track.id)) this.#emit("trackUnpublished", track, now);
    }
    return true;
  }

  #participant(record: ParticipantRecord & { tracks: Track[] }): RemoteParticipant {
    const { identity, metadata, name, attributes, kind, joinedAt, tracks } = record;
    return {
      identity,
      metadata,
      name,
      attributes,
      kind,
      joinedAt,
      tracks: tracks.map((track) => this.#track(identity, track)),
    };
  }

  #track(identity: string, { id, kind, source, muted, encryption }: Track): RemoteTrack {
    return { id, kind, source, muted, ...this.#decryption(identity, encryption !== undefined) };
  }

  #decryption(identity: string, encrypted: boolean): Pick<RemoteTrack, "encrypted" | "decryption"> {
    return { encrypted, decryption: encrypted ? this.#decryptionOf(identity) : "ok" };
  }
}
