import { createHash } from "node:crypto";
import { decodeJwt, errors, jwtVerify, SignJWT } from "jose";
import { checkedDisplayName, checkedMetadata, mergedAttributes } from "../../features/rooms/participant.ts";
import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import { SIGNED_TOKEN_MAX_MS } from "../../features/rooms/token-cutoffs.ts";
import type { ApiKeyCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Now } from "../../kernel/time/clock.ts";
import { every } from "../../kernel/time/timers.ts";
import { foreignName } from "../../protocol/ids.ts";
import {
  PARTICIPANT_KINDS,
  type ParticipantKind,
  type Permissions,
  type Profile,
  type TrackSource,
} from "../../protocol/room-records.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";
import { asTokenRefusal, TokenRefused } from "./refusals.ts";

const CLOCK_TOLERANCE_SECONDS = 10;
/** The claim of a refreshed token with the id of the token that it replaces. */
const TOKEN_ID_CLAIM = "stoaTokenId";

/** The claim of a token whose holder may join an existing room and create none. */
export const EXISTING_ROOM_CLAIM = "stoaExistingRoom";

/** The `video` claim, which LiveKit calls a grant. */
type VideoGrant = {
  room?: string;
  roomJoin?: boolean;
  roomAdmin?: boolean;
  roomList?: boolean;
  roomCreate?: boolean;
  roomRecord?: boolean;
  ingressAdmin?: boolean;
  agent?: boolean;
  hidden?: boolean;
  recorder?: boolean;
  /** The room to which an administrator may move participants. */
  destinationRoom?: string;
  canPublish?: boolean;
  canSubscribe?: boolean;
  canPublishData?: boolean;
  canPublishSources?: string[];
  canUpdateOwnMetadata?: boolean;
};

export type LivekitToken = {
  key: ApiKeyCaller;
  hash: string;
  /** The id of the token that this one replaces; null unless this server signed it. */
  tokenId: string | null;
  identity: string;
  grant: VideoGrant;
  claims: Record<string, unknown>;
  /** Null when the token does not contain the time of its signing. */
  signedAt: number | null;
  expiresAt: number;
};

export type SigningKeys = {
  signer(publicId: string): ApiKeyCaller | null;
  signingSecret(publicId: string): string;
};

/** Verifies and reads a token. Throws `TokenRefused` with a reason for the developer. */
export function createTokenReader({ signer, signingSecret }: SigningKeys, now: Now) {
  return async (token: string): Promise<LivekitToken> => {
    const key = signer(issuerOf(token));
    if (!key) throw new TokenRefused("invalid API key: the token's iss names none that is in use");
    const secret = Buffer.from(signingSecret(key.publicId));
    const { payload } = await jwtVerify(token, secret, {
      algorithms: ["HS256"],
      currentDate: new Date(now()),
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      requiredClaims: ["exp"],
    }).catch((error) => {
      throw new TokenRefused(
        error instanceof errors.JWTExpired ? "the token has expired" : `the token is not valid: ${reasonOf(error)}`,
      );
    });
    const expiresAt = (payload.exp ?? 0) * 1000;
    // livekit-server-sdk before 2.15.1 writes `nbf: 0`.
    const signedAt = payload.iat ?? (payload.nbf || undefined);
    // The token's record and the cut-offs of its holder are kept for the maximum lifetime of a token, so the lifetime
    // is limited.
    if (
      expiresAt >
      Math.min(now(), (signedAt ?? Number.POSITIVE_INFINITY) * 1000 + CLOCK_TOLERANCE_SECONDS * 1000) +
        SIGNED_TOKEN_MAX_MS
    )
      throw new TokenRefused("the token lives longer than 30 days");
    const tokenId = payload[TOKEN_ID_CLAIM];
    return {
      key,
      hash: createHash("sha256").update(token).digest("hex"),
      tokenId: typeof tokenId === "string" ? tokenId : null,
      identity: payload.sub ?? "",
      grant: (typeof payload.video === "object" && payload.video !== null ? payload.video : {}) as VideoGrant,
      claims: payload,
      signedAt: signedAt === undefined ? null : signedAt * 1000,
      expiresAt,
    };
  };
}

function issuerOf(token: string): string {
  try {
    return decodeJwt(token).iss ?? "";
  } catch {
    throw new TokenRefused("the token is no JWT");
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return "its signature is wrong (is it the secret of this API key?)";
  return error instanceof Error ? error.message : "it cannot be read";
}

/** The error message for a name that `foreignName` rejects. */
export const NAME_RULE =
  "must have 1 to 256 characters, without control characters, bidirectional overrides and white space at either end, and be neither '.' nor '..'";

export function joinTarget({ grant, identity: sub }: LivekitToken): { roomName: string; identity: string } {
  if (grant.roomJoin !== true) throw new TokenRefused("the token has no roomJoin grant");
  const [roomName, identity] = [foreignName(grant.room), foreignName(sub)];
  if (roomName === null) throw new TokenRefused(`the token's room ${NAME_RULE}`);
  if (identity === null) throw new TokenRefused(`the token's identity ${NAME_RULE}`);
  return { roomName, identity };
}

const kindNamed = (name: unknown): ParticipantKind | undefined => PARTICIPANT_KINDS.find((kind) => kind === name);

export function profileOf({ claims, grant }: LivekitToken): { profile: Profile; metadata: string | null } {
  return asTokenRefusal(() => ({
    metadata: checkedMetadata(typeof claims.metadata === "string" ? claims.metadata : null),
    profile: {
      name: checkedDisplayName(typeof claims.name === "string" ? claims.name : null),
      attributes: mergedAttributes({}, textsOf(claims.attributes)),
      kind:
        grant.agent && (claims.kind ?? "standard") === "standard" ? "agent" : (kindNamed(claims.kind) ?? "standard"),
    },
  }));
}

function textsOf(attributes: unknown): Record<string, string> {
  if (typeof attributes !== "object" || attributes === null) return {};
  return Object.fromEntries(
    Object.entries(attributes).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

const SOURCES: Record<string, TrackSource> = {
  camera: "camera",
  microphone: "microphone",
  screen_share: "screenShare",
  screen_share_audio: "screenShareAudio",
};

function sourcesOf({ canPublishSources }: VideoGrant): TrackSource[] | null {
  if (!Array.isArray(canPublishSources) || canPublishSources.length === 0) return null;
  return [...new Set(canPublishSources.flatMap((source) => SOURCES[String(source).toLowerCase()] ?? []))];
}

const AUDIO_SOURCES: readonly TrackSource[] = ["microphone", "screenShareAudio"];

/** `sources` is null for all sources. The kinds tell our own clients which buttons to show. */
export function publishPermissions(mayPublish: boolean, sources: TrackSource[] | null) {
  const audio = sources === null || sources.some((source) => AUDIO_SOURCES.includes(source));
  const video = sources === null || sources.some((source) => !AUDIO_SOURCES.includes(source));
  return {
    publish: mayPublish && (audio || video),
    publishAudio: mayPublish && audio && !video,
    publishVideo: mayPublish && video && !audio,
    publishSources: sources ?? [],
  };
}

/** A missing `can…` field grants the permission. */
export function permissionsOf(grant: VideoGrant): Permissions {
  return {
    join: true,
    subscribe: grant.canSubscribe ?? true,
    ...publishPermissions((grant.canPublish ?? true) && grant.hidden !== true, sourcesOf(grant)),
    publishData: grant.canPublishData ?? true,
    updateMetadata: grant.canUpdateOwnMetadata ?? false,
    ...(grant.roomAdmin === true && { host: true }),
  };
}

/** The claims of a token with which a participant can join another room, with its current permissions and profile. */
export function claimsFor(
  room: string,
  { [TOKEN_ID_CLAIM]: _id, roomConfig: _config, video, ...claims }: Record<string, unknown>,
  { permissions, name, metadata, attributes }: Pick<RtcSession, "permissions" | "name" | "metadata" | "attributes">,
): Record<string, unknown> {
  const { subscribe, publish, publishData, updateMetadata, publishSources = [] } = permissions;
  const names = publishSources.flatMap((source) => Object.keys(SOURCES).find((name) => SOURCES[name] === source) ?? []);
  const grant = {
    ...(video as VideoGrant),
    room,
    canSubscribe: subscribe,
    canPublish: publish,
    canPublishData: publishData,
    canUpdateOwnMetadata: updateMetadata,
    canPublishSources: names,
  };
  return { ...claims, video: grant, name: name ?? "", metadata: metadata ?? "", attributes };
}

/** Signs LiveKit tokens with an API key's secret, as the developer's backend does. */
export function createTokenSigner({ signingSecret }: Pick<SigningKeys, "signingSecret">, now: Now) {
  return (publicId: string, identity: string, claims: Record<string, unknown>, expiresAt: number): Promise<string> =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setIssuer(publicId)
      .setSubject(identity)
      .setIssuedAt(Math.floor(now() / 1000))
      .setNotBefore(Math.floor(now() / 1000))
      .setExpirationTime(Math.ceil(expiresAt / 1000))
      .sign(Buffer.from(signingSecret(publicId)));
}

export type SignToken = ReturnType<typeof createTokenSigner>;

const REFRESH_EVERY_MS = 5 * 60_000;
const VALID_MS = 10 * 60_000;

type RefreshedClient = { session: RtcSession; send(message: { case: "refreshToken"; value: string }): void };
type RefreshDeps = { apiKeys: SigningKeys; rtcTokens: RtcTokenService; signToken: SignToken };

/**
 * A client may stay longer than its token is valid and reconnects with its last token, so it is sent new ones. All of
 * them share the first one's id, so that a removal revokes them together.
 */
export function createTokenRefresh(runtime: Runtime, { apiKeys, rtcTokens, signToken }: RefreshDeps) {
  const { now, write } = runtime;

  async function refresh({ key, claims, identity, expiresAt }: LivekitToken, client: RefreshedClient): Promise<void> {
    const { session } = client;
    const { tokenId, name, metadata, attributes } = session;
    if (session.link.state !== "attached" || !apiKeys.signer(key.publicId) || rtcTokens.isRevoked(tokenId)) return;
    const until = Math.max(expiresAt, now() + VALID_MS);
    if (until > expiresAt) await write((unit) => void rtcTokens.extend(unit, tokenId, until));
    const current = { name: name ?? "", metadata: metadata ?? "", attributes, [TOKEN_ID_CLAIM]: tokenId };
    const value = await signToken(key.publicId, identity, { ...claims, ...current }, until);
    client.send({ case: "refreshToken", value });
  }

  return (token: LivekitToken, client: RefreshedClient): (() => void) => {
    const failed = (err: unknown) => runtime.log.error({ err }, "livekit: token refresh failed");
    refresh(token, client).catch(failed);
    return every(runtime, REFRESH_EVERY_MS, () => refresh(token, client));
  };
}
