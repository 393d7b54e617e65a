import { SIGNED_TOKEN_MAX_MS } from "../../../features/rooms/token-cutoffs.ts";
import type { Author } from "../../../kernel/author.ts";
import { sameSecret } from "../../../kernel/crypto/secrets.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { ApiKeyCaller, RtcTokenCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { sameTenant, type Tenant } from "../../../kernel/tenant.ts";
import { ID_PREFIX } from "../../../protocol/ids.ts";
import type { PublishedSection } from "../../../protocol/signaling.ts";
import type { Client, SessionRegistry } from "../../signaling/rtc-session.ts";
import type { Whip } from "../../whip/whip.ts";
import { HttpRefusal, TokenRefused } from "../refusals.ts";
import type { LivekitToken, SigningKeys } from "../tokens.ts";
import { type IngressInput, type IngressRow, type IngressSettings, ingressStore } from "./ingress.store.ts";

type IngressDeps = {
  apiKeys: SigningKeys;
  registry: SessionRegistry;
  whip: Whip;
  callerOf: (token: LivekitToken) => Promise<RtcTokenCaller>;
};

/** The session of an ingress that currently receives media. */
type Running = {
  resourceId: string;
  sessionId: string;
  caller: RtcTokenCaller;
  source: Source;
};

/** Where the media comes from: an encoder, or the process that fetches a URL. */
export type Source = {
  /** The state of the ingress after its session has ended. */
  outcome: () => Pick<IngressRow, "status" | "error">;
  stop: () => void;
};

const ENCODER: Source = { outcome: () => ({ status: "INACTIVE", error: "" }), stop: () => {} };

/** An encoder whose media continues in a newer process of this server, which answers its requests from then on. */
type HandedOverEncoder = Omit<Running, "source"> & { id: string };
/** A URL that a newer process of this server fetches again. */
export type HandedOverUrl = { id: string; url: string };
export type HandedOverInputs = { encoders: HandedOverEncoder[]; urls: HandedOverUrl[] };

export type Ingresses = ReturnType<typeof createIngresses>;

/** The path that LiveKit gives to WHIP encoders. */
export const WHIP_PATH = "/w";

/** Ids have 24 characters after their prefix. */
const KEY_ID_CHARACTERS = 24;
/** The log leaves out the part of a path that contains a key of this length. */
const KEY_SECRET_CHARACTERS = 32;
const STOPPED = "The server stopped while it was fetched.";
export const UPGRADED = "The server was upgraded while it was fetched, and fetches it again.";
const PER_PROJECT = 1_000;

/** Inputs of LiveKit's Ingress API. Each one becomes a participant of its own, as with an encoder that publishes by WHIP. */
export function createIngresses(runtime: Runtime, { apiKeys, registry, whip, callerOf }: IngressDeps) {
  const { bus, ids, keyring, log, now, write } = runtime;
  const store = ingressStore(runtime.db);
  const running = new Map<string, Running>();

  /** The key is derived from the id, so that it can be shown again and need not be stored. */
  function streamKey({ id, createdAt }: IngressRow): string {
    const key = keyring.keyAt("livekit-secret", createdAt);
    const secret = new Bun.CryptoHasher("sha256", key).update(`ingress ${id}`).digest("hex");
    return id.slice(ID_PREFIX.ingress.length) + secret.slice(0, KEY_SECRET_CHARACTERS);
  }

  function byStreamKey(given: string): IngressRow {
    const row = store.get(ID_PREFIX.ingress + given.slice(0, KEY_ID_CHARACTERS));
    if (row?.input !== "whip" || !sameSecret(given, streamKey(row))) throw new TokenRefused("no such stream key");
    return row;
  }

  function requireEnabled(row: IngressRow): IngressRow {
    if (!row.settings.enabled) throw new HttpRefusal(403, "the ingress is disabled");
    return row;
  }

  const runningIn = (sessionId: string): string | undefined =>
    [...running].find(([, one]) => one.sessionId === sessionId)?.[0];

  type AuditAction = "ingress.created" | "ingress.updated" | "ingress.deleted";
  function audit(unit: Unit, author: Author, action: AuditAction, row: IngressRow): void {
    const { id: resourceId, projectId, environment, input, settings } = row;
    const metadata = { input, room: settings.roomName, identity: settings.participantIdentity };
    bus.publish(unit, "audit", { ...author, action, projectId, environment, resourceId, metadata, at: now() });
  }

  function save(id: string, change: Partial<IngressRow>, type?: "started" | "ended"): void {
    write((unit) => {
      store.update(unit, id, { ...change, updatedAt: now() });
      const row = store.get(id);
      if (row && type) bus.publish(unit, "ingressChanged", { type, row });
    }).catch((err) => log.error({ err, ingressId: id }, "ingress: state not saved"));
  }

  bus.on("rtcConnection", ["connected", "left"], (event) => {
    const id = runningIn(event.sessionId);
    if (id === undefined) return;
    if (event.type === "connected") return save(id, { status: "PUBLISHING", startedAt: now() }, "started");
    // The session continues in the next process of this server.
    if (event.mediaKept) return;
    const { source } = running.get(id) as Running;
    running.delete(id);
    source.stop();
    save(id, { ...source.outcome(), endedAt: now() }, "ended");
  });

  /** A new token for each session, so that a participant who was removed can return by sending again. */
  function tokenOf({ id, apiKeyId, settings }: IngressRow): LivekitToken {
    const key = apiKeys.signer(apiKeyId);
    if (!key) throw new TokenRefused("the API key of this ingress was revoked");
    const { roomName: room, participantIdentity: identity, participantName, participantMetadata } = settings;
    return {
      key,
      identity,
      tokenId: null,
      hash: `${id} ${ids.uuid()}`,
      grant: { room, roomJoin: true, canPublish: true, canSubscribe: false, canPublishData: false },
      claims: { name: participantName, metadata: participantMetadata, kind: "ingress" },
      signedAt: now(),
      expiresAt: now() + SIGNED_TOKEN_MAX_MS,
    };
  }

  function endSession(id: string): void {
    const session = running.get(id);
    if (session && registry.session(session.sessionId))
      whip.end(session.caller, session.caller.roomId, session.sessionId);
  }

  /** Joins the room and answers the offer. A session that is still running is replaced. */
  async function begin(row: IngressRow, sdp: string, client: Client, source = ENCODER) {
    const caller = await callerOf(tokenOf(row));
    endSession(row.id);
    const sections = sectionsOf(sdp, row.settings);
    const answer = await whip.start("whip", caller, caller.roomId, sdp, client, sections);
    if (!store.get(row.id)?.settings.enabled) {
      whip.end(caller, caller.roomId, answer.sessionId);
      throw new HttpRefusal(403, "the ingress was removed or disabled");
    }
    const resourceId = ids.uuid();
    running.set(row.id, { resourceId, sessionId: answer.sessionId, caller, source });
    save(row.id, { status: "BUFFERING", error: "", roomId: caller.roomId, startedAt: null, endedAt: null });
    return { ...answer, resourceId };
  }

  function resource(id: string, resourceId: string): Running {
    const found = running.get(id);
    if (found?.resourceId !== resourceId) throw new HttpRefusal(404, "no such resource");
    return found;
  }

  return {
    streamKey,
    list: store.list,
    /** The session that is sending now; null if there is none. */
    session: (id: string) => registry.session(running.get(id)?.sessionId ?? "") ?? null,
    resourceId: (id: string): string => running.get(id)?.resourceId ?? "",

    find(tenant: Tenant, id: string): IngressRow | null {
      const row = store.get(id);
      return row && sameTenant(row, tenant) ? row : null;
    },

    async create(key: ApiKeyCaller, input: IngressInput, url: string, settings: IngressSettings, author: Author) {
      const { projectId, environment, publicId: apiKeyId } = key;
      const row: IngressRow = {
        id: ids.publicId("ingress"),
        projectId,
        environment,
        apiKeyId,
        input,
        url,
        settings,
        // A URL is fetched at once.
        status: input === "url" ? "BUFFERING" : "INACTIVE",
        error: "",
        roomId: null,
        createdAt: now(),
        updatedAt: now(),
        startedAt: null,
        endedAt: null,
      };
      await write((unit) => {
        // Requests that arrive together are counted one after another here.
        if (store.count(row) >= PER_PROJECT) throw new HttpRefusal(429, "the project has 1,000 ingresses");
        store.insert(unit, row);
        audit(unit, author, "ingress.created", row);
      });
      return row;
    },

    /** A running session keeps the settings with which it began. */
    async update(row: IngressRow, settings: IngressSettings, author: Author): Promise<IngressRow> {
      await write((unit) => {
        store.update(unit, row.id, { settings, updatedAt: now() });
        audit(unit, author, "ingress.updated", row);
      });
      if (!settings.enabled) endSession(row.id);
      return store.get(row.id) ?? row;
    },

    async remove(row: IngressRow, author: Author): Promise<void> {
      endSession(row.id);
      await write((unit) => {
        store.remove(unit, row.id);
        audit(unit, author, "ingress.deleted", row);
      });
    },

    begin,
    endSession,

    failed: (id: string, error: string): void => save(id, { status: "ERROR", error, endedAt: now() }, "ended"),

    /** Reads the offer only if the encoder has a valid key. */
    async publish(key: string, readOffer: () => Promise<string>, client: Client) {
      requireEnabled(byStreamKey(key));
      const offer = await readOffer();
      // The ingress may have been removed while its encoder was still sending the offer.
      const row = requireEnabled(byStreamKey(key));
      return { ...(await begin(row, offer, client)), ingressId: row.id };
    },

    async patch(
      id: string,
      resourceId: string,
      readFragment: () => Promise<string>,
      { ifMatch, ipAddress }: { ifMatch: string | null; ipAddress: string },
    ) {
      resource(id, resourceId);
      const fragment = await readFragment();
      const { caller, sessionId } = resource(id, resourceId);
      return whip.patch("whip", caller, { roomId: caller.roomId, sessionId }, { fragment, ifMatch, ipAddress });
    },

    end(id: string, resourceId: string): void {
      resource(id, resourceId);
      endSession(id);
    },

    /** The encoders that are sending now. */
    handOver: (): HandedOverEncoder[] =>
      [...running].flatMap(([id, { source, ...session }]) => (source === ENCODER ? [{ id, ...session }] : [])),

    /** Called when the sessions that earlier processes keep have been found. */
    adopt(encoders: readonly HandedOverEncoder[]): void {
      for (const { id, ...session } of encoders) {
        const isActive = store.active().some((row) => row.id === id);
        if (isActive && registry.session(session.sessionId)) running.set(id, { ...session, source: ENCODER });
        else if (isActive) save(id, { ...ENCODER.outcome(), endedAt: now() }, "ended");
      }
    },

    /** The given ingresses that an upgrade has interrupted; this server fetches their URLs again. */
    interrupted: (urls: readonly HandedOverUrl[]) =>
      urls.flatMap(({ id, url }) => {
        const row = store.get(id);
        return row?.status === "ERROR" && row.error === UPGRADED ? [{ row, url }] : [];
      }),

    beginAgain: (id: string): void => save(id, { status: "BUFFERING", error: "", startedAt: null, endedAt: null }),

    /** Ends the ingresses that were active in an earlier process, except those for `adopt`. */
    async recover({ encoders, urls }: HandedOverInputs): Promise<void> {
      const continuing = new Set(encoders.map(({ id }) => id));
      const again = new Set(urls.map(({ id }) => id));
      for (const { id, input } of store.active()) {
        if (continuing.has(id)) continue;
        const error = again.has(id) ? UPGRADED : STOPPED;
        const outcome = input === "url" ? { status: "ERROR" as const, error } : ENCODER.outcome();
        save(id, { ...outcome, endedAt: now() }, "ended");
      }
      await runtime.writer.drain();
    },
  };
}

/** The sending sections of an offer, with the names and sources of the ingress. */
export function sectionsOf(
  sdp: string,
  { audio, video }: Pick<IngressSettings, "audio" | "video">,
): PublishedSection[] {
  return sdp.split(/^(?=m=)/m).flatMap((section) => {
    const kind = /^m=(audio|video) /.exec(section)?.[1] as "audio" | "video" | undefined;
    const mid = /^a=mid:(\S+)/m.exec(section)?.[1];
    if (!kind || mid === undefined || /^a=(?:recvonly|inactive)\b/m.test(section)) return [];
    const { name, source } = kind === "audio" ? audio : video;
    return [{ mid, clientTrackId: mid, kind, source, ...(name === "" ? {} : { name }) }];
  });
}
