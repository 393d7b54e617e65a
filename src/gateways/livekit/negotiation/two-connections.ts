import { randomBytes } from "node:crypto";
import { SessionDescription } from "@livekit/protocol";
import type { TrackKind } from "../../../protocol/room-records.ts";
import { MediaSections } from "./media-sections.ts";
import {
  midToTrackId,
  type Negotiator,
  type NegotiatorDeps,
  pauseDisabledTracks,
  placedSections,
  placeWantedTracks,
  refOf,
  tracksReceived,
} from "./negotiator.ts";
import { muteIfAnnouncedMuted } from "./one-connection.ts";
import {
  answerToClientOffer,
  answerToOffer,
  type OfferedSession,
  readCredentials,
  readSections,
  withPreferences,
  writeClientOffer,
} from "./session-description.ts";

const randomHex = (bytes: number) => randomBytes(bytes).toString("hex");

/**
 * The client offers the connection on which it sends, and the server offers the one on which it receives. The media
 * node can only answer: it gets an offer on behalf of the client, its answer is sent to the client as the server's
 * offer, and the client's answer is passed to the node as the client's offer.
 */
export function twoConnections(deps: NegotiatorDeps): Negotiator {
  const { session, published, selection, send, before } = deps;
  const sections = new MediaSections(before?.sections);
  const newSession = () => ({ sessionId: String(Date.now()), ufrag: randomHex(4), pwd: randomHex(12) });
  const offered: OfferedSession = before?.offered ?? newSession();
  let offerId = before?.offerId ?? 0;
  let isAwaitingAnswer = false;

  const negotiate = (sdp: string) =>
    deps.node().negotiate({
      ...refOf(session),
      sdp,
      connection: "receive",
      publish: [],
      // A browser keeps the id of the first track on a section, so clients use the stream id for a reused section.
      subscribe: placedSections(sections, selection, ({ isReused }, group, sid) => (isReused ? sid : group)),
      idleInactive: true,
      data: "packets",
    });

  async function offer(): Promise<void> {
    const wanted = selection.wanted();
    const missing = sections.missing(wanted);
    for (const kind of ["audio", "video"] satisfies TrackKind[]) {
      for (let i = 0; i < missing[kind]; i++) sections.add(`r${sections.all().length}`, kind);
    }
    placeWantedTracks(sections, selection);
    const answer = await negotiate(writeClientOffer(sections.all(), offered));
    isAwaitingAnswer = true;
    offerId += 1;
    const value = new SessionDescription({
      type: "offer",
      sdp: answerToOffer(answer.sdp),
      id: offerId,
      midToTrackId: midToTrackId(sections),
    });
    send({ case: "offer", value });
  }

  const offerIfNeeded = async () => {
    if (!isAwaitingAnswer && sections.differsFrom(selection.wanted())) await offer();
  };

  return {
    sections,
    state: () => ({ sections: sections.all(), offered, offerId }),

    async onOffer({ sdp, id, midToTrackId: named }) {
      const publish = published.publishedSections(readSections(sdp), named);
      session.wantsMedia = true;
      const preferred = withPreferences(sdp, published.preferences(publish));
      const answer = await deps
        .node()
        .negotiate({ ...refOf(session), sdp: preferred, publish, subscribe: [], idleInactive: true, data: "packets" });
      // livekit-client 2.15 takes the tracks of its receiving connection from the newest description of either connection.
      const tracks = midToTrackId(sections);
      const value = new SessionDescription({ type: "answer", sdp: answer.sdp, id, midToTrackId: tracks });
      send({ case: "answer", value });
      for (const { trackId } of publish) await muteIfAnnouncedMuted(deps, trackId);
      // Some clients wait for the second connection even without tracks, so it is offered at once.
      if (offerId === 0) await offer();
    },

    async onAnswer({ sdp, id }) {
      if (!isAwaitingAnswer || (id !== 0 && id !== offerId)) return;
      await negotiate(answerToClientOffer(sdp, offered));
      // Changed ICE credentials would mean an ICE restart to the node, so the next offer uses the client's own.
      Object.assign(offered, readCredentials(sdp));
      isAwaitingAnswer = false;
      tracksReceived(deps, sections);
      await pauseDisabledTracks(deps, sections);
      await offerIfNeeded();
    },

    update: offerIfNeeded,

    async resume() {
      // New ICE credentials tell the client that this is the ICE restart for which it waits.
      Object.assign(offered, { ufrag: randomHex(4), pwd: randomHex(12) });
      isAwaitingAnswer = false;
      if (offerId > 0) await offer();
    },
  };
}
