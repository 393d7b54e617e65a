/** A room: who is in it, which tracks they publish, who is heard, and what they say to each other. */
import type { AddParticipant, OpenRoom, RoomSnapshot, SendData } from "../media/node.ts";
import { MediaError } from "../media/node.ts";
import type { Quality } from "../protocol/room-records.ts";
import { DATA_FRAME_MAX_BYTES, type DataChannelDelivery } from "../protocol/signaling.ts";
import type { DataKind, DataOwner } from "./data.ts";
import { Participant, type ParticipantHost } from "./participant.ts";
import type { Publication } from "./publication.ts";

export class Room {
  readonly #host: ParticipantHost;
  readonly #roomId: string;
  readonly #participants = new Map<string, Participant>();
  readonly #publications = new Map<string, Publication>();

  constructor(host: ParticipantHost, options: OpenRoom) {
    this.#host = host;
    this.#roomId = options.roomId;
  }

  get size(): number {
    return this.#participants.size;
  }

  add({ participantId, identity, permissions }: AddParticipant): void {
    if (this.#participants.has(participantId)) return;
    const self = { roomId: this.#roomId, participantId, identity };
    this.#participants.set(participantId, new Participant(this.#host, this, self, permissions));
  }

  remove(participantId: string): void {
    this.#participants.get(participantId)?.close();
    this.#participants.delete(participantId);
  }

  find(participantId: string): Participant | undefined {
    return this.#participants.get(participantId);
  }

  publications(): Iterable<Publication> {
    return this.#publications.values();
  }

  publication(trackId: string): Publication | undefined {
    return this.#publications.get(trackId);
  }

  published(publication: Publication, _owner: Participant): void {
    this.#publications.set(publication.trackId, publication);
    for (const participant of this.#participants.values()) participant.downlink.fillAutomatically();
  }

  unpublished(publication: Publication): void {
    this.#publications.delete(publication.trackId);
    for (const participant of this.#participants.values()) participant.downlink.trackEnded(publication);
    for (const participant of this.#participants.values()) participant.downlink.fillAutomatically();
  }

  muteChanged(publication: Publication): void {
    const nowMs = this.#host.now();
    for (const participant of this.#participants.values()) {
      if (publication.identity !== participant.self.identity) participant.downlink.allocate(nowMs);
    }
  }

  heard(_publication: Publication, _level: number, _nowMs: number): void {}

  qualityOf(_participant: Participant): Quality | null {
    return null;
  }

  relay(from: DataOwner, kind: DataKind, frame: { topic?: string; to?: string[]; payload: string }): void {
    this.#deliver(from.self.identity, kind, frame);
  }

  sendData({ from, topic, to, payload }: SendData): void {
    if (Buffer.byteLength(payload) > DATA_FRAME_MAX_BYTES)
      throw new MediaError("PAYLOAD_TOO_LARGE", "The payload is too large.");
    this.#deliver(from, "reliable", { ...(topic === undefined ? {} : { topic }), ...(to ? { to } : {}), payload });
  }

  #deliver(
    from: string | null,
    kind: DataKind,
    { topic, to, payload }: { topic?: string; to?: string[]; payload: string },
  ): void {
    const delivery: DataChannelDelivery = { from, ...(topic === undefined ? {} : { topic }), payload };
    const text = JSON.stringify(delivery);
    const recipients: string[] = [];
    for (const [participantId, participant] of this.#participants) {
      const { identity } = participant.self;
      if (identity === from || !participant.permissions.publishData || (to && !to.includes(identity))) continue;
      if (!participant.data.deliver(kind, delivery, text)) recipients.push(participantId);
    }
    if (recipients.length > 0) this.#host.emit({ type: "data", roomId: this.#roomId, ...delivery, recipients });
  }

  refusals(): Record<string, number> {
    const total: Record<string, number> = {};
    for (const participant of this.#participants.values()) {
      for (const [reason, count] of Object.entries(participant.connection?.refusals ?? {})) {
        total[reason] = (total[reason] ?? 0) + count;
      }
    }
    return total;
  }

  tick(nowMs: number): void {
    for (const participant of this.#participants.values()) participant.tick(nowMs);
  }

  snapshot(): RoomSnapshot {
    return { roomId: this.#roomId, participants: [...this.#participants.values()].map((p) => p.snapshot()) };
  }

  close(): void {
    for (const participant of this.#participants.values()) participant.close();
    this.#participants.clear();
    this.#publications.clear();
  }
}
