/** What participants get of each other, and the longest time without it. */
import { bars, type Participant, tone } from "../../../src/rtc-client/participant/participant.ts";
import { until } from "./until.ts";

/** Of a video of ten frames a second. */
const FRAME_TICKS = 9_000;

/** What a participant gets of one other. */
class Stream {
  samples = 0;
  timestamps: number[] = [];
  longestGapMs = 0;
  #frameAt: number | null = null;

  frame(timestamp: number): void {
    const now = performance.now();
    this.longestGapMs = Math.max(this.longestGapMs, now - (this.#frameAt ?? now));
    this.#frameAt = now;
    this.timestamps.push(timestamp);
  }

  /** Frames that never came, among those since `from`. */
  missing(from: number): number {
    const seen = this.timestamps.slice(from);
    return Math.round(((seen.at(-1) ?? 0) - (seen[0] ?? 0)) / FRAME_TICKS) + 1 - new Set(seen).size;
  }
}

export class Streams {
  readonly #streams = new Map<string, Stream>();

  of(watcher: string, publisher: string): Stream {
    const key = `${watcher} ${publisher}`;
    const stream = this.#streams.get(key) ?? new Stream();
    this.#streams.set(key, stream);
    return stream;
  }

  /** What each of them gets of each other. */
  among(names: readonly string[]): Stream[] {
    return names.flatMap((watcher) =>
      names.filter((one) => one !== watcher).map((publisher) => this.of(watcher, publisher)),
    );
  }

  /** The participant publishes a video and a tone, and what it gets is noted. */
  async exchange(name: string, person: Participant): Promise<void> {
    person.on("video", ({ identity, timestamp }) => this.of(name, identity).frame(timestamp));
    person.on("audio", ({ identity, samples }) => {
      this.of(name, identity).samples += samples.length;
    });
    await person.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
    await person.publishVideo(bars());
  }
}

export async function moreFrames(of: readonly Stream[], count: number): Promise<void> {
  const before = of.map(({ timestamps }) => timestamps.length);
  await until(() => of.every(({ timestamps }, n) => timestamps.length >= (before[n] ?? 0) + count));
}
