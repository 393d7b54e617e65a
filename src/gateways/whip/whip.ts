import type { RoomService } from "../../features/rooms/room.service.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError, type ErrorCode } from "../../protocol/errors.ts";
import { mayPublish } from "../../protocol/may-publish.ts";
import { MediaError } from "../../protocol/media-node.ts";
import { type PublishedSection, SDP_MAX_BYTES } from "../../protocol/signaling.ts";
import type { Join } from "../signaling/join.ts";
import type { Membership } from "../signaling/membership.ts";
import type { PublisherLimit } from "../signaling/publisher-limit.ts";
import { Refusal } from "../signaling/refusal.ts";
import type { Client, RtcSession, SessionRegistry } from "../signaling/rtc-session.ts";
import {
  firstNotReceived,
  oneWayOffer,
  readFragment,
  restartOffer,
  withExclusiveMux,
  writeFragment,
} from "./sdp-fragment.ts";

/** A WHIP client only sends, a WHEP client only receives. */
export type WhipKind = "whip" | "whep";

type WhipDeps = {
  registry: SessionRegistry;
  membership: Membership;
  join: Join;
  publisherLimit: PublisherLimit;
  rooms: RoomService;
  turnedAway: (ipAddress: string) => Refusal | null;
};

export type Whip = ReturnType<typeof createWhip>;

/** Participants without a socket: one offer and answer over HTTP, and a DELETE at the end. */
export function createWhip(
  { ids }: Runtime,
  { registry, membership, join, publisherLimit, rooms, turnedAway }: WhipDeps,
) {
  async function negotiate(
    kind: WhipKind,
    session: RtcSession,
    sdp: string,
    { iceRestart = false, publish }: { iceRestart?: boolean; publish?: PublishedSection[] } = {},
  ): Promise<string> {
    const ref = { roomId: session.room.id, participantId: session.id };
    // By default a node publishes every sent track and subscribes to every published one.
    const direction = kind === "whip" ? { subscribe: [], ...(publish && { publish }) } : { publish: [] };
    return (await session.site.node.negotiate({ ...ref, sdp, iceRestart, ...direction })).sdp;
  }

  /** The session of a location, for the token that started it, even if that has expired. */
  function sessionOf({ tokenId }: RtcTokenCaller, reference: string, sessionId: string) {
    const session = registry.session(sessionId);
    const { link, room } = session ?? {};
    const isHere = room !== undefined && [room.id, room.name].includes(reference) && session?.tokenId === tokenId;
    if (!session || link?.state !== "headless" || !isHere) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
    return { session, link };
  }

  const newEtag = () => `"${ids.uuid()}"`;

  return {
    /** `publish` has names and sources for the sent tracks; by default they are a microphone and a camera. */
    async start(
      kind: WhipKind,
      caller: RtcTokenCaller,
      reference: string,
      sdp: string,
      client: Client,
      publish?: PublishedSection[],
    ) {
      const { id, encrypted } = rooms.find({ ...caller, roomId: reference });
      if (id !== caller.roomId) throw new ApiError("SVC_ROOM_NOT_FOUND");
      if (encrypted) throw new ApiError("SVC_ROOM_ENCRYPTED");
      if (!permits(kind, caller)) throw new ApiError("SVC_PERMISSION_DENIED");
      if (Buffer.byteLength(sdp) > SDP_MAX_BYTES) {
        throw new ApiError("SVC_PAYLOAD_TOO_LARGE", `An offer has at most ${SDP_MAX_BYTES} bytes.`);
      }
      try {
        const away = turnedAway(client.ipAddress);
        if (away) throw away;
        const connectionId = `${kind}-${ids.uuid()}`;
        // A WHIP client is an encoder, whatever kind its token names.
        const participant =
          kind === "whip" ? { ...caller, profile: { ...caller.profile, kind: "ingress" as const } } : caller;
        const { session } = await join.join(participant, { connectionId }, client, () => false);
        const etag = newEtag();
        const offer = oneWayOffer(sdp, kind === "whip" ? "sendonly" : "recvonly");
        session.link = { state: "headless", ice: { offer, etag } };
        membership.saveToNode(session);
        session.wantsMedia = true;
        try {
          publisherLimit.take(session, kind === "whip");
          const answer = await negotiate(kind, session, offer, { publish });
          const missing = kind === "whip" ? firstNotReceived(offer, answer) : null;
          if (missing !== null) {
            const reason = `${missing} names no codec that this server takes`;
            throw new ApiError("SVC_VALIDATION_FAILED", `The offer cannot be answered: ${reason}.`);
          }
          const iceServers = join.iceServersOf(session);
          return { sessionId: session.id, sdp: withExclusiveMux(answer), etag, iceServers };
        } catch (error) {
          membership.leave(session, "failed");
          throw error;
        }
      } catch (error) {
        throw asApiError(error);
      }
    },

    /**
     * Takes a fragment with candidates, which the server does not need, or with new ICE credentials, which restart ICE. Returns the
     * server's side of the new ICE session, or null without a restart.
     */
    async patch(
      kind: WhipKind,
      caller: RtcTokenCaller,
      { roomId, sessionId }: { roomId: string; sessionId: string },
      { fragment, ifMatch, ipAddress }: { fragment: string; ifMatch: string | null; ipAddress: string },
    ): Promise<{ fragment: string; etag: string } | null> {
      const { session, link } = sessionOf(caller, roomId, sessionId);
      const credentials = readFragment(fragment);
      if (credentials === undefined) {
        throw new ApiError("SVC_VALIDATION_FAILED", "The fragment has neither ICE credentials nor candidates.");
      }
      if (ifMatch === null) throw new ApiError("SVC_PRECONDITION_REQUIRED");
      const { ice } = link;
      // RFC 9725 writes the asterisk in quotation marks in its examples.
      const matches = /^"?\*"?$/.test(ifMatch) || ifMatch.split(",").some((tag) => tag.trim() === ice?.etag);
      if (ice === null || !matches) throw new ApiError("SVC_PRECONDITION_FAILED");
      if (credentials === null || ice.offer.includes(`a=ice-ufrag:${credentials.ufrag}`)) return null;
      const offer = restartOffer(ice.offer, credentials);
      try {
        const away = turnedAway(ipAddress);
        if (away) throw away;
        const answer = await negotiate(kind, session, offer, { iceRestart: true });
        link.ice = { offer, etag: newEtag() };
        return { fragment: writeFragment(answer), etag: link.ice.etag };
      } catch (error) {
        throw asApiError(error);
      }
    },

    end(caller: RtcTokenCaller, reference: string, sessionId: string): void {
      membership.leave(sessionOf(caller, reference, sessionId).session, "left");
    },
  };
}

function permits(kind: WhipKind, { permissions }: RtcTokenCaller): boolean {
  if (kind === "whep") return permissions.subscribe;
  return mayPublish(permissions, "audio") || mayPublish(permissions, "video");
}

const REFUSAL_CODES: Record<string, ErrorCode> = {
  RATE_LIMITED: "SVC_RATE_LIMITED",
  SHUTTING_DOWN: "SVC_SHUTTING_DOWN",
  ROOM_FULL: "SVC_NO_RTC_CAPACITY",
  ROOM_CLOSED: "SVC_ROOM_CLOSED",
  // An encoder that repeats its request can join once a host has admitted it.
  IN_LOBBY: "SVC_PERMISSION_DENIED",
  ROOM_LOCKED: "SVC_PERMISSION_DENIED",
  LOBBY_FULL: "SVC_NO_RTC_CAPACITY",
};

function asApiError(error: unknown): unknown {
  if (error instanceof Refusal) {
    const { retryAfterSeconds } = error;
    const extra = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
    return new ApiError(REFUSAL_CODES[error.code] ?? "SVC_RTC_SERVER_UNREACHABLE", error.message, extra);
  }
  if (!(error instanceof MediaError)) return error;
  switch (error.code) {
    case "NEGOTIATION_FAILED":
      return new ApiError("SVC_VALIDATION_FAILED", `The offer cannot be answered: ${error.message}`);
    case "PERMISSION_DENIED":
      return new ApiError("SVC_PERMISSION_DENIED");
    default:
      return new ApiError("SVC_RTC_SERVER_UNREACHABLE");
  }
}
