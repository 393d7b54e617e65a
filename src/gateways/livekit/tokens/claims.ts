import { createHash } from "node:crypto";
import { decodeJwt, errors, jwtVerify } from "jose";
import { checkedDisplayName, checkedMetadata, mergedAttributes } from "../../../features/rooms/participant.ts";
import type { Now } from "../../../kernel/time/clock.ts";
import type { ApiKeyCaller } from "../../../kernel/http/callers.ts";
import { IDENTITY_PATTERN, NAME_PATTERN } from "../../../protocol/ids.ts";
import type { ParticipantKind, Permissions, Profile, TrackSource } from "../../../protocol/room-records.ts";
import { refusing, TokenRefused } from "../refused.ts";

/** Tokens are on record until a week after they end; one that never ends would be there for ever. */
const MAX_TTL_MS = 30 * 24 * 3_600_000;
const CLOCK_TOLERANCE_SECONDS = 10;
/** The claim under which a token that we made says in whose place it stands. */
export const TOKEN_ID_CLAIM = "stoaTokenId";

/** What LiveKit calls a grant: `video` in the claims. */
export type VideoGrant = {
  room?: string;
  roomJoin?: boolean;
  roomAdmin?: boolean;
  roomList?: boolean;
  roomCreate?: boolean;
  agent?: boolean;
  hidden?: boolean;
  canPublish?: boolean;
  canSubscribe?: boolean;
  canPublishData?: boolean;
  canPublishSources?: string[];
  canUpdateOwnMetadata?: boolean;
};

export type LivekitToken = {
  key: ApiKeyCaller;
  /** Of the token as it was signed. */
  hash: string;
  /** Of a token that we made in place of another: the id under which that one is on record. */
  tokenId: string | null;
  identity: string;
  grant: VideoGrant;
  claims: Record<string, unknown>;
  expiresAt: number;
};

export type Signers = {
  signer(publicId: string): ApiKeyCaller | null;
  signingSecret(publicId: string): string;
};

/** Who signed a token, and what it says; throws `TokenRefused` with a reason that the developer reads. */
export function createTokenReader({ signer, signingSecret }: Signers, now: Now) {
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
    if (expiresAt > now() + MAX_TTL_MS) throw new TokenRefused("the token lives longer than 30 days");
    const tokenId = payload[TOKEN_ID_CLAIM];
    return {
      key,
      hash: createHash("sha256").update(token).digest("hex"),
      tokenId: typeof tokenId === "string" ? tokenId : null,
      identity: payload.sub ?? "",
      grant: (typeof payload.video === "object" && payload.video !== null ? payload.video : {}) as VideoGrant,
      claims: payload,
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

const ROOM_NAME = new RegExp(NAME_PATTERN);
const IDENTITY = new RegExp(IDENTITY_PATTERN);

/** The room and the identity that a token joins with. They are narrower here than LiveKit's, and never bent to fit. */
export function joinOf({ grant, identity }: LivekitToken): { roomName: string; identity: string } {
  if (grant.roomJoin !== true) throw new TokenRefused("the token has no roomJoin grant");
  if (typeof grant.room !== "string" || !ROOM_NAME.test(grant.room)) {
    throw new TokenRefused("the token's room must have 1 to 128 letters, digits, dots, underscores or dashes");
  }
  if (!IDENTITY.test(identity)) {
    throw new TokenRefused("the token's identity must have 1 to 128 of these: A-Z a-z 0-9 . _ @ : + = | -");
  }
  return { roomName: grant.room, identity };
}

const KINDS: Record<string, ParticipantKind> = { standard: "standard", agent: "agent", ingress: "ingress" };

export function profileOf({ claims, grant }: LivekitToken): { profile: Profile; metadata: string | null } {
  return refusing(() => ({
    metadata: checkedMetadata(typeof claims.metadata === "string" ? claims.metadata : null),
    profile: {
      name: checkedDisplayName(typeof claims.name === "string" ? claims.name : null),
      attributes: mergedAttributes({}, textsOf(claims.attributes)),
      kind: KINDS[String(claims.kind)] ?? (grant.agent ? "agent" : "standard"),
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

/** Null: every source. */
export function sourcesOf({ canPublishSources }: VideoGrant): ReadonlySet<TrackSource> | null {
  if (!Array.isArray(canPublishSources) || canPublishSources.length === 0) return null;
  return new Set(canPublishSources.flatMap((source) => SOURCES[String(source).toLowerCase()] ?? []));
}

const AUDIO_SOURCES: readonly TrackSource[] = ["microphone", "screenShareAudio"];

/** What a grant leaves out of `can…` is allowed. Single sources are for the door to hold; kinds hold everywhere. */
export function permissionsOf(grant: VideoGrant): Permissions {
  const sources = sourcesOf(grant);
  const publish = (grant.canPublish ?? true) && grant.hidden !== true;
  const audio = sources === null || [...sources].some((source) => AUDIO_SOURCES.includes(source));
  const video = sources === null || [...sources].some((source) => !AUDIO_SOURCES.includes(source));
  return {
    join: true,
    subscribe: grant.canSubscribe ?? true,
    publish: publish && (audio || video),
    publishAudio: publish && audio && !video,
    publishVideo: publish && video && !audio,
    publishData: grant.canPublishData ?? true,
    updateMetadata: grant.canUpdateOwnMetadata ?? false,
  };
}
