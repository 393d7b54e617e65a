import {
  type AddTrackRequest,
  RequestResponse,
  RequestResponse_Reason,
  TrackPublishedResponse,
  type UpdateParticipantMetadata,
} from "@livekit/protocol";
import { frameErrorOf } from "../../../kernel/socket/frame-error.ts";
import { trackIdOf } from "../../../protocol/media/livekit-sids.ts";
import type { MediaNode } from "../../../protocol/media-node.ts";
import type { RtcSession } from "../../signaling/session/rtc-session.ts";
import type { Translation } from "../../signaling/signaling.ts";
import { type Message, type Negotiator, refOf } from "../connections/negotiator.ts";
import type { Publishing } from "./publishing.ts";
import type { Selection } from "./selection.ts";
import type { Request } from "./signal-request.ts";
import type { Telling } from "./telling.ts";

/** Tracks that one request may name: more than a room has. */
const MAX_NAMED = 2_048;

type AnsweringDeps = {
  session: RtcSession;
  requests: Translation["requests"];
  publishing: Publishing;
  selection: Selection;
  negotiator: Negotiator;
  telling: Telling;
  node(): MediaNode;
  send(message: Message): void;
  refuse(request: Request, reason: RequestResponse_Reason, message: string): void;
  /** The client goes. */
  leave(): void;
};

/** Does what one client asks, one request after another. */
export function createAnswering(deps: AnsweringDeps): (request: Request) => Promise<void> {
  const { session, publishing, selection, negotiator, telling, node, send, refuse } = deps;

  const unsupported = (request: Request) =>
    refuse(request, RequestResponse_Reason.UNSUPPORTED_TYPE, `${request.case ?? "this request"} is not served here`);

  function addTrack(request: AddTrackRequest): void {
    const track = publishing.add(request);
    if (typeof track === "string") {
      refuse({ case: "addTrack", value: request }, RequestResponse_Reason.NOT_ALLOWED, track);
      return;
    }
    const value = new TrackPublishedResponse({ cid: request.cid, track: track.info });
    send({ case: "trackPublished", value });
  }

  async function mute(trackId: string, muted: boolean): Promise<void> {
    const track = publishing.find(trackId);
    if (!track) return;
    track.muted = muted;
    track.info.muted = muted;
    await node()
      .setTrackMuted({ ...refOf(session), trackId, muted })
      .catch(whenGone);
  }

  async function view(trackIds: readonly string[]): Promise<void> {
    const tracks = trackIds.flatMap((trackId) => {
      const seat = negotiator.seats.of(trackId);
      return seat ? [{ trackId, mid: seat.mid, ...selection.viewingOf(trackId) }] : [];
    });
    if (tracks.length === 0) return;
    await node()
      .updateSubscriptions({ ...refOf(session), tracks })
      .catch(whenGone);
  }

  async function updateMetadata(request: UpdateParticipantMetadata): Promise<void> {
    const { metadata, name, attributes, requestId } = request;
    await deps.requests["participant.update"](session, {
      ...{ type: "participant.update", id: "-", attributes },
      ...(metadata !== "" && { metadata }),
      ...(name !== "" && { name }),
    });
    // The room hears of it once it knows of this participant; its own client waits for it now.
    if (!session.announced) telling.tellSelf();
    const value = new RequestResponse({ requestId, reason: RequestResponse_Reason.OK });
    send({ case: "requestResponse", value });
  }

  return async (request) => {
    switch (request.case) {
      case "offer":
        return negotiator.offered(request.value);
      case "answer":
        return negotiator.answered(request.value);
      case "addTrack":
        return addTrack(request.value);
      case "mute":
        return mute(trackIdOf(request.value.sid), request.value.muted);
      case "subscription": {
        const { trackSids, participantTracks, subscribe } = request.value;
        const sids = [...trackSids, ...participantTracks.flatMap((of) => of.trackSids)];
        selection.subscribe(sids.slice(0, MAX_NAMED).map(trackIdOf), subscribe);
        return negotiator.changed();
      }
      case "trackSetting": {
        const trackIds = request.value.trackSids.slice(0, MAX_NAMED).map(trackIdOf);
        selection.view(trackIds, request.value);
        return view(trackIds);
      }
      case "updateMetadata":
        return updateMetadata(request.value);
      case "leave":
        return deps.leave();
      // Said by default, and true here: everyone may receive everything. Or told for the record.
      case "subscriptionPermission":
        if (!request.value.allParticipants) unsupported(request);
        return;
      case "syncState":
      case "updateLayers":
      case "updateAudioTrack":
      case "updateVideoTrack":
      case "updateDataSubscription":
        return;
      default:
        unsupported(request);
    }
  };
}

/** A track that is gone, or whose section has not been offered yet: its next negotiation says the same. */
function whenGone(error: unknown): void {
  const code = frameErrorOf(error)?.code;
  if (code !== "TRACK_NOT_FOUND" && code !== "NEGOTIATION_FAILED") throw error;
}
