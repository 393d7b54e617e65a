import { readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { RecordedFeed, RecordedPart } from "../../../protocol/media/recording.ts";
import type { MediaEvent } from "../../../protocol/media-node.ts";
import { findFfmpeg } from "../composition/ffmpeg.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { BroadcastKeys, type KeyState } from "./broadcast-keys.ts";
import { Rendition, type RenditionState } from "./rendition.ts";
import { startTranscoder, type Transcoder } from "./transcoder.ts";

/** Players behind the live edge can play to the end; afterwards only the recorded files are available. */
const KEPT_AFTER_END_MS = 300_000;

/** One encoder for the current track, and one that finishes the previous track. */
const ENCODERS_PER_STREAM = 2;
/** More encoders than this only slow each other down. */
const MAX_ENCODERS = 4 * availableParallelism();

/** More than the number of tracks of a participant. */
const MAX_HEADS = 1_000;

/** The HLS stream of a room that is being recorded, with the video and audio of one publisher. */
export type Broadcast = {
  recordingId: string;
  roomId: string;
  startedAt: number;
  video: Rendition;
  audio: Rendition;
  readonly keys: BroadcastKeys;
  /** The codec of the publisher, if HLS does not support it. */
  unsupportedCodec: string | null;
  /** The video needs transcoding, but all encoders are in use. */
  lacksEncoder: boolean;
  ended: boolean;
};

/** The state with which a stream continues if its tracks missed nothing; null when they have to begin again. */
type TracksState = Pick<Channel, "identity" | "sources"> & { heads: [fileId: string, head: string][] };
type ChannelState = {
  keys: KeyState;
  video: RenditionState;
  audio: RenditionState;
  /** Absent from earlier versions. */
  tracks?: TracksState | null;
};
type Encoding = Transcoder & { isFed: boolean; isCancelled: boolean };

type Channel = Broadcast & {
  /** The publisher whose tracks are shown: the first one, until all its tracks have ended. */
  identity: string | null;
  /** The recorded file from which each rendition is made. */
  sources: { video: string | null; audio: string | null };
  heads: Map<string, Uint8Array<ArrayBuffer>>;
  /** Transcoders by file. One of them gets input, while another one may still be finishing. */
  transcoders: Map<string, Encoding>;
  /** Whether the stream of an earlier process continues with the same files. */
  continues: boolean;
};

type Begun = { id: string; roomId: string; startedAt: number };

type PartEvent = Extract<
  MediaEvent,
  { type: "recordingPart" | "recordingFeed" | "recordingNotStreamable" | "recordingFileEnded" }
>;

export type Hls = ReturnType<typeof createHls>;

/** HLS for live streams, made from the same frames as the recorded files and removed some minutes after the end. */
export function createHls(
  { bus, config, keyring, log, now, timers }: Runtime,
  folder: RecordingFolder,
  maxEncoders = MAX_ENCODERS,
) {
  const channels = new Map<string, Channel>();
  let runningEncoders = 0;
  const ffmpeg = config.HLS_TRANSCODE ? findFfmpeg() : null;
  if (config.HLS_TRANSCODE && ffmpeg === null) log.warn("hls: ffmpeg not installed, HLS_TRANSCODE has no effect");

  const pathOf = (recordingId: string) => join(folder.of(recordingId), "hls");
  const statePath = (recordingId: string) => join(pathOf(recordingId), "state.json");

  const rendition = (recordingId: string, kind: "video" | "audio", keys: BroadcastKeys) =>
    new Rendition(
      kind,
      join(pathOf(recordingId), `${kind}.m4s`),
      (err) => log.error({ err, recordingId }, "hls: segments not written"),
      () => `../${keys.useSegmentKey()}/`,
    );

  bus.on("participantRemoved", ({ roomId, identity }) => {
    for (const channel of channels.values()) if (channel.roomId === roomId) channel.keys.bar(identity);
  });
  bus.on("rtcTokenRevoked", ({ roomId, tokenId }) => {
    for (const channel of channels.values()) if (channel.roomId === roomId) channel.keys.bar(tokenId);
  });

  function addPart(channel: Channel, part: RecordedPart): void {
    if (part.head !== null && channel.heads.size < MAX_HEADS)
      channel.heads.set(part.fileId, Uint8Array.fromBase64(part.head));
    channel.identity ??= part.identity;
    if (part.identity !== channel.identity || part.source === "screenShareAudio") return;
    const { kind, fileId } = part;
    const source = channel.sources[kind];
    if (source !== null && source !== fileId) return;
    const head = source === null ? channel.heads.get(fileId) : null;
    // Another track can only begin at the start of a segment.
    if (head === undefined || (head && !(part.beginsSegment && channel[kind].takesTracks))) return;
    channel.sources[kind] = fileId;
    channel[kind].add(part, head);
  }

  /** Transcodes one track of the publisher at a time. */
  function transcode(channel: Channel, feed: RecordedFeed): void {
    const { recordingId, transcoders } = channel;
    const { fileId } = feed;
    channel.identity ??= feed.identity;
    if (ffmpeg === null || feed.identity !== channel.identity) return;
    transcoders.get(fileId)?.add(feed);
    // An encoder cannot begin in the middle of a track.
    if (!feed.begins || [...transcoders.values()].some(({ isFed }) => isFed)) return;
    channel.lacksEncoder = !freeEncoder(channel);
    if (channel.lacksEncoder) {
      log.warn({ recordingId }, "hls: all encoders are in use");
      return;
    }
    runningEncoders += 1;
    const run = startTranscoder(ffmpeg, feed, {
      part: (part) => {
        if (!channel.ended) addPart(channel, part);
      },
      ended(error) {
        runningEncoders -= 1;
        if (error) log.error({ err: error, recordingId }, "hls: transcoding failed");
        transcoders.delete(fileId);
        release(channel, fileId);
      },
    });
    transcoders.set(fileId, { ...run, isFed: true, isCancelled: false });
  }

  /**
   * Ends the encoders of earlier tracks, so that a publisher that restarts its track often does not get an encoder for
   * each restart.
   */
  function freeEncoder({ transcoders }: Channel): boolean {
    const running = [...transcoders.values()].filter(({ isCancelled }) => !isCancelled);
    for (const late of running.slice(0, 1 - ENCODERS_PER_STREAM)) cancel(late);
    // Cancelled encoders that still run are counted too.
    return transcoders.size < 2 * ENCODERS_PER_STREAM && runningEncoders < maxEncoders;
  }

  function cancel(transcoder: Encoding): void {
    transcoder.isCancelled = true;
    transcoder.cancel();
  }

  /** A transcoder still processes its queued input. */
  function fileEnded(channel: Channel, fileId: string): void {
    const transcoder = channel.transcoders.get(fileId);
    if (transcoder) {
      transcoder.isFed = false;
      transcoder.end();
    } else release(channel, fileId);
  }

  function release(channel: Channel, fileId: string): void {
    channel.heads.delete(fileId);
    for (const kind of ["video", "audio"] as const) {
      if (channel.sources[kind] === fileId) channel.sources[kind] = null;
    }
    if (channel.sources.video === null && channel.sources.audio === null) channel.identity = null;
  }

  async function forget(channel: Channel): Promise<void> {
    if (channels.get(channel.recordingId) === channel) channels.delete(channel.recordingId);
    for (const transcoder of channel.transcoders.values()) cancel(transcoder);
    await Promise.all([channel.video.settled(), channel.audio.settled()]);
    await rm(pathOf(channel.recordingId), { recursive: true, force: true });
  }

  function begin({ id, roomId, startedAt }: Begun): Channel {
    const keys = new BroadcastKeys(keyring, now, id);
    const channel: Channel = {
      keys,
      recordingId: id,
      roomId,
      startedAt,
      unsupportedCodec: null,
      lacksEncoder: false,
      ended: false,
      video: rendition(id, "video", keys),
      audio: rendition(id, "audio", keys),
      identity: null,
      sources: { video: null, audio: null },
      heads: new Map(),
      transcoders: new Map(),
      continues: false,
    };
    channels.set(id, channel);
    return channel;
  }

  return {
    /** Whether video of unsupported codecs is transcoded. */
    transcodes: ffmpeg !== null,
    all: (): Broadcast[] => [...channels.values()],
    inRoom: (roomId: string): Broadcast | undefined =>
      [...channels.values()].findLast((channel) => channel.roomId === roomId),

    begin,

    /**
     * Leaves the stream to the next process of this server. With `continues`, that process gets everything that the tracks produce
     * from now on. Transcoded tracks begin again in any case.
     */
    async handOver(recordingId: string, continues: boolean): Promise<void> {
      const channel = channels.get(recordingId);
      if (!channel) return;
      channels.delete(recordingId);
      channel.ended = true;
      const { identity, sources, transcoders } = channel;
      const heads = [...channel.heads].map(([fileId, head]) => [fileId, head.toBase64()] as [string, string]);
      const tracks = continues && transcoders.size === 0 ? { identity, sources, heads } : null;
      for (const transcoder of transcoders.values()) cancel(transcoder);
      const [video, audio] = await Promise.all([
        channel.video.state(tracks !== null),
        channel.audio.state(tracks !== null),
      ]);
      const state: ChannelState = { keys: channel.keys.state(), video, audio, tracks };
      await writeFile(statePath(recordingId), JSON.stringify(state), { mode: 0o600 });
    },

    /** Continues the stream where an earlier process left it. */
    async resume(begun: Begun): Promise<void> {
      const text = await readFile(statePath(begun.id), "utf8").catch(() => null);
      if (text === null) await rm(pathOf(begun.id), { recursive: true, force: true });
      const channel = begin(begun);
      if (text === null) return;
      const { keys, video, audio, tracks = null } = JSON.parse(text) as ChannelState;
      channel.keys.resume(keys);
      await channel.video.resume(video);
      await channel.audio.resume(audio);
      if (tracks) {
        const { identity, sources, heads } = tracks;
        Object.assign(channel, { identity, sources, continues: true });
        for (const [fileId, head] of heads) channel.heads.set(fileId, Uint8Array.fromBase64(head));
      }
      await rm(statePath(begun.id), { force: true });
    },

    /**
     * Whether the stream continues with the files of an earlier process. Returns true only once, because later the stream would
     * have missed some of their parts.
     */
    takeContinued(recordingId: string): boolean {
      const channel = channels.get(recordingId);
      const { continues = false } = channel ?? {};
      if (channel) channel.continues = false;
      return continues;
    },

    handleEvent(event: PartEvent): void {
      const channel = channels.get(event.recordingId);
      if (!channel || channel.ended) return;
      if (event.type === "recordingPart") addPart(channel, event.part);
      else if (event.type === "recordingFeed") transcode(channel, event.feed);
      else if (event.type === "recordingFileEnded") fileEnded(channel, event.file.fileId);
      else channel.unsupportedCodec = event.codec;
    },

    end(recordingId: string): void {
      const channel = channels.get(recordingId);
      if (!channel || channel.ended) return;
      channel.ended = true;
      for (const transcoder of channel.transcoders.values()) cancel(transcoder);
      channel.video.end();
      channel.audio.end();
      timers.after(KEPT_AFTER_END_MS, () => {
        forget(channel).catch((err) => log.warn({ err, recordingId }, "hls: segments not removed"));
      });
    },

    /** Called with the removal of the recording, and after a crash, because a player cannot continue in the middle. */
    async remove(recordingId: string): Promise<void> {
      const channel = channels.get(recordingId);
      if (channel) await forget(channel);
      else await rm(pathOf(recordingId), { recursive: true, force: true });
    },
  };
}
