/** A live stream on air, and players of its HLS. */
import { until } from "../nodes/remote/until.ts";
import { type EncodedPublisher, publishEncoded } from "./encoded-publisher.ts";
import type { Upgradable } from "./upgradable.ts";

export type Segment = { uri: string; atMs: number; durationMs: number; discontinuity: boolean; map: string };

export function segmentsOf(playlist: string): Segment[] {
  const segments: Segment[] = [];
  let [map, atMs, durationMs, discontinuity] = ["", 0, 0, false];
  for (const line of playlist.split("\n")) {
    const [name, value = ""] = line.split(/:(.*)/);
    if (name === "#EXT-X-MAP") map = /URI="([^"]+)"/.exec(value)?.[1] ?? "";
    else if (name === "#EXT-X-DISCONTINUITY") discontinuity = true;
    else if (name === "#EXT-X-PROGRAM-DATE-TIME") atMs = Date.parse(value);
    else if (name === "#EXTINF") durationMs = Number.parseFloat(value) * 1_000;
    else if (line !== "" && !line.startsWith("#")) {
      segments.push({ uri: line, atMs, durationMs, discontinuity, map });
      discontinuity = false;
    }
  }
  return segments;
}

/** The longest gap in the media between two segments. */
export const longestHoleMs = (segments: readonly Segment[]) =>
  Math.max(...segments.slice(1).map(({ atMs }, i) => atMs - (segments[i]?.atMs ?? 0) - (segments[i]?.durationMs ?? 0)));

export type OnAir = {
  streamId: string;
  publisher: EncodedPublisher;
  /** The address of the HLS as a viewer opens it. */
  index: string;
  playlistOf(kind: string): URL;
};

export async function goOnAir(host: Upgradable): Promise<OnAir> {
  const { call, url } = host.server;
  // Its HLS is made of the recording.
  const { body: stream } = await call("POST", "/v1/live-streams", { title: "show", hostIdentity: "ada", record: true });
  const publisher = await publishEncoded(url, await host.token(stream.roomId, "ada"));
  await call("POST", `/v1/live-streams/${stream.id}/start`);
  const { body: viewer } = await call("POST", `/v1/live-streams/${stream.id}/viewer-tokens`, { identity: "grace" });
  const index = `${url}/v1/live-streams/${stream.id}/hls/index.m3u8?token=${viewer.rtc.token}`;
  const main = await until(async () => {
    const response = await fetch(index);
    const text = await response.text();
    return response.ok && text.includes("RESOLUTION") && text.includes("AUDIO=") && text;
  });
  const [, path = ""] = /^(\S+)\/video\.m3u8$/m.exec(main) ?? [];
  const playlistOf = (kind: string) => new URL(`${path}/${kind}.m3u8`, index);
  return { streamId: stream.id, publisher, index, playlistOf };
}

export type Player = {
  /** What was not answered. */
  readonly failures: string[];
  readonly lists: Segment[][];
  stop(): Promise<void>;
};

/** Asks for each next part as soon as it is announced, as players do. */
export function play(playlist: URL): Player {
  const failures: string[] = [];
  const lists: Segment[][] = [];
  let isStopped = false;
  const playing = (async () => {
    let query = "";
    while (!isStopped) {
      const answer = await fetch(`${playlist.origin}${playlist.pathname}${query}`).catch((error: Error) => error);
      if (answer instanceof Error || !answer.ok) {
        failures.push(answer instanceof Error ? answer.message : `${answer.status} ${await answer.text()}`);
        await Bun.sleep(100);
        continue;
      }
      const text = await answer.text();
      lists.push(segmentsOf(text));
      const [, index, part] = /PRELOAD-HINT:TYPE=PART,URI="\S+-(\d+)\.(\d+)\.m4s"/.exec(text) ?? [];
      query = index === undefined ? "" : `?_HLS_msn=${index}&_HLS_part=${part}`;
    }
  })();
  return {
    failures,
    lists,
    async stop() {
      isStopped = true;
      await playing;
    },
  };
}
