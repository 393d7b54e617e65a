import {
  type AddTrackRequest,
  RequestResponse,
  RequestResponse_Reason,
  SignalRequest,
  type SimulateScenario,
  type SubscriptionPermission,
  TrackPublishedResponse,
  type UpdateParticipantMetadata,
} from "@livekit/protocol";
import { frameErrorOf } from "../../kernel/socket/frame-error.ts";
import { ApiError } from "../../protocol/errors.ts";
import { trackIdOf } from "../../protocol/media/livekit-sids.ts";
import { eachField } from "../../protocol/media/protobuf.ts";
import type { MediaNode } from "../../protocol/media-node.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";
import type { SignalingCore } from "../signaling/signaling.ts";
import { decodeBinary, decodeJson } from "./message-reader.ts";
import { type Message, type Negotiator, refOf } from "./negotiation/negotiator.ts";
import type { PublishedTracks } from "./published-tracks.ts";
import type { SignalNotifier } from "./signal-notifier.ts";
import type { TrackSelection } from "./track-selection.ts";

/** The maximum number of tracks in one request, which is more than a room has. */
const MAX_TRACKS_PER_REQUEST = 2_048;

type RequestDeps = {
  session: RtcSession;
  requests: SignalingCore["requests"];
  publisherLimit: SignalingCore["publisherLimit"];
  published: PublishedTracks;
  selection: TrackSelection;
  negotiator: Negotiator;
  notifier: SignalNotifier;
  node(): MediaNode;
  send(message: Message): void;
  refuse(request: Request, reason: RequestResponse_Reason, message: string): void;
  leave(): void;
  /** Returns false for a scenario that is not served. */
  simulate(scenario: SimulateScenario): Promise<boolean>;
  setReceivers(permission: SubscriptionPermission): Promise<void>;
};

/** Handles the requests of one client, which come one after another. */
export function createRequestHandler(deps: RequestDeps): (request: Request) => Promise<void> {
  const { session, published, selection, negotiator, notifier, node, send, refuse } = deps;

  const unsupported = (request: Request) =>
    refuse(request, RequestResponse_Reason.UNSUPPORTED_TYPE, `${request.case ?? "this request"} is not served here`);

  function addTrack(request: AddTrackRequest): void {
    if (deps.publisherLimit.isFull(session)) {
      const { message } = new ApiError("SVC_ROOM_PUBLISHERS_FULL");
      refuse({ case: "addTrack", value: request }, RequestResponse_Reason.LIMIT_EXCEEDED, message);
      return;
    }
    const track = published.add(request);
    if (typeof track === "string") {
      refuse({ case: "addTrack", value: request }, RequestResponse_Reason.NOT_ALLOWED, track);
      return;
    }
    deps.publisherLimit.take(session, true);
    const value = new TrackPublishedResponse({ cid: request.cid, track: track.info });
    send({ case: "trackPublished", value });
  }

  async function mute(trackId: string, muted: boolean): Promise<void> {
    const track = published.find(trackId);
    if (!track) return;
    track.muted = muted;
    track.info.muted = muted;
    await node()
      .setTrackMuted({ ...refOf(session), trackId, muted })
      .catch(ignoreMissingTrack);
  }

  async function view(trackIds: readonly string[]): Promise<void> {
    const tracks = trackIds.flatMap((trackId) => {
      const section = negotiator.sections.of(trackId);
      return section ? [{ trackId, mid: section.mid, ...selection.settingsOf(trackId) }] : [];
    });
    if (tracks.length === 0) return;
    await node()
      .updateSubscriptions({ ...refOf(session), tracks })
      .catch(ignoreMissingTrack);
  }

  async function updateMetadata(request: UpdateParticipantMetadata): Promise<void> {
    const { metadata, name, attributes, requestId } = request;
    await deps.requests["participant.update"](session, {
      type: "participant.update",
      id: "-",
      attributes,
      ...(metadata !== "" && { metadata }),
      ...(name !== "" && { name }),
    });
    // The room is notified once the participant is announced, but the client waits for the update now.
    if (!session.announced) notifier.notifySelf();
    const value = new RequestResponse({ requestId, reason: RequestResponse_Reason.OK });
    send({ case: "requestResponse", value });
  }

  return async (request) => {
    switch (request.case) {
      case "offer":
        return negotiator.onOffer(request.value);
      case "answer":
        return negotiator.onAnswer(request.value);
      case "addTrack":
        return addTrack(request.value);
      case "mute":
        return mute(trackIdOf(request.value.sid), request.value.muted);
      case "subscription": {
        const { trackSids, participantTracks, subscribe } = request.value;
        const sids = [...trackSids, ...participantTracks.flatMap((of) => of.trackSids)];
        selection.subscribe(sids.slice(0, MAX_TRACKS_PER_REQUEST).map(trackIdOf), subscribe);
        return negotiator.update();
      }
      case "trackSetting": {
        const trackIds = request.value.trackSids.slice(0, MAX_TRACKS_PER_REQUEST).map(trackIdOf);
        selection.updateSettings(trackIds, request.value);
        return view(trackIds);
      }
      case "updateMetadata":
        return updateMetadata(request.value);
      case "leave":
        return deps.leave();
      case "simulate":
        if (!(await deps.simulate(request.value))) unsupported(request);
        return;
      case "subscriptionPermission":
        return deps.setReceivers(request.value);
      // These requests only inform the server.
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

/** The track is unpublished or has no section yet; its next negotiation applies the same settings. */
function ignoreMissingTrack(error: unknown): void {
  const code = frameErrorOf(error)?.code;
  if (code !== "TRACK_NOT_FOUND" && code !== "NEGOTIATION_FAILED") throw error;
}

/** `case` is undefined for a request of a newer protocol version. */
export type Request = SignalRequest["message"];

/** Most clients send protobuf, and some send its JSON form. Null for malformed requests. */
export function readRequest(
  text: string | null,
  binary: Buffer | undefined,
): { request: Request; fields: number } | null {
  const decoded =
    text === null ? decodeBinary(SignalRequest, binary ?? Buffer.alloc(0)) : decodeJson(SignalRequest, text);
  return decoded && { request: decoded.message.message, fields: decoded.fields };
}

/** The field numbers of pings and of ICE candidates, which are not used. */
const KEEPALIVE: ReadonlySet<number> = new Set(
  (["trickle", "ping", "ping_req"] as const).map((name) => {
    const field = SignalRequest.fields.list().find((one) => one.name === name);
    if (!field) throw new Error(`SignalRequest has no field ${name}`);
    return field.no;
  }),
);

/** Whether the first field of a frame shows that it is a ping or an ICE candidate. */
export function isKeepalive(binary: Buffer | undefined): boolean {
  let first = 0;
  if (binary) {
    eachField(binary, (field) => {
      first = field;
      return false;
    });
  }
  return KEEPALIVE.has(first);
}

/** Identifies the rejected request in the response, if the protocol has a field for it. */
export function requestReference(request: Request): Partial<Pick<RequestResponse, "request" | "requestId">> {
  switch (request.case) {
    case "addTrack":
    case "mute":
    case "updateMetadata":
    case "updateAudioTrack":
    case "updateVideoTrack":
      return { request, ...(request.case === "updateMetadata" && { requestId: request.value.requestId }) };
    case "publishDataTrackRequest":
      return { request: { case: "publishDataTrack", value: request.value } };
    case "unpublishDataTrackRequest":
      return { request: { case: "unpublishDataTrack", value: request.value } };
    default:
      return {};
  }
}
