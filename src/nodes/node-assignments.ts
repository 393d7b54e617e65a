/**
 * The rooms, participants and recordings that were assigned to one media node. Events of the node about any others are
 * rejected.
 */
import type { NodeEvent } from "../protocol/media/node-messages.ts";
import type { RecordingRef } from "../protocol/media/recording.ts";
import type { OpenedLink, RelayCall } from "../protocol/media/relay.ts";
import type { AddParticipant, ParticipantRef, ParticipantSnapshot, RoomSnapshot } from "../protocol/media-node.ts";

/** Closed rooms that are remembered, because events about them may still arrive. */
const CLOSED_ROOMS = 10_000;
/** Recordings that are remembered for longer than rooms, because files are completed after their room was closed. */
const RECORDINGS = 10_000;

/**
 * `foreign` for events about rooms or recordings that were not assigned to the node, `late` for events of a closed
 * room.
 */
type CheckedEvent = NodeEvent | "foreign" | "late";

export class NodeAssignments {
  /** Identities by room and participant id. */
  readonly #rooms = new Map<string, Map<string, string>>();
  readonly #closedRooms = new Set<string>();
  /** The links that the node was asked to open. */
  readonly #links = new Set<string>();
  /** By room: the participants on other nodes whose tracks or data this node was given. */
  readonly #guests = new Map<string, Set<string>>();
  /** Rooms by recording. */
  readonly #recordings = new Map<string, string>();

  has(roomId: string): boolean {
    return this.#rooms.has(roomId);
  }

  open(roomId: string): void {
    this.#rooms.set(roomId, new Map());
  }

  close(roomId: string): void {
    this.#rooms.delete(roomId);
    this.#guests.delete(roomId);
    this.#closedRooms.delete(roomId);
    this.#closedRooms.add(roomId);
    forgetOldest(this.#closedRooms, CLOSED_ROOMS);
  }

  add({ roomId, participantId, identity }: Pick<AddParticipant, "roomId" | "participantId" | "identity">): void {
    this.#rooms.get(roomId)?.set(participantId, identity);
  }

  remove({ roomId, participantId }: ParticipantRef): void {
    this.#rooms.get(roomId)?.delete(participantId);
  }

  /** Whether the participant was added to the room; others in a snapshot are invalid. */
  holds(roomId: string, { participantId, identity }: Pick<ParticipantSnapshot, "participantId" | "identity">): boolean {
    return this.#rooms.get(roomId)?.get(participantId) === identity;
  }

  relay({ method, request }: RelayCall): void {
    if (method === "openLink") this.#links.add(request.linkId);
    else if (method === "closeLink") this.#links.delete(request.linkId);
    else if (method === "addRelayed") this.#welcome(request.roomId, request.identity);
    else if (method === "deliverRelayed" && request.from !== null) this.#welcome(request.roomId, request.from);
  }

  #welcome(roomId: string, identity: string): void {
    if (!this.#rooms.has(roomId)) return;
    const guests = this.#guests.get(roomId) ?? new Set<string>();
    this.#guests.set(roomId, guests.add(identity));
  }

  record({ recordingId, roomId }: RecordingRef): void {
    this.#recordings.delete(recordingId);
    this.#recordings.set(recordingId, roomId);
    forgetOldest(this.#recordings, RECORDINGS);
  }

  /** Adopts the rooms that the node reports on its first connection. A reported room that was never assigned is closed. */
  found(rooms: readonly RoomSnapshot[], links: readonly OpenedLink[]): void {
    for (const { linkId } of links) this.#links.add(linkId);
    for (const { roomId, participants } of rooms)
      this.#rooms.set(roomId, new Map(participants.map(({ participantId, identity }) => [participantId, identity])));
  }

  /** Removes all rooms and returns them. */
  clear(): { roomId: string; participantIds: string[] }[] {
    const rooms = [...this.#rooms].map(([roomId, participants]) => ({
      roomId,
      participantIds: [...participants.keys()],
    }));
    for (const { roomId } of rooms) this.close(roomId);
    this.#links.clear();
    return rooms;
  }

  /** Returns the event, limited to assigned rooms, participants and recordings. */
  admit(event: NodeEvent): CheckedEvent {
    if (event.type === "workerCrashed") return this.#admitCrash(event);
    if ("recordingId" in event) return this.#admitRecording(event);
    if (event.type === "linkChanged") return this.#links.has(event.linkId) ? event : "late";
    const { roomId } = event.type === "relayOffered" ? event.track : event.type === "relayData" ? event.data : event;
    const members = this.#rooms.get(roomId);
    if (!members) return this.#closedRooms.has(roomId) ? "late" : "foreign";
    const guests = this.#guests.get(roomId) ?? new Set<string>();
    const isHere = (identity: string) => new Set(members.values()).has(identity);
    switch (event.type) {
      case "relayOffered":
        return isHere(event.track.identity) ? event : "foreign";
      case "relayMuted":
      case "relayEnded":
        return event;
      case "relayData": {
        const { from, delivery } = event.data;
        return from !== null && isHere(from) && (delivery === null || delivery.from === from) ? event : "foreign";
      }
      case "speakersChanged": {
        const identities = new Set([...members.values(), ...guests]);
        return { ...event, speakers: event.speakers.filter(({ identity }) => identities.has(identity)) };
      }
      case "relayedDataDropped":
      case "relayedDataBehind":
        // A reader may be on the same node as the sender, but on another worker.
        return isHere(event.reader) && (guests.has(event.from) || isHere(event.from)) ? event : "foreign";
      case "data":
        if (event.from !== null && !isHere(event.from) && !guests.has(event.from)) return "foreign";
        return { ...event, recipients: event.recipients.filter((participantId) => members.has(participantId)) };
      default:
        return members.get(event.participantId) === event.identity ? event : "foreign";
    }
  }

  #admitCrash(event: Extract<NodeEvent, { type: "workerCrashed" }>): CheckedEvent {
    const rooms = event.rooms.filter(({ roomId }) => this.#rooms.has(roomId));
    if (rooms.length === 0 && event.rooms.length > 0) return "foreign";
    for (const { roomId, participantIds, remains } of rooms) {
      if (!remains) this.close(roomId);
      else for (const participantId of participantIds) this.remove({ roomId, participantId });
    }
    return { ...event, rooms };
  }

  #admitRecording(event: Extract<NodeEvent, { recordingId: string }>): CheckedEvent {
    const { roomId, recordingId } = event;
    if (this.#recordings.get(recordingId) !== roomId) return "foreign";
    const identitiesOf = () => new Set(this.#rooms.get(roomId)?.values());
    switch (event.type) {
      case "recordingFileStarted":
        return identitiesOf().has(event.file.identity) ? event : "foreign";
      case "recordingProgress": {
        const identities = identitiesOf();
        return { ...event, files: event.files.filter(({ identity }) => identities.has(identity)) };
      }
      default:
        return event;
    }
  }
}

function forgetOldest(kept: Set<string> | Map<string, string>, most: number): void {
  for (const id of kept.keys()) {
    if (kept.size <= most) return;
    kept.delete(id);
  }
}
