import { sameSecret } from "../../../kernel/crypto/secrets.ts";
import type { RtcTokenCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { LiveStreamService } from "../../live-streams/live-stream.service.ts";
import type { Broadcast, Hls } from "./hls.ts";
import { multivariantPlaylist, TARGET_SECONDS } from "./playlist.ts";
import type { Rendition } from "./rendition.ts";

/** For the first segment to be there, and for the other half of picture and sound after the first. */
const FIRST_SEGMENT_MS = 6_000;
const OTHER_HALF_MS = 2_000;
/** As the specification has it: three times the longest segment. */
const BLOCKED_AT_MOST_MS = 3 * TARGET_SECONDS * 1_000;
const YEAR_SECONDS = 31_536_000;

export type HlsAnswer = { type: string; cacheControl: string; body: string | Blob };
/** What a player asks for when it wants to be answered only once there is something new. */
type Asked = { msn: number | null; part: number | null; skip: boolean };

type Deps = {
  hls: Hls;
  streams: Pick<LiveStreamService, "find">;
  verify: (token: string) => Promise<RtcTokenCaller>;
};

export type HlsService = ReturnType<typeof hlsService>;

/**
 * A live stream as files. A viewer's token opens the first list; what that leads to lies under a name that only it tells,
 * the same for all viewers, so that a cache in front answers most of them.
 */
export function hlsService({ keyring, timers }: Runtime, { hls, streams, verify }: Deps) {
  const keys = new WeakMap<Broadcast, string>();
  /** Made once: a stranger's guess is compared with those of all streams. */
  function keyOf(broadcast: Broadcast): string {
    const key = keys.get(broadcast) ?? keyring.digest("live-stream-hls", broadcast.recordingId);
    keys.set(broadcast, key);
    return key;
  }

  /** Resolves when `done` says so, or after so long. */
  async function until(done: () => boolean, renditions: readonly Rendition[], ms: number): Promise<void> {
    if (done()) return;
    const over = Promise.withResolvers<void>();
    let isOver = false;
    const cancel = timers.after(ms, () => {
      isOver = true;
      over.resolve();
    });
    while (!done() && !isOver) await Promise.race(renditions.map((one) => one.changed(over.promise)));
    cancel();
  }

  async function begun(broadcast: Broadcast): Promise<void> {
    const there = (one: Rendition) => one.segments[0]?.complete === true;
    const both = [broadcast.video, broadcast.audio];
    await until(() => both.some(there) || broadcast.refused !== null, both, FIRST_SEGMENT_MS);
    await until(() => both.every(there) || broadcast.refused !== null, both, OTHER_HALF_MS);
  }

  function refuse({ refused, crowdedOut }: Broadcast): never {
    const nothing = crowdedOut
      ? "The server encodes as many live streams anew as it can. Publish H.264 or AV1, or try again later."
      : "Nobody sends anything yet. Try again in a moment.";
    throw new ApiError(
      "SVC_HLS_UNAVAILABLE",
      refused === null
        ? nothing
        : `The host sends ${refused.toUpperCase()}, which HLS does not carry. Publish H.264 or AV1, or let the server encode it anew: HLS_TRANSCODE.`,
    );
  }

  async function playlist(broadcast: Broadcast, rendition: Rendition, asked: Asked): Promise<HlsAnswer> {
    const { msn, part, skip } = asked;
    if (msn !== null) {
      if (msn > rendition.segments.length + 1) throw invalid("_HLS_msn", "lies too far in the future");
      const there = () => rendition.ended || rendition.has(msn, part ?? Number.MAX_SAFE_INTEGER);
      await until(there, [rendition], BLOCKED_AT_MOST_MS);
      if (!there()) throw new ApiError("SVC_HLS_UNAVAILABLE", "The live stream does not go on at the moment.");
    }
    return {
      type: "application/vnd.apple.mpegurl",
      // Each blocking request has an address of its own, and its answer stays true.
      cacheControl: `public, max-age=${msn === null ? 1 : TARGET_SECONDS}`,
      body: rendition.playlist(broadcast.startedAt, skip),
    };
  }

  async function piece(rendition: Rendition, index: number, part: number | undefined): Promise<HlsAnswer> {
    // Nobody has announced it, and nobody waits for it.
    if (index > rendition.segments.length + 1) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    // A part that was announced is asked for before it is there.
    await until(() => rendition.ended || rendition.has(index, part), [rendition], BLOCKED_AT_MOST_MS);
    const body = await rendition.read(index, part);
    if (!body) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    return { type: `${rendition.name}/mp4`, cacheControl: `public, max-age=${YEAR_SECONDS}, immutable`, body };
  }

  return {
    /** The list of renditions, for whoever holds a token of the stream's room. */
    async open(streamId: string, token: string): Promise<HlsAnswer> {
      const caller = await verify(token);
      const stream = streams.find({ ...caller, streamId });
      if (caller.roomId !== stream.roomId) throw new ApiError("SVC_STREAM_NOT_FOUND");
      const broadcast = stream.status === "CREATED" ? undefined : hls.inRoom(stream.roomId);
      if (!broadcast) {
        const reason = stream.status === "CREATED" ? "has not begun" : "is not being recorded, which HLS is made of";
        throw new ApiError("SVC_HLS_UNAVAILABLE", `The live stream ${reason}.`);
      }
      await begun(broadcast);
      const [video, audio] = [broadcast.video, broadcast.audio].map((one) =>
        one.segments[0]?.complete ? one.info : null,
      );
      if ((!video && !audio) || (!video && broadcast.refused !== null)) refuse(broadcast);
      return {
        type: "application/vnd.apple.mpegurl",
        cacheControl: "private, no-store",
        body: multivariantPlaylist(keyOf(broadcast), video ?? null, audio ?? null),
      };
    },

    /** What the lists name. */
    async read(key: string, name: string, asked: Asked): Promise<HlsAnswer> {
      const broadcast = hls.all().find((one) => sameSecret(key, keyOf(one)));
      const [, kind, head, index, part] =
        /^(video|audio)(?:\.m3u8|-init-(\d+)\.mp4|-(\d+)(?:\.(\d+))?\.m4s)$/.exec(name) ?? [];
      if (!broadcast || kind === undefined) throw new ApiError("SVC_ROUTE_NOT_FOUND");
      const rendition = broadcast[kind as "video" | "audio"];
      if (head !== undefined) {
        const body = rendition.head(Number(head));
        if (!body) throw new ApiError("SVC_ROUTE_NOT_FOUND");
        return {
          type: `${kind}/mp4`,
          cacheControl: `public, max-age=${YEAR_SECONDS}, immutable`,
          body,
        };
      }
      if (index === undefined) return playlist(broadcast, rendition, asked);
      return piece(rendition, Number(index), part === undefined ? undefined : Number(part));
    },
  };
}
