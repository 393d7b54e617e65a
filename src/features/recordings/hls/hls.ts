import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { RecordedFeed, RecordedPart } from "../../../protocol/media/recording.ts";
import type { MediaEvent } from "../../../protocol/media-node.ts";
import { findFfmpeg } from "../composition/ffmpeg.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { Rendition } from "./rendition.ts";
import { startTranscoder, type Transcoder } from "./transcoder.ts";

/** Players that are behind play to the end; then the files of the recording have it all. */
const KEPT_AFTER_END_MS = 300_000;

/** Of one stream: that of its track, and that of the track before, which comes to its end. */
const ENCODERS_PER_STREAM = 2;
/** Of all: they yield to calls, and those of too many streams only make each other late. */
const MOST_ENCODERS = 4 * availableParallelism();

/** Of open files: more than anybody has tracks. */
const MOST_HEADS = 1_000;

/** What is sent of a room that is being recorded, as HLS: the pictures and the sound of one of those who send. */
export type Broadcast = {
  recordingId: string;
  roomId: string;
  startedAt: number;
  video: Rendition;
  audio: Rendition;
  /** A codec that is sent and cannot be carried. */
  refused: string | null;
  /** What is sent would have to be encoded anew, and as much is being encoded as may be. */
  crowdedOut: boolean;
  ended: boolean;
};

type Encoding = Transcoder & { isFed: boolean; isCancelled: boolean };

type Channel = Broadcast & {
  /** Whose it is: of several who send, the first, until all they send has ended. */
  identity: string | null;
  /** The file that each rendition follows. */
  carried: { video: string | null; audio: string | null };
  heads: Map<string, Uint8Array<ArrayBuffer>>;
  /** By file; one is being fed, another comes to its end. */
  transcoders: Map<string, Encoding>;
};

type PartEvent = Extract<
  MediaEvent,
  { type: "recordingPart" | "recordingFeed" | "recordingNotStreamable" | "recordingFileEnded" }
>;

export type Hls = ReturnType<typeof createHls>;

/** Live streams for the crowd: made of the same frames as the files, and gone some minutes after the recording's end. */
export function createHls({ config, log, timers }: Runtime, folder: RecordingFolder, mostEncoders = MOST_ENCODERS) {
  const channels = new Map<string, Channel>();
  /** Programs that run. */
  let encoders = 0;
  const ffmpeg = config.HLS_TRANSCODE ? findFfmpeg() : null;
  if (config.HLS_TRANSCODE && ffmpeg === null) log.warn("HLS_TRANSCODE has no effect: ffmpeg is not installed");

  const pathOf = (recordingId: string) => join(folder.of(recordingId), "hls");

  const rendition = (recordingId: string, kind: "video" | "audio") =>
    new Rendition(kind, join(pathOf(recordingId), `${kind}.m4s`), (err) =>
      log.error({ err, recordingId }, "a live stream's segments cannot be written"),
    );

  function take(channel: Channel, part: RecordedPart): void {
    if (part.head !== null && channel.heads.size < MOST_HEADS)
      channel.heads.set(part.fileId, Uint8Array.fromBase64(part.head));
    channel.identity ??= part.identity;
    if (part.identity !== channel.identity || part.source === "screenShareAudio") return;
    const { kind, fileId } = part;
    const carries = channel.carried[kind];
    if (carries !== null && carries !== fileId) return;
    // Another track begins where a player can.
    if (carries === null && (!part.beginsSegment || !channel[kind].takesTracks)) return;
    channel.carried[kind] = fileId;
    channel[kind].add(part, carries === null ? (channel.heads.get(fileId) ?? null) : null);
  }

  /** One track at a time, of whoever is carried: encoding is dear. */
  function encode(channel: Channel, feed: RecordedFeed): void {
    const { recordingId, transcoders } = channel;
    const { fileId } = feed;
    channel.identity ??= feed.identity;
    if (ffmpeg === null || feed.identity !== channel.identity) return;
    transcoders.get(fileId)?.add(feed);
    // In the middle of a track none can begin.
    if (!feed.begins || [...transcoders.values()].some(({ isFed }) => isFed)) return;
    channel.crowdedOut = !makeRoom(channel);
    if (channel.crowdedOut) {
      log.warn({ recordingId }, "a live stream is not encoded anew: as many are as may be");
      return;
    }
    encoders += 1;
    const run = startTranscoder(ffmpeg, feed, {
      part: (part) => {
        if (!channel.ended) take(channel, part);
      },
      ended(error) {
        encoders -= 1;
        if (error) log.error({ err: error, recordingId }, "a live stream could not be encoded anew");
        transcoders.delete(fileId);
        release(channel, fileId);
      },
    });
    transcoders.set(fileId, { ...run, isFed: true, isCancelled: false });
  }

  /** Whoever publishes anew again and again has the last but one ended early, instead of an encoder for each. */
  function makeRoom({ transcoders }: Channel): boolean {
    const running = [...transcoders.values()].filter(({ isCancelled }) => !isCancelled);
    for (const late of running.slice(0, 1 - ENCODERS_PER_STREAM)) cancel(late);
    // Also those that were told to end and have not yet.
    return transcoders.size < 2 * ENCODERS_PER_STREAM && encoders < mostEncoders;
  }

  function cancel(transcoder: Encoding): void {
    transcoder.isCancelled = true;
    transcoder.cancel();
  }

  /** What is being encoded goes to its end first. */
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
      if (channel.carried[kind] === fileId) channel.carried[kind] = null;
    }
    if (channel.carried.video === null && channel.carried.audio === null) channel.identity = null;
  }

  async function forget(channel: Channel): Promise<void> {
    if (channels.get(channel.recordingId) === channel) channels.delete(channel.recordingId);
    for (const transcoder of channel.transcoders.values()) cancel(transcoder);
    await Promise.all([channel.video.settled(), channel.audio.settled()]);
    await rm(pathOf(channel.recordingId), { recursive: true, force: true });
  }

  return {
    /** Whether pictures of other codecs are wanted, to be encoded anew. */
    transcodes: ffmpeg !== null,
    all: (): Broadcast[] => [...channels.values()],
    /** The newest. */
    inRoom: (roomId: string): Broadcast | undefined =>
      [...channels.values()].findLast((channel) => channel.roomId === roomId),

    begin({ id, roomId, startedAt }: { id: string; roomId: string; startedAt: number }): void {
      channels.set(id, {
        ...{ recordingId: id, roomId, startedAt, refused: null, crowdedOut: false, ended: false },
        ...{ video: rendition(id, "video"), audio: rendition(id, "audio") },
        ...{ identity: null, carried: { video: null, audio: null }, heads: new Map(), transcoders: new Map() },
      });
    },

    heard(event: PartEvent): void {
      const channel = channels.get(event.recordingId);
      if (!channel || channel.ended) return;
      if (event.type === "recordingPart") take(channel, event.part);
      else if (event.type === "recordingFeed") encode(channel, event.feed);
      else if (event.type === "recordingFileEnded") fileEnded(channel, event.file.fileId);
      else channel.refused = event.codec;
    },

    end(recordingId: string): void {
      const channel = channels.get(recordingId);
      if (!channel || channel.ended) return;
      channel.ended = true;
      for (const transcoder of channel.transcoders.values()) cancel(transcoder);
      channel.video.end();
      channel.audio.end();
      timers.after(KEPT_AFTER_END_MS, () => {
        forget(channel).catch((err) => log.warn({ err, recordingId }, "segments of a live stream were not removed"));
      });
    },

    /** With its recording, or after a crash: nobody can go on from the middle. */
    async remove(recordingId: string): Promise<void> {
      const channel = channels.get(recordingId);
      if (channel) await forget(channel);
      else await rm(pathOf(recordingId), { recursive: true, force: true });
    },
  };
}
