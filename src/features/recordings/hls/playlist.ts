// What an HLS player reads (RFC 8216bis): the list of renditions, and of each the segments so far and the parts of the
// newest ones. Functions of what there is, and nothing else.

/** A segment is never longer than this when rounded: keyframes are asked for long before. */
export const TARGET_SECONDS = 6;
const PART_SECONDS = 0.5;
/** Three parts: what a player keeps between itself and the newest one. */
const HOLD_BACK_SECONDS = 1.5;
const SKIP_SECONDS = 6 * TARGET_SECONDS;
/** Parts are listed for three target durations, as players may count on; segments are of two seconds. */
const LISTED_PARTS_SEGMENTS = 10;

export type Part = { durationMs: number; independent: boolean };
export type Segment = {
  /** Of the recording. */
  atMs: number;
  durationMs: number;
  head: number;
  /** Another track than the segment before: its clock or its pictures do not go on. */
  discontinuity: boolean;
  complete: boolean;
  parts: readonly Part[];
};

export type MediaPlaylist = {
  name: string;
  segments: readonly Segment[];
  startedAt: number;
  ended: boolean;
  /** Leave out what whoever asks has been told before. */
  skip: boolean;
};

const seconds = (ms: number): string => (ms / 1_000).toFixed(3);

export function mediaPlaylist({ name, segments, startedAt, ended, skip }: MediaPlaylist): string {
  const lines = [
    "#EXTM3U",
    "#EXT-X-VERSION:10",
    `#EXT-X-TARGETDURATION:${TARGET_SECONDS}`,
    `#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=${HOLD_BACK_SECONDS},CAN-SKIP-UNTIL=${SKIP_SECONDS}`,
    `#EXT-X-PART-INF:PART-TARGET=${PART_SECONDS}`,
    "#EXT-X-MEDIA-SEQUENCE:0",
    "#EXT-X-PLAYLIST-TYPE:EVENT",
  ];
  const skipped = skip ? skippable(segments) : 0;
  if (skipped > 0) lines.push(`#EXT-X-SKIP:SKIPPED-SEGMENTS=${skipped}`);
  let head = skipped > 0 ? (segments[skipped - 1]?.head ?? -1) : -1;
  for (const [index, segment] of segments.entries()) {
    if (index < skipped) continue;
    if (segment.discontinuity) lines.push("#EXT-X-DISCONTINUITY");
    if (segment.head !== head) lines.push(`#EXT-X-MAP:URI="${name}-init-${segment.head}.mp4"`);
    head = segment.head;
    lines.push(`#EXT-X-PROGRAM-DATE-TIME:${new Date(startedAt + segment.atMs).toISOString()}`);
    if (index >= segments.length - LISTED_PARTS_SEGMENTS && !ended) {
      for (const [part, { durationMs, independent }] of segment.parts.entries()) {
        const mark = independent ? ",INDEPENDENT=YES" : "";
        lines.push(`#EXT-X-PART:DURATION=${seconds(durationMs)},URI="${name}-${index}.${part}.m4s"${mark}`);
      }
    }
    if (segment.complete) lines.push(`#EXTINF:${seconds(segment.durationMs)},`, `${name}-${index}.m4s`);
  }
  if (ended) lines.push("#EXT-X-ENDLIST");
  else lines.push(`#EXT-X-PRELOAD-HINT:TYPE=PART,URI="${name}-${nextPart(segments)}.m4s"`);
  return `${lines.join("\n")}\n`;
}

/** The part that is not there yet. */
function nextPart(segments: readonly Segment[]): string {
  const last = segments.at(-1);
  return last && !last.complete ? `${segments.length - 1}.${last.parts.length}` : `${segments.length}.0`;
}

/** How many of the oldest lie further back than a delta update has to reach. */
function skippable(segments: readonly Segment[]): number {
  let behindMs = 0;
  for (let index = segments.length - 1; index >= 0; index--) {
    behindMs += segments[index]?.durationMs ?? 0;
    if (behindMs >= SKIP_SECONDS * 1_000) return index;
  }
  return 0;
}

export type RenditionInfo = {
  codecs: string;
  width: number | null;
  height: number | null;
  bitsPerSecond: number;
};

/** `at`: where the playlists of the renditions are, from where this one is. */
export function multivariantPlaylist(at: string, video: RenditionInfo | null, audio: RenditionInfo | null): string {
  const lines = ["#EXTM3U", "#EXT-X-VERSION:10", "#EXT-X-INDEPENDENT-SEGMENTS"];
  const bandwidth = Math.max(1, Math.ceil((video?.bitsPerSecond ?? 0) + (audio?.bitsPerSecond ?? 0)));
  const codecs = [video?.codecs, audio?.codecs].filter(Boolean).join(",");
  const about = [`BANDWIDTH=${bandwidth}`, `CODECS="${codecs}"`];
  if (video?.width && video.height) about.push(`RESOLUTION=${video.width}x${video.height}`);
  if (video && audio) {
    lines.push(
      `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="Sound",DEFAULT=YES,AUTOSELECT=YES,URI="${at}/audio.m3u8"`,
    );
    about.push('AUDIO="sound"');
  }
  lines.push(`#EXT-X-STREAM-INF:${about.join(",")}`, `${at}/${video ? "video" : "audio"}.m3u8`);
  return `${lines.join("\n")}\n`;
}
