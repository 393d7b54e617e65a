import { MediaSectionsRequirement, SessionDescription } from "@livekit/protocol";
import {
  type Message,
  midToTrackId,
  type Negotiator,
  type NegotiatorDeps,
  pauseHidden,
  placedOn,
  placeWanted,
  refOf,
} from "./negotiator.ts";
import { Seats } from "./seats.ts";
import { readSections } from "./session-text.ts";

/** The client alone offers. When there is more to send than it has sections for, it is asked for an offer with more. */
export function oneConnection(deps: NegotiatorDeps): Negotiator {
  const { session, publishing, selection, send } = deps;
  const seats = new Seats();
  let isAsked = false;

  function askIfNeeded(): void {
    const wanted = selection.wanted();
    if (isAsked || !seats.differsFrom(wanted)) return;
    isAsked = true;
    const { audio: numAudios, video: numVideos } = seats.missing(wanted);
    const value = new MediaSectionsRequirement({ numAudios, numVideos });
    send({ case: "mediaSectionsRequirement", value });
  }

  return {
    seats,

    async offered({ sdp, id, midToTrackId: named }) {
      const sections = readSections(sdp);
      for (const { mid, kind, sends, receives } of sections) {
        if (kind !== "application" && receives && !sends) seats.add(mid, kind);
      }
      placeWanted(seats, selection);
      const publish = publishing.sectionsOf(sections, named);
      session.wantsMedia = true;
      const answer = await deps.node().negotiate({
        ...refOf(session),
        sdp,
        publish,
        subscribe: placedOn(seats, selection, (_seat, group) => group),
        idleInactive: true,
        data: "packets",
      });
      const value = new SessionDescription({ type: "answer", sdp: answer.sdp, id, midToTrackId: midToTrackId(seats) });
      seats.answered();
      isAsked = false;
      send({ case: "answer", value } satisfies Message);
      for (const { trackId } of publish) await muteIfAnnouncedSo(deps, trackId);
      await pauseHidden(deps, seats);
      askIfNeeded();
    },

    async answered() {},

    async changed() {
      askIfNeeded();
    },

    async resumed() {
      isAsked = false;
      askIfNeeded();
    },
  };
}

/** A track may be announced as muted; the node learns of it with its section. */
export async function muteIfAnnouncedSo(
  { node, session, publishing }: NegotiatorDeps,
  trackId: string | undefined,
): Promise<void> {
  const track = trackId === undefined ? undefined : publishing.find(trackId);
  if (!track?.muted || session.tracks.has(track.trackId)) return;
  await node().setTrackMuted({ ...refOf(session), trackId: track.trackId, muted: true });
}
