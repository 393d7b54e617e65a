import { createHash } from "node:crypto";
import { targetRule } from "../../../features/webhooks/url-check.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { DAY_MS } from "../../../kernel/time/clock.ts";
import { foreignName, isMatrixServerName } from "../../../protocol/ids.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import { EXISTING_ROOM_CLAIM, type SigningKeys, type SignToken } from "../tokens.ts";
import { createDelayedLeaves } from "./delayed-leaves.ts";
import { createHomeservers } from "./homeserver.ts";

const TOKEN_MS = 3_600_000;
const MAX_TEXT = 512;
const MAX_TOKEN = 4_096;
const MIN_DELAY_MS = 1_000;
const MAX_DELAY_MS = DAY_MS;
/** The slot of calls in clients that name none. */
const ROOM_SLOT = "m.call#ROOM";

/** An error in the form that Matrix clients read. */
export class MatrixError extends Error {
  constructor(
    readonly status: number,
    readonly errcode: "M_BAD_JSON" | "M_NOT_JSON" | "M_UNAUTHORIZED" | "M_FORBIDDEN" | "M_LIMIT_EXCEEDED" | "M_UNKNOWN",
    message: string,
  ) {
    super(message);
    this.name = "MatrixError";
  }
}

type Json = Record<string, unknown>;
/** What a request states about the caller and the call. */
type Call = { serverName: string; accessToken: string; claimedUserId: string | null; matrixRoom: string; slot: string };
type Delay = { delayId: string; delayMs: number };

export type MatrixRtc = ReturnType<typeof createMatrixRtc>;

/** Exchanges OpenID tokens of Matrix users for LiveKit tokens (MSC4195), as Element Call expects it. */
export function createMatrixRtc(
  runtime: Runtime,
  { apiKeys, signToken, signaling }: { apiKeys: SigningKeys; signToken: SignToken; signaling: SignalingCore },
) {
  const { config, now, log } = runtime;
  const named = new Set(config.MATRIX_HOMESERVERS);
  /** Homeservers that the operator's setting names are trusted, wherever they are. */
  const homeservers = createHomeservers(runtime, (serverName) =>
    targetRule(named.has(serverName) ? "DEVELOPMENT" : "PRODUCTION", named.has(serverName), named.has(serverName)),
  );
  const delayedLeaves = createDelayedLeaves(runtime, {
    homeservers,
    isPresent: ({ projectId, environment, roomName, identity }) =>
      signaling.registry
        .rooms()
        .some(
          (room) =>
            room.name === roomName &&
            room.projectId === projectId &&
            room.environment === environment &&
            room.sessions.has(identity),
        ),
  });

  const mayStart = (serverName: string) => named.has("*") || named.has(serverName);

  async function requireUser({ serverName, accessToken, claimedUserId }: Call): Promise<string> {
    if (!mayStart(serverName) && config.MATRIX_FEDERATION === "off") {
      throw new MatrixError(403, "M_FORBIDDEN", `Users of ${serverName} may not join calls here.`);
    }
    const userId = await homeservers.userOf(serverName, accessToken);
    if (userId === null || (claimedUserId !== null && claimedUserId !== userId)) {
      throw new MatrixError(401, "M_UNAUTHORIZED", "The homeserver did not confirm the OpenID token.");
    }
    return userId;
  }

  function requireKey() {
    const key = apiKeys.signer(config.MATRIX_API_KEY ?? "");
    if (key) return key;
    log.error("matrix: MATRIX_API_KEY names no active API key");
    throw new MatrixError(500, "M_UNKNOWN", "The server is not configured for Matrix: MATRIX_API_KEY is not active.");
  }

  function delegate(call: Call, identity: string, { delayId, delayMs }: Delay): void {
    const { serverName } = call;
    if (!mayStart(serverName)) {
      throw new MatrixError(403, "M_FORBIDDEN", `Delayed events of ${serverName} are not taken over here.`);
    }
    const { projectId, environment } = requireKey();
    const leave = { projectId, environment, roomName: roomNameOf(call), identity, serverName, delayId, delayMs };
    if (!delayedLeaves.add(leave)) throw new MatrixError(429, "M_LIMIT_EXCEEDED", "Too many delayed events.");
  }

  async function answer(call: Call, identity: string, delay: Delay | null, publicUrl: string) {
    if (foreignName(identity) === null)
      throw badJson("the user and device ids must have at most 256 characters together");
    const { publicId } = requireKey();
    if (delay) delegate(call, identity, delay);
    const video = { room: roomNameOf(call), roomJoin: true, canPublish: true, canSubscribe: true };
    const limit = mayStart(call.serverName) ? {} : { [EXISTING_ROOM_CLAIM]: true };
    const jwt = await signToken(publicId, identity, { video, ...limit }, now() + TOKEN_MS);
    return { url: publicUrl.replace(/^http/, "ws"), jwt };
  }

  return {
    isOpen: config.LIVEKIT_CLIENTS === "on" && named.size > 0,

    /** `/sfu/get`, used by clients from before the Matrix specification had slots and members. */
    async legacyToken(body: Json, publicUrl: string) {
      const call = callOf(body, { matrixRoom: text(body, "room"), slot: ROOM_SLOT, claimedUserId: null });
      const deviceId = text(body, "device_id");
      const delay = delayOf(body);
      return answer(call, `${await requireUser(call)}:${deviceId}`, delay, publicUrl);
    },

    async token(body: Json, publicUrl: string) {
      const { call, identityOf } = memberCallOf(body);
      const delay = delayOf(body);
      return answer(call, identityOf(await requireUser(call)), delay, publicUrl);
    },

    async delegateLeave(body: Json): Promise<object> {
      const { call, identityOf } = memberCallOf(body);
      const delay = delayOf(body);
      if (!delay) throw badJson("`delay_id` and `delay_timeout` are required");
      delegate(call, identityOf(await requireUser(call)), delay);
      return {};
    },
  };
}

const badJson = (message: string) => new MatrixError(400, "M_BAD_JSON", message);

function text(from: Json, name: string, maxLength = MAX_TEXT): string {
  const value = from[name];
  if (typeof value === "string" && value !== "" && value.length <= maxLength) return value;
  throw badJson(`\`${name}\` must be a text of 1 to ${maxLength} characters`);
}

function record(from: Json, name: string): Json {
  const value = from[name];
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  throw badJson(`\`${name}\` must be an object`);
}

function callOf(body: Json, more: Pick<Call, "matrixRoom" | "slot" | "claimedUserId">): Call {
  const openId = record(body, "openid_token");
  const serverName = text(openId, "matrix_server_name").toLowerCase();
  if (!isMatrixServerName(serverName)) throw badJson("`matrix_server_name` is not a server name");
  return { ...more, serverName, accessToken: text(openId, "access_token", MAX_TOKEN) };
}

function memberCallOf(body: Json): { call: Call; identityOf: (userId: string) => string } {
  const member = record(body, "member");
  const [id, claimedUserId, deviceId] = [
    text(member, "id"),
    text(member, "claimed_user_id"),
    text(member, "claimed_device_id"),
  ];
  const call = callOf(body, { matrixRoom: text(body, "room_id"), slot: text(body, "slot_id"), claimedUserId });
  return { call, identityOf: (userId) => hashOf([userId, deviceId, id]) };
}

/** The homeserver's client API address in a request is ignored, because the homeserver itself provides it. */
function delayOf(body: Json): Delay | null {
  if (body.delay_id === undefined && body.delay_timeout === undefined) return null;
  const delayMs = body.delay_timeout;
  if (typeof delayMs !== "number" || !(delayMs >= MIN_DELAY_MS && delayMs <= MAX_DELAY_MS)) {
    throw badJson(`\`delay_timeout\` must be a number of milliseconds from ${MIN_DELAY_MS} to ${MAX_DELAY_MS}`);
  }
  return { delayId: text(body, "delay_id"), delayMs };
}

/** A hash of user and room ids, which the operator of this server need not see in records. */
const hashOf = (parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("base64").replace(/=+$/, "");

const roomNameOf = ({ matrixRoom, slot }: Call): string => hashOf([matrixRoom, slot]);
