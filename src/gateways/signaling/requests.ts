import { isDeepStrictEqual } from "node:util";
import { inflateRawSync } from "node:zlib";
import { Value } from "@sinclair/typebox/value";
import { checkedDisplayName, checkedMetadata, mergedAttributes } from "../../features/rooms/participant.ts";
import { type FrameError, frameError } from "../../kernel/socket/frame-error.ts";
import type { Now } from "../../kernel/time/clock.ts";
import { mayPublish } from "../../protocol/may-publish.ts";
import { HAND_ATTRIBUTE, type Participant } from "../../protocol/room-records.ts";
import {
  type AckBody,
  type ClientFrameOf,
  type ClientFrameType,
  DATA_SEND_MAX_BYTES,
  PARTICIPANTS_PAGE_MAX,
  PublishedSection,
  SDP_MAX_BYTES,
  SubscribedSection,
  SubscriptionChange,
  VOICE_SECTIONS_MAX,
} from "../../protocol/signaling.ts";
import { type PackedSdp, packSdp } from "../../sfu/wire/sdp/packed.ts";
import type { Lobby } from "./lobby.ts";
import type { Membership } from "./membership.ts";
import type { PublisherLimit } from "./publisher-limit.ts";
import type { RoomStates } from "./room-state.ts";
import { participantCount, ROSTER_CHARACTERS } from "./rosters.ts";
import {
  presentParticipant,
  type RtcSession,
  receivedAll,
  withheldAmong,
  withheldFrom,
  withoutTracks,
} from "./rtc-session.ts";

const HAND = [HAND_ATTRIBUTE];

/** The requests of a participant in a room; the socket itself handles leaving and pings. */
type RequestType = Exclude<ClientFrameType, "room.join" | "room.leave" | "ping">;
export type Requests = {
  [T in RequestType]: (session: RtcSession, frame: ClientFrameOf<T>) => AckBody<T> | Promise<AckBody<T>>;
};

export function createRequests(
  now: Now,
  deps: { membership: Membership; publisherLimit: PublisherLimit; lobby: Lobby; roomStates: RoomStates },
): Requests {
  const { membership, publisherLimit, lobby, roomStates } = deps;

  /** The value of a raised hand. The server determines the order of hands. A hand that is raised again keeps its position. */
  function handOf({ room, attributes }: RtcSession): string {
    const known = attributes[HAND_ATTRIBUTE];
    if (known !== undefined) return known;
    room.lastHand = Math.max(now(), room.lastHand + 1);
    return String(room.lastHand);
  }

  function lowerHand(host: RtcSession, identity: string): void {
    roomStates.asHost(host);
    const other = host.room.sessions.get(identity);
    if (!other) throw frameError("SVC_PARTICIPANT_NOT_FOUND");
    other.attributes = mergedAttributes(other.attributes, { [HAND_ATTRIBUTE]: "" });
    membership.update(other);
  }

  return {
    async "media.offer"(session, { sdp, sdpDeflate, iceRestart, publish, subscribe }) {
      for (const { kind, source, encryption } of publish) {
        if (!mayPublish(session.permissions, kind, source)) throw denied(`publish ${kind} from ${source}`);
        if (session.room.encrypted && !encryption) throw frameError("SVC_ROOM_ENCRYPTED");
      }
      if (subscribe.length > 0 && !session.permissions.subscribe) throw denied("subscribe");
      const offer = unpackSdp({ sdp, sdpDeflate });
      publisherLimit.take(session, publish.length > 0);
      session.wantsMedia = true;
      // A client of the RTC socket must not choose what else a node takes, here and below, such as the id of a track.
      const published = publish.map((section) => Value.Clean(PublishedSection, section) as PublishedSection);
      const mids = subscribe.flatMap((section) => ("voices" in section ? [section.mid] : []));
      if (mids.length > VOICE_SECTIONS_MAX) {
        throw frameError("SVC_VALIDATION_FAILED", `subscribe: at most ${VOICE_SECTIONS_MAX} sections for voices.`);
      }
      const asked = subscribe.flatMap((section) => ("voices" in section ? [] : [section]));
      const withheld = withheldAmong(session, asked.map(idOf));
      const wanted = asked
        .filter(({ trackId }) => !withheld.has(trackId))
        .map((section) => Value.Clean(SubscribedSection, section) as SubscribedSection);
      const request = { ...refOf(session), sdp: offer, iceRestart, publish: published, subscribe: wanted };
      const voices = mids.length > 0 ? { voices: { mids, except: withheldFrom(session) } } : {};
      const answer = await session.site.node.negotiate({ ...request, ...voices });
      receivedAll(session, wanted.map(idOf));
      return { ...packSdp(answer.sdp), tracks: answer.tracks };
    },

    async "subscription.update"(session, { tracks }) {
      if (!session.permissions.subscribe && tracks.some(({ mid }) => mid !== null)) throw denied("subscribe");
      const placed = tracks.flatMap(({ trackId, mid }) => (mid === null ? [] : [trackId]));
      if (withheldAmong(session, placed).size > 0) throw denied("receive this track");
      const changes = tracks.map((change) => Value.Clean(SubscriptionChange, change) as SubscriptionChange);
      await session.site.node.updateSubscriptions({ ...refOf(session), tracks: changes });
      receivedAll(session, placed);
      return {};
    },

    async "track.mute"(session, { trackId, muted }) {
      await session.site.node.setTrackMuted({ ...refOf(session), trackId, muted });
      return {};
    },

    async "track.unpublish"(session, { trackId }) {
      await session.site.node.unpublish({ ...refOf(session), trackId });
      return {};
    },

    async "data.send"(session, { topic, to, payload }) {
      if (!session.permissions.publishData) throw denied("send data");
      if (Buffer.byteLength(payload) > DATA_SEND_MAX_BYTES) {
        throw frameError("SVC_PAYLOAD_TOO_LARGE", `payload: at most ${DATA_SEND_MAX_BYTES} bytes.`);
      }
      await session.site.node.sendData({ roomId: session.room.id, from: session.identity, topic, to, payload });
      return {};
    },

    "participant.update"(session, { identity = session.identity, metadata, name, attributes = {} }) {
      const { permissions } = session;
      const isHand = metadata === undefined && name === undefined && isDeepStrictEqual(Object.keys(attributes), HAND);
      if (identity !== session.identity) {
        if (!isHand || attributes[HAND_ATTRIBUTE] !== "") throw denied("change another one, except for its hand");
        lowerHand(session, identity);
        return {};
      }
      if (!permissions.updateMetadata && !(isHand && permissions.publishData)) throw denied("replace its metadata");
      const hand: Record<string, string> = attributes[HAND_ATTRIBUTE] ? { [HAND_ATTRIBUTE]: handOf(session) } : {};
      const checked = {
        metadata: metadata === undefined ? session.metadata : checkedMetadata(metadata),
        name: name === undefined ? session.name : checkedDisplayName(name),
        attributes: mergedAttributes(session.attributes, { ...attributes, ...hand }),
      };
      Object.assign(session, checked);
      membership.update(session);
      return {};
    },

    async "room.update"(session, { spotlight, locked, lobby, captions }) {
      await roomStates.update(session, { spotlight, locked, lobby, captions });
      return {};
    },

    async "lobby.admit"(session, { identity }) {
      const { row, author } = roomStates.asHost(session);
      // A host must not be able to store a row for names of participants that do not exist.
      if (!lobby.isWaiting(row.id, identity)) throw frameError("SVC_PARTICIPANT_NOT_FOUND");
      await lobby.admit(row, identity, author);
      return {};
    },

    async "lobby.deny"(session, { identity }) {
      const { row, author } = roomStates.asHost(session);
      await lobby.deny(row, identity, author);
      return {};
    },

    "room.participants"({ room, waiting }, { after = 0, limit = PARTICIPANTS_PAGE_MAX }) {
      const participants: Participant[] = [];
      let next: number | null = null;
      let last = after;
      let characters = 0;
      for (const session of room.sessions.values()) {
        if (session.order <= after || !session.announced) continue;
        if (participants.length === limit || characters > ROSTER_CHARACTERS) {
          next = last;
          break;
        }
        const participant = presentParticipant(session);
        participants.push(waiting ? withoutTracks(participant) : participant);
        characters += JSON.stringify(participant).length;
        last = session.order;
      }
      return { participants, participantCount: participantCount(room), next };
    },
  };
}

const idOf = ({ trackId }: { trackId: string }) => trackId;
const refOf = (session: RtcSession) => ({ roomId: session.room.id, participantId: session.id });

function denied(action: string): FrameError {
  return frameError("SVC_PERMISSION_DENIED", `The token does not permit this participant to ${action}.`);
}

function unpackSdp({ sdp, sdpDeflate }: PackedSdp): string {
  if ((sdp === undefined) === (sdpDeflate === undefined)) {
    throw frameError("SVC_VALIDATION_FAILED", "Send either sdp or sdpDeflate.");
  }
  if (sdp !== undefined) {
    if (Buffer.byteLength(sdp) > SDP_MAX_BYTES) throw tooLarge();
    return sdp;
  }
  return inflate(Buffer.from(sdpDeflate ?? "", "base64"));
}

function inflate(deflated: Buffer): string {
  try {
    return inflateRawSync(deflated, { maxOutputLength: SDP_MAX_BYTES }).toString();
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge();
    throw frameError("SVC_VALIDATION_FAILED", "sdpDeflate is not deflate-raw in base64.");
  }
}

function tooLarge(): FrameError {
  return frameError("SVC_PAYLOAD_TOO_LARGE", `A session description has at most ${SDP_MAX_BYTES} bytes.`);
}
