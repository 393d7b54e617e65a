// HLS playlists (RFC 8216bis): the multivariant playlist, and the media playlist of each rendition.

/** The upper bound of a rounded segment duration: keyframes are requested much earlier. */
export const TARGET_SECONDS = 6;
const PART_SECONDS = 0.5;
/** Three times the partial segment duration: the distance of a player from the live edge. */
const HOLD_BACK_SECONDS = 1.5;
const SKIP_SECONDS = 6 * TARGET_SECONDS;
/** Players may rely on partial segments for three target durations; a segment has two seconds. */
const LISTED_PARTS_SEGMENTS = 10;

type Part = { durationMs: number; independent: boolean };
export type Segment = {
  /** The offset from the start of the recording. */
  atMs: number;
  durationMs: number;
  head: number;
  /** The segment belongs to another track than the previous segment. */
  discontinuity: boolean;
  complete: boolean;
  /** The path of the segment's files, relative to the playlist. */
  at: string;
  parts: readonly Part[];
};

type MediaPlaylist = {
  name: string;
  /** The path of the next segment's files. */
  nextAt: string;
  segments: readonly Segment[];
  startedAt: number;
  ended: boolean;
  /** A delta update, without the segments that the player already knows. */
  skip: boolean;
};

const seconds = (ms: number): string => (ms / 1_000).toFixed(3);

export function mediaPlaylist({ name, nextAt, segments, startedAt, ended, skip }: MediaPlaylist): string {
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
    if (segment.head !== head) lines.push(`#EXT-X-MAP:URI="${segment.at}${name}-init-${segment.head}.mp4"`);
    head = segment.head;
    lines.push(`#EXT-X-PROGRAM-DATE-TIME:${new Date(startedAt + segment.atMs).toISOString()}`);
    if (index >= segments.length - LISTED_PARTS_SEGMENTS && !ended) {
      for (const [part, { durationMs, independent }] of segment.parts.entries()) {
        const mark = independent ? ",INDEPENDENT=YES" : "";
        lines.push(
          `#EXT-X-PART:DURATION=${seconds(durationMs)},URI="${segment.at}${name}-${index}.${part}.m4s"${mark}`,
        );
      }
    }
    if (segment.complete) lines.push(`#EXTINF:${seconds(segment.durationMs)},`, `${segment.at}${name}-${index}.m4s`);
  }
  if (ended) lines.push("#EXT-X-ENDLIST");
  else lines.push(`#EXT-X-PRELOAD-HINT:TYPE=PART,URI="${nextPart(name, nextAt, segments)}.m4s"`);
  return `${lines.join("\n")}\n`;
}

function nextPart(name: string, nextAt: string, segments: readonly Segment[]): string {
  const last = segments.at(-1);
  if (!last || last.complete) return `${nextAt}${name}-${segments.length}.0`;
  return `${last.at}${name}-${segments.length - 1}.${last.parts.length}`;
}

/** The number of oldest segments that a delta update may skip. */
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

/** `at` is the relative path of the media playlists. */
export function multivariantPlaylist(at: string, video: RenditionInfo | null, audio: RenditionInfo | null): string {
  const lines = ["#EXTM3U", "#EXT-X-VERSION:10", "#EXT-X-INDEPENDENT-SEGMENTS"];
  const bandwidth = Math.max(1, Math.ceil((video?.bitsPerSecond ?? 0) + (audio?.bitsPerSecond ?? 0)));
  const codecs = [video?.codecs, audio?.codecs].filter(Boolean).join(",");
  const attributes = [`BANDWIDTH=${bandwidth}`, `CODECS="${codecs}"`];
  if (video?.width && video.height) attributes.push(`RESOLUTION=${video.width}x${video.height}`);
  if (video && audio) {
    lines.push(
      `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="Sound",DEFAULT=YES,AUTOSELECT=YES,URI="${at}/audio.m3u8"`,
    );
    attributes.push('AUDIO="sound"');
  }
  lines.push(`#EXT-X-STREAM-INF:${attributes.join(",")}`, `${at}/${video ? "video" : "audio"}.m3u8`);
  return `${lines.join("\n")}\n`;
}
