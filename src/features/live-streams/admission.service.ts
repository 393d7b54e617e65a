import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { LiveStreamHostRole } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { SUBSCRIBE_ONLY } from "../../protocol/room-records.ts";
import type { ChatService } from "../chat/chat.ts";
import type { ChatGrant } from "../chat/tokens/token.service.ts";
import type { RtcGrant, RtcTokenService } from "../rooms/rtc-token.service.ts";
import type { LiveStreamService, StreamRef } from "./live-stream.service.ts";
import type { LiveStreamStore } from "./live-stream.store.ts";
import type { HostChatToken, HostRow, LiveStreamRow } from "./live-stream.table.ts";

/** The credentials of a host or viewer, stored but not signed yet. */
export type StreamGrant = {
  streamId: string;
  identity: string;
  role: LiveStreamHostRole | "VIEWER";
  rtc: RtcGrant;
  chat: ChatGrant;
};

type AdmissionDeps = {
  store: LiveStreamStore;
  streams: LiveStreamService;
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

/** Admits hosts and viewers to streams, and removes them. */
export function admissionService({ now }: Runtime, { store, streams, rtcTokens, chat }: AdmissionDeps) {
  /** A stream has exactly one HOST, who keeps the role whatever the request says. */
  function roleFor(stream: LiveStreamRow, identity: string, requested?: LiveStreamHostRole): LiveStreamHostRole {
    if (identity === stream.hostIdentity) return "HOST";
    if (requested === "HOST") throw new ApiError("SVC_CONFLICT", "A live stream has one HOST.");
    return "CO_HOST";
  }

  function joinChat(unit: Unit, stream: LiveStreamRow, identity: string, role: "MODERATOR" | "MEMBER"): void {
    const member = chat.members.find(stream.conversationId, identity);
    // A role that the developer has raised is kept.
    if (member?.status === "ACTIVE" && (role === "MEMBER" || member.role === "ADMIN")) return;
    chat.members.add(unit, stream.conversationId, { userId: identity, role });
  }

  function mint(
    unit: Unit,
    stream: LiveStreamRow,
    identity: string,
    role: StreamGrant["role"],
    author: Author | null,
  ): StreamGrant {
    const isHost = role !== "VIEWER";
    const permissions = isHost ? HOST_PERMISSIONS : SUBSCRIBE_ONLY;
    const rtc = rtcTokens.mint(unit, stream, { participantIdentity: identity, permissions }, author);
    const grant = chat.tokens.mint(unit, stream, {
      userId: identity,
      conversations: [stream.conversationId],
      scopes: isHost ? ["chat:read", "chat:send", "chat:moderate"] : ["chat:read", "chat:send"],
    });
    return { streamId: stream.publicId, identity, role, rtc, chat: grant };
  }

  return {
    /** Registers a host, or mints new credentials for a registered one. */
    admitHost(
      unit: Unit,
      ref: StreamRef,
      identity: string,
      requested?: LiveStreamHostRole,
      author: Author | null = null,
    ): StreamGrant {
      const stream = streams.findOpen(ref);
      const role = roleFor(stream, identity, requested);
      const at = now();
      joinChat(unit, stream, identity, "MODERATOR");
      const grant = mint(unit, stream, identity, role, author);
      const known = store.findHost(stream.id, identity);
      store.saveHost(unit, {
        streamId: stream.id,
        identity,
        role,
        chatTokens: [...unexpiredTokens(known, at), { tokenId: grant.chat.tokenId, expiresAt: grant.chat.expiresAt }],
        addedAt: known?.addedAt ?? at,
        removedAt: null,
      });
      const { publicId: streamId } = stream;
      streams.publish(unit, stream, "live_stream.host_joined", at, { streamId, identity, role, at: iso(at) });
      return grant;
    },

    /** Removes a co-host from the room and the chat at once; their messages stay. */
    removeHost(unit: Unit, ref: StreamRef, identity: string, author: Author): void {
      const stream = streams.find(ref);
      const host = store.findHost(stream.id, identity);
      if (!host) throw new ApiError("SVC_HOST_NOT_FOUND");
      if (host.role === "HOST") throw new ApiError("SVC_CONFLICT", "The HOST of a live stream cannot be removed.");
      const at = now();
      store.saveHost(unit, { ...host, chatTokens: [], removedAt: at });
      rtcTokens.revokeIdentity(unit, stream, identity);
      for (const { tokenId } of unexpiredTokens(host, at)) chat.tokens.revoke(unit, stream, tokenId);
      const member = chat.members.find(stream.conversationId, identity);
      if (member?.status === "ACTIVE") chat.members.remove(unit, chat.access.asServer(stream.conversationId), identity);
      const { publicId: streamId } = stream;
      streams.publish(unit, stream, "live_stream.host_left", at, { streamId, identity, at: iso(at) });
      streams.audit(unit, author, "live_stream.host_removed", stream);
    },

    /** New credentials for a known viewer do not count as a new viewer. */
    admitViewer(unit: Unit, ref: StreamRef, identity: string, author: Author | null = null): StreamGrant {
      const stream = streams.findOpen(ref);
      joinChat(unit, stream, identity, "MEMBER");
      const grant = mint(unit, stream, identity, "VIEWER", author);
      const known = store.findViewer(stream.id, identity);
      if (known && known.leftAt === null) return grant;
      const at = now();
      store.saveViewer(unit, { streamId: stream.id, identity, joinedAt: at, leftAt: null });
      const { publicId: streamId } = stream;
      streams.publish(unit, stream, "live_stream.viewer_joined", at, { streamId, identity, at: iso(at) });
      return grant;
    },

    /** Called when the backend reports that a viewer has left. */
    leave(unit: Unit, ref: StreamRef, identity: string): void {
      const stream = streams.find(ref);
      const viewer = store.findViewer(stream.id, identity);
      if (!viewer || viewer.leftAt !== null) return;
      const at = now();
      store.saveViewer(unit, { ...viewer, leftAt: at });
      const { publicId: streamId } = stream;
      streams.publish(unit, stream, "live_stream.viewer_left", at, { streamId, identity, at: iso(at) });
    },

    /** Removes a viewer from the room and bans them from the chat; they get no credentials until the ban is lifted. */
    removeViewer(unit: Unit, ref: StreamRef, identity: string, author: Author): void {
      const stream = streams.find(ref);
      const known = store.findViewer(stream.id, identity);
      if (!known || store.findHost(stream.id, identity)) throw new ApiError("SVC_MEMBER_NOT_FOUND");
      rtcTokens.revokeIdentity(unit, stream, identity);
      chat.members.change(unit, chat.access.asServer(stream.conversationId), identity, { status: "BANNED" });
      streams.audit(unit, author, "live_stream.viewer_removed", stream);
    },

    async sign(grant: StreamGrant, publicUrl: string) {
      const [rtc, chatToken] = await Promise.all([
        rtcTokens.sign(grant.rtc, publicUrl),
        chat.tokens.sign(grant.chat, publicUrl),
      ]);
      const { streamId, identity, role } = grant;
      return { streamId, identity, role, rtc, chat: chatToken };
    },
  };
}

function unexpiredTokens(host: HostRow | undefined, at: number): HostChatToken[] {
  return host?.chatTokens.filter(({ expiresAt }) => expiresAt > at) ?? [];
}
