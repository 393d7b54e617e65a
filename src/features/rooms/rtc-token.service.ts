import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS, iso } from "../../kernel/time/clock.ts";
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
import type { RoomRow } from "./room.table.ts";
import type { MintRtcToken } from "./rtc-token.schema.ts";
import { rtcTokenStore } from "./rtc-token.store.ts";
import { createRtcTokenVerifier } from "./rtc-token.verify.ts";
import { createTokenCutoffs } from "./token-cutoffs.ts";

export type RtcTokenService = ReturnType<typeof rtcTokenService>;

/** A token that is saved but not signed yet: signing is asynchronous, and a unit of work is not. */
export type RtcGrant = {
  tokenId: string;
  room: RoomRow;
  participantIdentity: string;
  permissions: Permissions;
  metadata: string | null;
  /** Where the participant is; null for the region of the room. */
  region: string | null;
  profile: Profile;
  createdAt: number;
  expiresAt: number;
};

export type RtcTokenDeps = {
  rooms: RoomService;
  iceServers: IceServers;
  /** Whether the project's account has minutes left; null when the limit is not enforced. */
  mayMint: ((projectId: string) => boolean) | null;
  isArchived: (projectId: string) => boolean;
};

/** A session can outlast its token, and revoking the token must still end the session. */
const EXPIRED_RETENTION_MS = 7 * DAY_MS;

export function rtcTokenService(runtime: Runtime, { rooms, iceServers, mayMint, isArchived }: RtcTokenDeps) {
  const { db, bus, config, ids, jwt, now, write } = runtime;
  const store = rtcTokenStore(db);
  const cutoffs = createTokenCutoffs(runtime);

  /** The permissions of a token, overridden by changes for this identity in this room. */
  const effectivePermissions = (roomId: string, identity: string, granted: Permissions): Permissions =>
    resolvePermissions(store.changedPermissions(roomId, identity), granted);

  function requireMinutes({ projectId }: RoomRow): void {
    if (mayMint && !mayMint(projectId)) throw new ApiError("SVC_USAGE_LIMIT_EXCEEDED");
  }

  function revoke(unit: Unit, tokenId: string, roomId: string): void {
    store.revoke(unit, tokenId, now());
    bus.publish(unit, "rtcTokenRevoked", { tokenId, roomId });
  }

  function audit(
    unit: Unit,
    author: Author,
    action: "rtc_token.minted" | "rtc_token.revoked",
    { projectId, environment, id: roomId }: RoomRow,
    resourceId: string,
  ): void {
    const entry = { action, projectId, environment, resourceId, metadata: { roomId }, at: now() };
    bus.publish(unit, "audit", { ...author, ...entry });
  }

  return {
    ...createRtcTokenVerifier(runtime, store, isArchived, effectivePermissions),

    effectivePermissions,

    /** Whether a token that a backend signed itself was signed before its holder was removed or erased. */
    isVoid: cutoffs.isVoid,

    isRevoked: (tokenId: string): boolean => store.find(tokenId)?.revokedAt !== null,

    /**
     * Saves the token; `sign` then makes the response. Only a member of the project is passed as `author`: tokens of
     * backends are not audited, but a member with a token can enter a room of the project's users.
     */
    mint(unit: Unit, ref: RoomRef, input: MintRtcToken, author: Author | null = null): RtcGrant {
      const room = rooms.findActive(ref);
      requireMinutes(room);
      // JWTs have whole seconds, so the response contains the same times as the token.
      const createdAt = Math.floor(now() / 1000) * 1000;
      const ttlSeconds = input.ttlSeconds ?? config.RTC_TOKEN_DEFAULT_TTL_SECONDS;
      const grant: RtcGrant = {
        tokenId: ids.uuid(),
        room,
        participantIdentity: input.participantIdentity,
        permissions: resolvePermissions(input.permissions),
        metadata: checkedMetadata(input.metadata ?? null),
        region: input.region ?? null,
        profile: {
          name: checkedDisplayName(input.name ?? null),
          attributes: mergedAttributes({}, input.attributes ?? {}),
          kind: input.kind ?? NO_PROFILE.kind,
        },
        createdAt,
        expiresAt: createdAt + ttlSeconds * 1000,
      };
      store.insert(unit, { ...grant, id: grant.tokenId, roomId: room.id });
      if (author) audit(unit, author, "rtc_token.minted", room, grant.tokenId);
      return grant;
    },

    /** Saves a token that a backend has signed itself, at its first use, so that it can be revoked like any other. */
    adopt(unit: Unit, ref: RoomRef, token: { tokenId: string; participantIdentity: string; expiresAt: number }): void {
      const room = rooms.findActive(ref);
      if (store.find(token.tokenId)) return;
      requireMinutes(room);
      const { tokenId: id, participantIdentity, expiresAt } = token;
      store.insert(unit, { id, roomId: room.id, participantIdentity, createdAt: now(), expiresAt });
    },

    /** Whether the token was saved for this identity in this room. */
    isKnown(tokenId: string, roomId: string, identity: string): boolean {
      const row = store.find(tokenId);
      return row?.roomId === roomId && row.participantIdentity === identity;
    },

    /** Extends a token that was signed again with a later expiry. */
    extend: store.extend,

    /** `publicUrl` is the URL at which this client reaches the server. */
    async sign(grant: RtcGrant, publicUrl: string) {
      const { tokenId, room, participantIdentity, permissions, metadata, region, profile, createdAt, expiresAt } =
        grant;
      const claims = {
        sub: participantIdentity,
        projectId: room.projectId,
        environment: room.environment,
        roomId: room.id,
        permissions,
        metadata,
        profile,
        ...(region !== null && { region }),
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

    /** Ends the token and the sessions that joined with it. Revoking it again has no effect. */
    revoke(unit: Unit, ref: RoomRef, tokenId: string, author: Author): void {
      const room = rooms.find(ref);
      const row = store.find(tokenId);
      if (row?.roomId !== room.id) throw new ApiError("SVC_RTC_TOKEN_NOT_FOUND");
      if (row.revokedAt !== null) return;
      revoke(unit, tokenId, room.id);
      audit(unit, author, "rtc_token.revoked", room, tokenId);
    },

    /**
     * Removes a participant and revokes every token with which it could join again. Returns the number of known tokens,
     * and the time from which tokens that a backend signs are valid.
     */
    revokeIdentity(unit: Unit, ref: RoomRef, identity: string): { revoked: number; validFrom: number } {
      const room = rooms.find(ref);
      const { projectId, environment, name: roomName } = room;
      const validFrom = cutoffs.cutOff(unit, { projectId, environment, roomName, identity });
      bus.publish(unit, "participantRemoved", { roomId: room.id, identity });
      const tokenIds = store.usable(room.id, identity, now());
      for (const tokenId of tokenIds) revoke(unit, tokenId, room.id);
      return { revoked: tokenIds.length, validFrom };
    },

    /** Overrides the permissions of all tokens of this identity until the room closes. */
    changePermissions(unit: Unit, roomId: string, identity: string, change: Partial<Permissions>): void {
      const before = store.changedPermissions(roomId, identity);
      store.changePermissions(unit, roomId, identity, { ...before, ...change });
    },

    /** A participant that was admitted from the lobby has to wait there again at its next join. */
    withdrawAdmission(unit: Unit, roomId: string, identity: string): void {
      const { admit, ...rest } = store.changedPermissions(roomId, identity) ?? {};
      if (admit) store.changePermissions(unit, roomId, identity, rest);
    },

    /** Deletes tokens that expired long ago; called by a recurring job. */
    sweep: () =>
      write((unit) => {
        store.deleteExpired(unit, now() - EXPIRED_RETENTION_MS);
        cutoffs.sweep(unit);
      }),
  };
}
