import type { SessionDescription, SignalResponse } from "@livekit/protocol";
import { participantSid, trackSid } from "../../../protocol/media/livekit-sids.ts";
import type { MediaNode, ParticipantRef, PlacedSection } from "../../../protocol/media-node.ts";
import { type RtcSession, receivedAll } from "../../signaling/rtc-session.ts";
import type { PublishedTracks } from "../published-tracks.ts";
import { groupOf } from "../records.ts";
import type { TrackSelection } from "../track-selection.ts";
import type { MediaSection, MediaSections } from "./media-sections.ts";
import type { OfferedSession } from "./session-description.ts";

export type Message = NonNullable<SignalResponse["message"]>;

/** The negotiated state of an earlier process of this server. `offered` and `offerId` are present with two connections. */
export type NegotiatorState = { sections: MediaSection[]; offered?: OfferedSession; offerId?: number };

export type NegotiatorDeps = {
  before?: NegotiatorState | undefined;
  session: RtcSession;
  node(): MediaNode;
  published: PublishedTracks;
  selection: TrackSelection;
  send(message: Message): void;
};

/** Negotiates a client's peer connections. Its methods are called one after another. */
export interface Negotiator {
  readonly sections: MediaSections;
  /** The state for a newer process of this server. */
  state(): NegotiatorState;
  onOffer(offer: SessionDescription): Promise<void>;
  onAnswer(answer: SessionDescription): Promise<void>;
  /** The tracks that the client wants may have changed. */
  update(): Promise<void>;
  /** The client has a new socket, and the last message on the old one may be lost. */
  resume(): Promise<void>;
}

export const refOf = ({ room, id }: RtcSession): ParticipantRef => ({ roomId: room.id, participantId: id });

export function placeWantedTracks(sections: MediaSections, selection: TrackSelection): void {
  sections.place(selection.wanted());
  selection.limitTo(sections.all().flatMap(({ trackId }) => trackId ?? []));
}

/** The tracks on the sections, with the stream ids by which clients find the publisher. */
export function placedSections(
  sections: MediaSections,
  selection: TrackSelection,
  streamOf: (section: MediaSection, group: string, sid: string) => string,
): PlacedSection[] {
  const wanted = new Map(selection.wanted().map((one) => [one.trackId, one]));
  return sections.all().flatMap((section) => {
    const found = section.trackId === null ? undefined : wanted.get(section.trackId);
    if (!found) return [];
    const { track, publisher, trackId } = found;
    const { maxHeight, maxFps, layer, priority } = selection.settingsOf(trackId);
    const sid = trackSid(trackId);
    const stream = `${participantSid(publisher.id)}|${streamOf(section, groupOf(track), sid)} ${sid}`;
    const bounds = { ...(maxHeight !== undefined && { maxHeight }), ...(maxFps !== undefined && { maxFps }) };
    return [{ mid: section.mid, trackId, stream, layer, priority, ...bounds }];
  });
}

export function midToTrackId(sections: MediaSections): Record<string, string> {
  return Object.fromEntries(
    sections.all().flatMap(({ mid, trackId }) => (trackId === null ? [] : [[mid, trackSid(trackId)]])),
  );
}

/** Reports that the tracks on the sections are received from now on. */
export function tracksReceived({ session }: NegotiatorDeps, sections: MediaSections): void {
  sections.answered();
  receivedAll(
    session,
    sections.all().flatMap(({ trackId }) => (trackId === null ? [] : [trackId])),
  );
}

/** Pauses the tracks that the client has disabled, which a negotiation cannot express. */
export async function pauseDisabledTracks(
  { node, session, selection }: NegotiatorDeps,
  sections: MediaSections,
): Promise<void> {
  const tracks = sections.all().flatMap(({ mid, trackId }) => {
    if (trackId === null || !selection.settingsOf(trackId).paused) return [];
    return [{ trackId, mid, paused: true }];
  });
  if (tracks.length > 0) await node().updateSubscriptions({ ...refOf(session), tracks });
}
