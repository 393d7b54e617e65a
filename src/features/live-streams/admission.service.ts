import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveStreamHostRole } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ChatService } from "../chat/chat.ts";
import type { ChatGrant } from "../chat/tokens/token.service.ts";
import type { RtcGrant, RtcTokenService } from "../rooms/rtc-token.service.ts";
import type { LiveStreamService, StreamRef } from "./live-stream.service.ts";
import type { HostChatToken, HostRow, LiveStreamRow } from "./live-stream.table.ts";
import type { PeopleStore } from "./participant.store.ts";

/** What somebody gets for a stream: on record, but not signed yet. */
export type Admission = {
  streamId: string;
  identity: string;
  role: LiveStreamHostRole | "VIEWER";
  rtc: RtcGrant;
  chat: ChatGrant;
};

type AdmissionDeps = {
  streams: LiveStreamService;
  people: PeopleStore;
  rtcTokens: RtcTokenService;
  chat: ChatService;
};

const HOST_PERMISSIONS = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: true,
  publishVideo: true,
  publishData: true,
};
/** Whatever a request says: nothing of it is looked at. */
const VIEWER_PERMISSIONS = {
  join: true,
  subscribe: true,
  publish: false,
  publishAudio: false,
  publishVideo: false,
  publishData: false,
};

/** Who comes onto a stream, and who has to go. */
export function admissionService({ now }: Runtime, { streams, people, rtcTokens, chat }: AdmissionDeps) {
  /** A second HOST cannot be; the first keeps the role whatever is asked for. */
  function roleFor(stream: LiveStreamRow, identity: string, asked: LiveStreamHostRole | undefined): LiveStreamHostRole {
    if (identity === stream.hostIdentity) return "HOST";
    if (asked === "HOST") throw new ApiError("SVC_CONFLICT", "A live stream has one HOST.");
    return "CO_HOST";
  }

  function joinChat(unit: Unit, stream: LiveStreamRow, identity: string, role: "MODERATOR" | "MEMBER"): void {
    const member = chat.members.find(stream.conversationId, identity);
    // Someone whom the developer has given more is not taken back to less.
    if (member?.status === "ACTIVE" && (role === "MEMBER" || member.role === "ADMIN")) return;
    chat.members.add(unit, stream.conversationId, { userId: identity, role });
  }

  function mint(unit: Unit, stream: LiveStreamRow, identity: string, role: Admission["role"]): Admission {
    const hosting = role !== "VIEWER";
    const rtc = rtcTokens.mint(unit, stream, {
      participantIdentity: identity,
      permissions: hosting ? HOST_PERMISSIONS : VIEWER_PERMISSIONS,
    });
    const grant = chat.tokens.mint(unit, stream, {
      userId: identity,
      conversations: [stream.conversationId],
      scopes: hosting ? ["chat:read", "chat:send", "chat:moderate"] : ["chat:read", "chat:send"],
    });
    return { streamId: stream.publicId, identity, role, rtc, chat: grant };
  }

  return {
    /** Registers a host, or gives one that is registered new credentials. */
    admitHost(unit: Unit, ref: StreamRef, identity: string, asked?: LiveStreamHostRole): Admission {
      const stream = streams.findOpen(ref);
      const role = roleFor(stream, identity, asked);
      const at = now();
      joinChat(unit, stream, identity, "MODERATOR");
      const admission = mint(unit, stream, identity, role);
      const known = people.findHost(stream.id, identity);
      people.saveHost(unit, {
        streamId: stream.id,
        identity,
        role,
        chatTokens: [...usable(known, at), { tokenId: admission.chat.tokenId, expiresAt: admission.chat.expiresAt }],
        addedAt: known?.addedAt ?? at,
        removedAt: null,
      });
      const { publicId: streamId } = stream;
      streams.announce(unit, stream, "live_stream.host_joined", at, { streamId, identity, role, at: iso(at) });
      return admission;
    },

    /** Out of the room and the chat at once; what they wrote stays. */
    removeHost(unit: Unit, ref: StreamRef, identity: string): void {
      const stream = streams.find(ref);
      const host = people.findHost(stream.id, identity);
      if (!host) throw new ApiError("SVC_HOST_NOT_FOUND");
      if (host.role === "HOST") throw new ApiError("SVC_CONFLICT", "The HOST of a live stream cannot be removed.");
      const at = now();
      people.saveHost(unit, { ...host, chatTokens: [], removedAt: at });
      rtcTokens.revokeIdentity(unit, stream, identity);
      for (const { tokenId } of usable(host, at)) chat.tokens.revoke(unit, stream, tokenId);
      const member = chat.members.find(stream.conversationId, identity);
      if (member?.status === "ACTIVE") chat.members.remove(unit, chat.access.asServer(stream.conversationId), identity);
      const { publicId: streamId } = stream;
      streams.announce(unit, stream, "live_stream.host_left", at, { streamId, identity, at: iso(at) });
    },

    /** A refreshed token is no second viewer. */
    admitViewer(unit: Unit, ref: StreamRef, identity: string): Admission {
      const stream = streams.findOpen(ref);
      joinChat(unit, stream, identity, "MEMBER");
      const admission = mint(unit, stream, identity, "VIEWER");
      const known = people.findViewer(stream.id, identity);
      if (known && known.leftAt === null) return admission;
      const at = now();
      people.saveViewer(unit, { streamId: stream.id, identity, joinedAt: at, leftAt: null });
      const { publicId: streamId } = stream;
      streams.announce(unit, stream, "live_stream.viewer_joined", at, { streamId, identity, at: iso(at) });
      return admission;
    },

    /** The backend says that a viewer is gone. Of one who is not there it changes nothing. */
    leave(unit: Unit, ref: StreamRef, identity: string): void {
      const stream = streams.find(ref);
      const viewer = people.findViewer(stream.id, identity);
      if (!viewer || viewer.leftAt !== null) return;
      const at = now();
      people.saveViewer(unit, { ...viewer, leftAt: at });
      const { publicId: streamId } = stream;
      streams.announce(unit, stream, "live_stream.viewer_left", at, { streamId, identity, at: iso(at) });
    },

    /** Out of the room, banned from the chat, and no credentials any more until the ban is lifted there. */
    removeViewer(unit: Unit, ref: StreamRef, identity: string): void {
      const stream = streams.find(ref);
      const known = people.findViewer(stream.id, identity);
      if (!known || people.findHost(stream.id, identity)) throw new ApiError("SVC_MEMBER_NOT_FOUND");
      rtcTokens.revokeIdentity(unit, stream, identity);
      chat.members.change(unit, chat.access.asServer(stream.conversationId), identity, { status: "BANNED" });
    },

    async sign(admission: Admission, publicUrl: string) {
      const [rtc, chatToken] = await Promise.all([
        rtcTokens.sign(admission.rtc, publicUrl),
        chat.tokens.sign(admission.chat, publicUrl),
      ]);
      const { streamId, identity, role } = admission;
      return { streamId, identity, role, rtc, chat: chatToken };
    },
  };
}

/** Those that are over are forgotten by the chat as well. */
function usable(host: HostRow | undefined, at: number): HostChatToken[] {
  return host?.chatTokens.filter(({ expiresAt }) => expiresAt > at) ?? [];
}
