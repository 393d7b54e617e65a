import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Permissions, Profile } from "../../protocol/room-records.ts";
import type { IceServers } from "./ice-servers.ts";
import {
  checkedDisplayName,
  checkedMetadata,
  mergedAttributes,
  NO_PROFILE,
  resolvePermissions,
} from "./participant.ts";
import type { RoomRef, RoomService } from "./room.service.ts";
import { createRtcTokenVerifier } from "./rtc-token.verify.ts";
import type { RoomRow } from "./store/room.table.ts";
import { rtcTokenStore } from "./store/rtc-token.store.ts";

export type RtcTokenService = ReturnType<typeof rtcTokenService>;

export type MintRtcToken = {
  participantIdentity: string;
  permissions?: Partial<Permissions>;
  ttlSeconds?: number;
  metadata?: string;
} & Partial<Profile>;

/** A token that is on record but not signed yet: signing waits, and a unit of work must not. */
export type RtcGrant = {
  tokenId: string;
  room: RoomRow;
  participantIdentity: string;
  permissions: Permissions;
  metadata: string | null;
  profile: Profile;
  createdAt: number;
  expiresAt: number;
};

export type RtcTokenDeps = {
  rooms: RoomService;
  iceServers: IceServers;
  /** Whether the project's account may still mint; null where usage limits nobody. */
  mayMint: ((projectId: string) => boolean) | null;
  isArchived: (projectId: string) => boolean;
};

/** A session outlives its token, and revoking the token must still find it. */
const KEEP_EXPIRED_MS = 7 * 24 * 3_600_000;

export function rtcTokenService(runtime: Runtime, { rooms, iceServers, mayMint, isArchived }: RtcTokenDeps) {
  const { db, bus, config, ids, jwt, now, write } = runtime;
  const store = rtcTokenStore(db);

  /** What a token grants, as changed since for this identity in this room. */
  const heldPermissions = (roomId: string, identity: string, granted: Permissions): Permissions =>
    resolvePermissions(store.changedPermissions(roomId, identity), granted);

  function requireMinutes({ projectId }: RoomRow): void {
    if (mayMint && !mayMint(projectId)) throw new ApiError("SVC_USAGE_LIMIT_EXCEEDED");
  }

  function revoke(unit: Unit, tokenId: string, roomId: string): void {
    store.revoke(unit, tokenId, now());
    bus.publish(unit, "rtcTokenRevoked", { tokenId, roomId });
  }

  return {
    ...createRtcTokenVerifier(runtime, store, isArchived, heldPermissions),

    heldPermissions,

    isRevoked: (tokenId: string): boolean => store.find(tokenId)?.revokedAt !== null,

    /** Puts the token on record; `sign` then makes the answer of it. */
    mint(unit: Unit, ref: RoomRef, input: MintRtcToken): RtcGrant {
      const room = rooms.findActive(ref);
      requireMinutes(room);
      // Whole seconds, like the signature's: the answer and the token name the same moments.
      const createdAt = Math.floor(now() / 1000) * 1000;
      const ttlSeconds = input.ttlSeconds ?? config.RTC_TOKEN_DEFAULT_TTL_SECONDS;
      const grant: RtcGrant = {
        tokenId: ids.uuid(),
        room,
        participantIdentity: input.participantIdentity,
        permissions: resolvePermissions(input.permissions),
        metadata: checkedMetadata(input.metadata ?? null),
        profile: {
          name: checkedDisplayName(input.name ?? null),
          attributes: mergedAttributes({}, input.attributes ?? {}),
          kind: input.kind ?? NO_PROFILE.kind,
        },
        createdAt,
        expiresAt: createdAt + ttlSeconds * 1000,
      };
      store.insert(unit, { ...grant, id: grant.tokenId, roomId: room.id });
      return grant;
    },

    /**
     * Puts a token on record that somebody else has signed, at its first use: from then on it is revoked, and its holder
     * removed, as with any other. Again: no effect.
     */
    adopt(unit: Unit, ref: RoomRef, token: { tokenId: string; participantIdentity: string; expiresAt: number }): void {
      const room = rooms.findActive(ref);
      if (store.find(token.tokenId)) return;
      requireMinutes(room);
      const { tokenId: id, participantIdentity, expiresAt } = token;
      store.insert(unit, { id, roomId: room.id, participantIdentity, createdAt: now(), expiresAt });
    },

    /** Whether such a token is on record for this identity in this room. */
    isKnown(tokenId: string, roomId: string, identity: string): boolean {
      const row = store.find(tokenId);
      return row?.roomId === roomId && row.participantIdentity === identity;
    },

    /** Another was signed in its place, which lives until then: it is on record for as long. */
    prolong: (unit: Unit, tokenId: string, expiresAt: number): void => store.prolong(unit, tokenId, expiresAt),

    /** `publicUrl` is where this client reaches the server. */
    async sign(grant: RtcGrant, publicUrl: string) {
      const { tokenId, room, participantIdentity, permissions, metadata, profile, createdAt, expiresAt } = grant;
      const claims = {
        sub: participantIdentity,
        projectId: room.projectId,
        environment: room.environment,
        roomId: room.id,
        permissions,
        metadata,
        profile,
      };
      return {
        token: await jwt.sign("rtc-token", tokenId, claims, expiresAt),
        tokenId,
        endpoint: `${publicUrl.replace(/^http/, "ws")}/v1/rtc`,
        iceServers: iceServers({ id: tokenId, identity: participantIdentity }, expiresAt),
        roomId: room.id,
        roomName: room.name,
        participantIdentity,
        permissions,
        metadata,
        ...profile,
        expiresAt: iso(expiresAt),
        createdAt: iso(createdAt),
      };
    },

    /** Ends the token and whoever joined with it. Again: no effect. */
    revoke(unit: Unit, ref: RoomRef, tokenId: string): void {
      const room = rooms.find(ref);
      const row = store.find(tokenId);
      if (row?.roomId !== room.id) throw new ApiError("SVC_RTC_TOKEN_NOT_FOUND");
      if (row.revokedAt === null) revoke(unit, tokenId, room.id);
    },

    /**
     * Removes someone for good: out of the room, and every token with which they could come back. Answers how many
     * tokens that were. A token minted later counts again.
     */
    revokeIdentity(unit: Unit, ref: RoomRef, identity: string): number {
      const room = rooms.find(ref);
      bus.publish(unit, "participantRemoved", { roomId: room.id, identity });
      const tokenIds = store.usable(room.id, identity, now());
      for (const tokenId of tokenIds) revoke(unit, tokenId, room.id);
      return tokenIds.length;
    },

    /** Holds for this identity in this room, whichever of its tokens it comes with, until changed or the room closes. */
    changePermissions(unit: Unit, roomId: string, identity: string, change: Partial<Permissions>): void {
      const before = store.changedPermissions(roomId, identity);
      store.changePermissions(unit, roomId, identity, { ...before, ...change });
    },

    /** Forgets tokens that are long over; called by a job. */
    sweep: () => write((unit) => store.removeExpired(unit, now() - KEEP_EXPIRED_MS)),
  };
}
