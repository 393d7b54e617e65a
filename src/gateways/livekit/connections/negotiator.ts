import type { SessionDescription, SignalResponse } from "@livekit/protocol";
import { participantSid, trackSid } from "../../../protocol/media/livekit-sids.ts";
import type { MediaNode, ParticipantRef, PlacedSection } from "../../../protocol/media-node.ts";
import type { RtcSession } from "../../signaling/session/rtc-session.ts";
import { groupOf } from "../records.ts";
import type { Publishing } from "../visitor/publishing.ts";
import type { Selection } from "../visitor/selection.ts";
import type { Seat, Seats } from "./seats.ts";

export type Message = NonNullable<SignalResponse["message"]>;

/** What a client's connections are negotiated with. */
export type NegotiatorDeps = {
  session: RtcSession;
  node(): MediaNode;
  publishing: Publishing;
  selection: Selection;
  send(message: Message): void;
};

/** How what a client sends and receives gets onto its peer connections. Its calls come one after another. */
export interface Negotiator {
  readonly seats: Seats;
  /** The client offers. */
  offered(offer: SessionDescription): Promise<void>;
  /** The client answers an offer of ours. */
  answered(answer: SessionDescription): Promise<void>;
  /** What there is to receive, or what is wanted of it, may have changed. */
  changed(): Promise<void>;
  /** Its socket is another one; what was asked on the one before may never have arrived. */
  resumed(): Promise<void>;
}

export const refOf = ({ room, id }: RtcSession): ParticipantRef => ({ roomId: room.id, participantId: id });

/** Gives what is wanted a section, where there is one for it. */
export function placeWanted(seats: Seats, selection: Selection): void {
  seats.place(selection.wanted());
  selection.placed(seats.all().flatMap(({ trackId }) => trackId ?? []));
}

/** What is on the sections, and how clients find out whose it is. */
export function placedOn(
  seats: Seats,
  selection: Selection,
  streamOf: (seat: Seat, group: string, sid: string) => string,
): PlacedSection[] {
  const wanted = new Map(selection.wanted().map((one) => [one.trackId, one]));
  return seats.all().flatMap((seat) => {
    const found = seat.trackId === null ? undefined : wanted.get(seat.trackId);
    if (!found) return [];
    const { track, publisher, trackId } = found;
    const { maxHeight, layer, priority } = selection.viewingOf(trackId);
    const sid = trackSid(trackId);
    const stream = `${participantSid(publisher.id)}|${streamOf(seat, groupOf(track), sid)} ${sid}`;
    return [{ mid: seat.mid, trackId, stream, layer, priority, ...(maxHeight !== undefined && { maxHeight }) }];
  });
}

export function midToTrackId(seats: Seats): Record<string, string> {
  return Object.fromEntries(
    seats.all().flatMap(({ mid, trackId }) => (trackId === null ? [] : [[mid, trackSid(trackId)]])),
  );
}

/** Tracks that are shown nowhere: a negotiation has no word for that. */
export async function pauseHidden({ node, session, selection }: NegotiatorDeps, seats: Seats): Promise<void> {
  const tracks = seats.all().flatMap(({ mid, trackId }) => {
    if (trackId === null || !selection.viewingOf(trackId).paused) return [];
    return [{ trackId, mid, paused: true }];
  });
  if (tracks.length > 0) await node().updateSubscriptions({ ...refOf(session), tracks });
}
