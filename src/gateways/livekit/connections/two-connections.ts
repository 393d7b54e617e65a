import { randomBytes } from "node:crypto";
import { SessionDescription } from "@livekit/protocol";
import type { TrackKind } from "../../../protocol/room-records.ts";
import {
  midToTrackId,
  type Negotiator,
  type NegotiatorDeps,
  pauseHidden,
  placedOn,
  placeWanted,
  refOf,
} from "./negotiator.ts";
import { muteIfAnnouncedSo } from "./one-connection.ts";
import { Seats } from "./seats.ts";
import {
  asClientOffer,
  asOffer,
  type OfferedSession,
  readCredentials,
  readSections,
  writeStandIn,
} from "./session-text.ts";

const word = (bytes: number) => randomBytes(bytes).toString("hex");

/**
 * The client offers what it sends, and we offer what it receives. Our media node only answers: it is shown an offer as the
 * client would write it, its answer goes out as our offer, and the client's answer comes back to it as that offer.
 */
export function twoConnections(deps: NegotiatorDeps): Negotiator {
  const { session, publishing, selection, send } = deps;
  const seats = new Seats();
  const offered: OfferedSession = { sessionId: String(Date.now()), ufrag: word(4), pwd: word(12) };
  let offerId = 0;
  let isAwaitingAnswer = false;

  const negotiate = (sdp: string) =>
    deps.node().negotiate({
      ...refOf(session),
      sdp,
      connection: "receive",
      publish: [],
      // The receiver's own name for a section's track is that of the first one on it; clients believe the stream instead.
      subscribe: placedOn(seats, selection, ({ isReused }, group, sid) => (isReused ? sid : group)),
      idleInactive: true,
      data: "packets",
    });

  async function offer(): Promise<void> {
    const wanted = selection.wanted();
    const missing = seats.missing(wanted);
    for (const kind of ["audio", "video"] satisfies TrackKind[]) {
      for (let i = 0; i < missing[kind]; i++) seats.add(`r${seats.all().length}`, kind);
    }
    placeWanted(seats, selection);
    const answer = await negotiate(writeStandIn(seats.all(), offered));
    isAwaitingAnswer = true;
    offerId += 1;
    const value = new SessionDescription({
      ...{ type: "offer", sdp: asOffer(answer.sdp), id: offerId },
      midToTrackId: midToTrackId(seats),
    });
    send({ case: "offer", value });
  }

  const offerIfNeeded = async () => {
    if (!isAwaitingAnswer && seats.differsFrom(selection.wanted())) await offer();
  };

  return {
    seats,

    async offered({ sdp, id, midToTrackId: named }) {
      const publish = publishing.sectionsOf(readSections(sdp), named);
      session.wantsMedia = true;
      const answer = await deps
        .node()
        .negotiate({ ...refOf(session), sdp, publish, subscribe: [], idleInactive: true, data: "packets" });
      send({ case: "answer", value: new SessionDescription({ type: "answer", sdp: answer.sdp, id }) });
      for (const { trackId } of publish) await muteIfAnnouncedSo(deps, trackId);
      // Some clients wait for this connection although nothing comes on it: they are offered one at once.
      if (offerId === 0) await offer();
    },

    async answered({ sdp, id }) {
      if (!isAwaitingAnswer || (id !== 0 && id !== offerId)) return;
      await negotiate(asClientOffer(sdp, offered));
      // The node takes other credentials for a restart: the next offer in the client's place has the client's.
      Object.assign(offered, readCredentials(sdp));
      isAwaitingAnswer = false;
      seats.answered();
      await pauseHidden(deps, seats);
      await offerIfNeeded();
    },

    changed: offerIfNeeded,

    async resumed() {
      // Credentials of their own tell the client that this is a restart, which is what it waits for.
      Object.assign(offered, { ufrag: word(4), pwd: word(12) });
      isAwaitingAnswer = false;
      if (offerId > 0) await offer();
    },
  };
}
