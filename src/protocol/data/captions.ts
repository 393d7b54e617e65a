/**
 * Captions, in the format of LiveKit's transcriptions: a stream of text for each version of a segment. A module of its own,
 * which pages load with the first caption.
 */
import { trackIdOf, trackSid } from "../media/livekit-sids.ts";
import type { StreamReader } from "./stream-reader.ts";
import type { StreamOptions } from "./stream-writer.ts";

const TOPIC = "lk.transcription";
const ATTRIBUTE = {
  id: "lk.segment_id",
  final: "lk.transcription_final",
  trackId: "lk.transcribed_track_id",
} as const;
/** Speech without a pause for ten minutes. The rest of a longer segment is ignored. */
const MAX_LENGTH = 10_000;

/** A segment of speech as text, usually a sentence. */
export type Caption = {
  /** The segment's id: a later caption with the same id replaces this one. */
  id: string;
  /** The identity of the speaker, which publishes the track that was transcribed. */
  identity: string;
  /** The identity of the participant that has sent the caption. */
  from: string;
  /** The track that was transcribed; null if the sender has not named it. */
  trackId: string | null;
  /** The segment's text so far. */
  text: string;
  /** Whether the text will no longer change. */
  final: boolean;
};

/** Options for `room.sendCaption`. */
export type CaptionOptions = {
  /** The segment that this text replaces, as an earlier call has returned it; a new segment by default. */
  id?: string;
  /** Whether the text will no longer change; true by default. */
  final?: boolean;
  /** The track that was transcribed: its publisher is shown as the speaker, by default the sender. */
  trackId?: string;
  /** The identities of the receivers; all participants by default. */
  to?: string[];
};

export type CaptionDeps = {
  /** The identity of the participant that publishes the track. */
  publisherOf(trackId: string): string | undefined;
  onCaption(caption: Caption): void;
};

/** Reads a stream of the topic `lk.transcription`. */
export async function readCaption(reader: StreamReader, from: string, deps: CaptionDeps): Promise<void> {
  const { [ATTRIBUTE.id]: id = reader.id, [ATTRIBUTE.trackId]: sid, [ATTRIBUTE.final]: announced } = reader.attributes;
  const trackId = sid?.startsWith("TR_") ? trackIdOf(sid) : (sid ?? null);
  const identity = (trackId && deps.publisherOf(trackId)) || from;
  const show = (text: string, isFinal: boolean) =>
    deps.onCaption({ id, identity, from, trackId, text, final: isFinal });
  let [text, pieces] = ["", 0];
  for await (const piece of reader.strings()) {
    text += piece;
    pieces += 1;
    if (text.length > MAX_LENGTH) break;
    if (announced !== "true") show(text, false);
  }
  // Agents stream their own speech word by word. Some of them announce the segment's end, others just end the stream.
  if (reader.attributes[ATTRIBUTE.final] === "true" || pieces > 1) show(text.slice(0, MAX_LENGTH), true);
}

/** Resolves with the segment's id. */
export async function sendCaption(
  data: { sendText(text: string, options: StreamOptions): Promise<void> },
  text: string,
  { id, final = true, trackId, to }: CaptionOptions & { id: string },
): Promise<string> {
  const attributes = {
    [ATTRIBUTE.id]: id,
    [ATTRIBUTE.final]: String(final),
    ...(trackId === undefined ? {} : { [ATTRIBUTE.trackId]: trackSid(trackId) }),
  };
  await data.sendText(text, { topic: TOPIC, attributes, to });
  return id;
}
