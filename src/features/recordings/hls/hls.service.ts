import type { RtcTokenCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { LiveStreamService } from "../../live-streams/live-stream.service.ts";
import type { Broadcast, Hls } from "./hls.ts";
import { multivariantPlaylist, TARGET_SECONDS } from "./playlist.ts";
import type { Rendition } from "./rendition.ts";

/** How long a player waits for the first segment, and then for the first segment of the other rendition. */
const FIRST_SEGMENT_MS = 6_000;
const OTHER_RENDITION_MS = 2_000;
/** RFC 8216bis: three times the target duration. */
const MAX_BLOCKED_MS = 3 * TARGET_SECONDS * 1_000;
const YEAR_SECONDS = 31_536_000;
export const PLAYLIST_TYPE = "application/vnd.apple.mpegurl";

export type HlsResponse = { type: string; cacheControl: string; body: string | Blob };
/** A blocking playlist request: the response waits until that segment or partial segment exists. */
type PlaylistRequest = { msn: number | null; part: number | null; skip: boolean };

/** The next process of this server has the answer, so the player has to ask again. */
export class AskAgain extends Error {}

type Deps = {
  hls: Hls;
  streams: Pick<LiveStreamService, "find">;
  verify: (token: string) => Promise<RtcTokenCaller>;
};

export type HlsService = ReturnType<typeof hlsService>;

/** Serves live streams as HLS. A viewer's token opens the multivariant playlist, whose URLs contain secret keys. */
export function hlsService({ timers }: Runtime, { hls, streams, verify }: Deps) {
  /** Resolves when `done` returns true, or after `ms`. Rejects with AskAgain if the streams are handed over before that. */
  async function until(done: () => boolean, renditions: readonly Rendition[], ms: number): Promise<void> {
    if (done()) return;
    const over = Promise.withResolvers<void>();
    let isOver = false;
    const cancel = timers.after(ms, () => {
      isOver = true;
      over.resolve();
    });
    const isHandedOver = () => renditions.some((one) => one.isHandedOver);
    while (!done() && !isOver && !isHandedOver())
      await Promise.race(renditions.map((one) => one.changed(over.promise)));
    cancel();
    if (!done() && isHandedOver()) throw new AskAgain();
  }

  async function untilStarted(broadcast: Broadcast): Promise<void> {
    const hasSegment = (one: Rendition) => one.segments[0]?.complete === true;
    const both = [broadcast.video, broadcast.audio];
    await until(() => both.some(hasSegment) || broadcast.unsupportedCodec !== null, both, FIRST_SEGMENT_MS);
    await until(() => both.every(hasSegment) || broadcast.unsupportedCodec !== null, both, OTHER_RENDITION_MS);
  }

  function refuse({ unsupportedCodec, lacksEncoder }: Broadcast): never {
    const reason = lacksEncoder
      ? "The server transcodes as many live streams as it can. Publish H.264 or AV1, or try again later."
      : "No media is published yet. Try again in a moment.";
    throw new ApiError(
      "SVC_HLS_UNAVAILABLE",
      unsupportedCodec === null
        ? reason
        : `The host sends ${unsupportedCodec.toUpperCase()}, which HLS does not support. Publish H.264 or AV1, or let the server transcode it: HLS_TRANSCODE.`,
    );
  }

  async function playlist(broadcast: Broadcast, rendition: Rendition, request: PlaylistRequest): Promise<HlsResponse> {
    const { msn, part, skip } = request;
    if (msn !== null) {
      if (msn > rendition.segments.length + 1) throw invalid("_HLS_msn", "is too far in the future");
      const isAvailable = () => rendition.ended || rendition.has(msn, part ?? Number.MAX_SAFE_INTEGER);
      await until(isAvailable, [rendition], MAX_BLOCKED_MS);
      if (!isAvailable()) throw new ApiError("SVC_HLS_UNAVAILABLE", "The live stream has stopped for the moment.");
    }
    return {
      type: PLAYLIST_TYPE,
      // A shared cache would serve the playlist to a viewer who was removed.
      cacheControl: "private, max-age=1",
      body: rendition.playlist(broadcast.startedAt, skip),
    };
  }

  async function segment(
    rendition: Rendition,
    key: string,
    index: number,
    part: number | undefined,
  ): Promise<HlsResponse> {
    // The playlist does not announce this segment.
    if (index > rendition.segments.length + 1) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    // Players request an announced partial segment before it exists.
    await until(() => rendition.ended || rendition.has(index, part), [rendition], MAX_BLOCKED_MS);
    const isOfKey = rendition.segments[index]?.at === `../${key}/`;
    const body = isOfKey ? await rendition.read(index, part) : null;
    if (!body) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    return media(rendition, body);
  }

  return {
    /** Ends the requests that wait for media. */
    handOver(): void {
      for (const { video, audio } of hls.all()) for (const one of [video, audio]) one.handOver();
    },

    /** The multivariant playlist, for a caller with a token of the stream's room. */
    async open(streamId: string, token: string): Promise<HlsResponse> {
      const caller = await verify(token);
      const stream = streams.find({ ...caller, streamId });
      if (caller.roomId !== stream.roomId) throw new ApiError("SVC_STREAM_NOT_FOUND");
      const broadcast = stream.status === "CREATED" ? undefined : hls.inRoom(stream.roomId);
      if (!broadcast) {
        const reason =
          stream.status === "CREATED"
            ? "has not started"
            : "is not being recorded, which HLS is made of: create it with `record`, and wait for a host to join";
        throw new ApiError("SVC_HLS_UNAVAILABLE", `The live stream ${reason}.`);
      }
      // The key is as old as the check of the token: it ends for a viewer who is removed while the request waits.
      const key = broadcast.keys.viewerKey({ tokenId: caller.tokenId, identity: caller.participantIdentity });
      await untilStarted(broadcast);
      if (!broadcast.keys.isViewerKey(key)) throw new ApiError("SVC_TOKEN_REVOKED");
      const [video, audio] = [broadcast.video, broadcast.audio].map((one) =>
        one.segments[0]?.complete ? one.info : null,
      );
      if ((!video && !audio) || (!video && broadcast.unsupportedCodec !== null)) refuse(broadcast);
      return {
        type: PLAYLIST_TYPE,
        cacheControl: "private, no-store",
        body: multivariantPlaylist(key, video ?? null, audio ?? null),
      };
    },

    /**
     * The playlists, initialization segments, segments and partial segments to which the multivariant playlist refers.
     */
    async read(key: string, name: string, request: PlaylistRequest): Promise<HlsResponse> {
      const [, kind, head, index, part] =
        /^(video|audio)(?:\.m3u8|-init-(\d+)\.mp4|-(\d+)(?:\.(\d+))?\.m4s)$/.exec(name) ?? [];
      if (kind === undefined) throw new ApiError("SVC_ROUTE_NOT_FOUND");
      const isPlaylist = head === undefined && index === undefined;
      const opens = ({ keys }: Broadcast) => (isPlaylist ? keys.isViewerKey(key) : keys.isSegmentKey(key));
      const broadcast = hls.all().find(opens);
      if (!broadcast) throw new ApiError("SVC_ROUTE_NOT_FOUND");
      const rendition = broadcast[kind as "video" | "audio"];
      if (head !== undefined) {
        const body = rendition.head(Number(head));
        if (!body) throw new ApiError("SVC_ROUTE_NOT_FOUND");
        return media(rendition, body);
      }
      if (index === undefined) {
        const response = await playlist(broadcast, rendition, request);
        // The viewer may have been removed while the request waited.
        if (!broadcast.keys.isViewerKey(key)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
        return response;
      }
      return segment(rendition, key, Number(index), part === undefined ? undefined : Number(part));
    },
  };
}

/** Segments never change under their URL, which has a secret key that changes when a viewer is removed. */
function media({ name }: Rendition, body: Blob): HlsResponse {
  return { type: `${name}/mp4`, cacheControl: `public, max-age=${YEAR_SECONDS}, immutable`, body };
}
