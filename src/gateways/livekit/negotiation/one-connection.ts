import { MediaSectionsRequirement, SessionDescription } from "@livekit/protocol";
import { MediaSections } from "./media-sections.ts";
import {
  type Message,
  midToTrackId,
  type Negotiator,
  type NegotiatorDeps,
  pauseDisabledTracks,
  placedSections,
  placeWantedTracks,
  refOf,
  tracksReceived,
} from "./negotiator.ts";
import { readSections, withPreferences } from "./session-description.ts";

/**
 * Only the client offers. When it has too few sections for the wanted tracks, it is asked for an offer with more
 * sections.
 */
export function oneConnection(deps: NegotiatorDeps): Negotiator {
  const { session, published, selection, send, before } = deps;
  const sections = new MediaSections(before?.sections);
  let isRequested = false;

  function requestOfferIfNeeded(): void {
    const wanted = selection.wanted();
    if (isRequested || !sections.differsFrom(wanted)) return;
    isRequested = true;
    const { audio: numAudios, video: numVideos } = sections.missing(wanted);
    const value = new MediaSectionsRequirement({ numAudios, numVideos });
    send({ case: "mediaSectionsRequirement", value });
  }

  return {
    sections,
    state: () => ({ sections: sections.all() }),

    async onOffer({ sdp, id, midToTrackId: named }) {
      const offered = readSections(sdp);
      for (const { mid, kind, sends, receives } of offered) {
        if (kind !== "application" && receives && !sends) sections.add(mid, kind);
      }
      placeWantedTracks(sections, selection);
      const publish = published.publishedSections(offered, named);
      session.wantsMedia = true;
      const answer = await deps.node().negotiate({
        ...refOf(session),
        sdp: withPreferences(sdp, published.preferences(publish)),
        publish,
        subscribe: placedSections(sections, selection, (_section, group) => group),
        idleInactive: true,
        data: "packets",
      });
      const value = new SessionDescription({
        type: "answer",
        sdp: answer.sdp,
        id,
        midToTrackId: midToTrackId(sections),
      });
      tracksReceived(deps, sections);
      isRequested = false;
      send({ case: "answer", value } satisfies Message);
      for (const { trackId } of publish) await muteIfAnnouncedMuted(deps, trackId);
      await pauseDisabledTracks(deps, sections);
      requestOfferIfNeeded();
    },

    async onAnswer() {},

    async update() {
      requestOfferIfNeeded();
    },

    async resume() {
      isRequested = false;
      requestOfferIfNeeded();
    },
  };
}

/** A track may be announced as muted; the node is told when the track has a section. */
export async function muteIfAnnouncedMuted(
  { node, session, published }: NegotiatorDeps,
  trackId: string | undefined,
): Promise<void> {
  const track = trackId === undefined ? undefined : published.find(trackId);
  if (!track?.muted || session.tracks.has(track.trackId)) return;
  await node().setTrackMuted({ ...refOf(session), trackId: track.trackId, muted: true });
}
