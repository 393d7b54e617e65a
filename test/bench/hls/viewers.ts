/**
 * Many who watch a live stream as players do that know LL-HLS: the list of renditions once, then of video and of audio each
 * next list as soon as there is one, and the parts that it names. A process of its own: `viewers.ts URL COUNT`; on a line of its
 * input it tells how they fared, and ends.
 */
import { percentile } from "../harness/report.ts";

export type Fared = { requests: number; bytes: number; refused: Record<string, number>; behindMs: number[] };

const [index = "", count = "1"] = process.argv.slice(2);
const fared: Fared = { requests: 0, bytes: 0, refused: {}, behindMs: [] };
/** Viewers arrive within this time, not all at the same moment. */
const ARRIVE_WITHIN_MS = 3_000;

async function read(url: string): Promise<string | null> {
  const answer = await fetch(url);
  const body = await answer.arrayBuffer();
  fared.requests++;
  fared.bytes += body.byteLength;
  if (answer.ok) return url.includes(".m3u8") ? new TextDecoder().decode(body) : "";
  const name = `${answer.status} ${new URL(url).pathname.split("/").at(-1)}`;
  fared.refused[name] = (fared.refused[name] ?? 0) + 1;
  return null;
}

/** How long ago the last part in the playlist was made. */
function behindMs(list: string): number {
  const at = list.lastIndexOf("#EXT-X-PROGRAM-DATE-TIME:");
  const newest = list.slice(at);
  const begun = Date.parse(newest.slice(newest.indexOf(":") + 1, newest.indexOf("\n")));
  const lengths = [...newest.matchAll(/#EXT-X-PART:DURATION=([\d.]+)/g)].map(([, seconds]) => Number(seconds));
  return Date.now() - begun - 1_000 * lengths.reduce((sum, seconds) => sum + seconds, 0);
}

async function follow(playlist: string): Promise<void> {
  let known = "";
  let query = "";
  for (;;) {
    const list = await read(playlist + query);
    if (list === null) {
      await Bun.sleep(500);
      continue;
    }
    fared.behindMs.push(behindMs(list));
    const parts = [...list.matchAll(/#EXT-X-PART:[^\n]*URI="([^"]+)"/g)].map(([, name = ""]) => name);
    // A client that has just come begins with the newest.
    const fresh = known === "" ? parts.slice(-1) : parts.slice(parts.indexOf(known) + 1);
    for (const name of fresh) await read(new URL(name, playlist).href);
    known = parts.at(-1) ?? known;
    const [, msn, part] = /#EXT-X-PRELOAD-HINT:TYPE=PART,URI="\w+-(\d+)\.(\d+)\.m4s"/.exec(list) ?? [];
    if (msn === undefined) return;
    query = `?_HLS_msn=${msn}&_HLS_part=${part}&_HLS_skip=YES`;
  }
}

async function watch(): Promise<void> {
  await Bun.sleep(Math.random() * ARRIVE_WITHIN_MS);
  const main = await read(index);
  if (main === null) return;
  const names = [...main.matchAll(/^(\S+\/video\.m3u8)$|URI="([^"]+\/audio\.m3u8)"/gm)].map(([, a, b]) => a ?? b ?? "");
  await Promise.all(names.map((name) => follow(new URL(name, index).href)));
}

if (import.meta.main) {
  for (let i = 0; i < Number(count); i++) void watch();
  for await (const _ of console) break;
  console.log(
    JSON.stringify({ ...fared, behindMs: [percentile(fared.behindMs, 0.5), percentile(fared.behindMs, 0.95)] }),
  );
  process.exit();
}
