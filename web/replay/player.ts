import { signal } from "@preact/signals";
import type { RecordingFile } from "../../src/protocol/recordings.ts";
import { ReplayClock, stepOf } from "./clock.ts";
import type { Replay } from "./replay.ts";

const STEP_MS = 100;

export type Track = { file: RecordingFile; element: HTMLMediaElement };

/** Plays all files of a recording together, each in its own element that follows the clock. */
export class Player {
  readonly tracks: readonly Track[];
  readonly durationMs: number;
  /** The current position; it changes ten times a second while playing. */
  readonly positionMs = signal(0);
  readonly playing = signal(false);
  /** Whether playback is paused because some track is still buffering. */
  readonly waiting = signal(false);
  /** The ids of the files that cover the current position. */
  readonly present = signal<ReadonlySet<string>>(new Set());
  readonly #clock: ReplayClock;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor({ recording, downloads }: Replay, now: () => number = () => performance.now()) {
    const addresses = new Map(downloads.map(({ fileId, url }) => [fileId, url]));
    this.durationMs = Math.max(
      recording.durationMs,
      ...recording.files.map(({ offsetMs, durationMs }) => offsetMs + durationMs),
    );
    this.#clock = new ReplayClock(this.durationMs, now);
    const playable = recording.files.filter(({ status }) => status !== "LOST");
    this.tracks = playable.map((file) => {
      const element = document.createElement(file.kind === "video" ? "video" : "audio");
      element.preload = "auto";
      element.src = pathOf(addresses.get(file.id) ?? "");
      if (element instanceof HTMLVideoElement) {
        element.playsInline = true;
        element.muted = true;
      }
      return { file, element };
    });
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#step(), STEP_MS);
    this.#step();
  }

  toggle(): void {
    this.playing.value = !this.playing.value;
    if (this.playing.value && this.#clock.positionMs >= this.durationMs) this.#clock.seek(0);
    this.#step();
  }

  seek(positionMs: number): void {
    this.#clock.seek(positionMs);
    this.#step();
  }

  setRate(rate: number): void {
    this.#clock.setRate(rate);
    this.#step();
  }

  setVolume(identity: string, volume: number): void {
    for (const { file, element } of this.tracks) if (file.identity === identity) element.volume = volume;
  }

  #step(): void {
    const position = { positionMs: this.#clock.positionMs, rate: this.#clock.rate };
    const present = new Set<string>();
    let isBuffering = false;
    for (const { file, element } of this.tracks) {
      const step = stepOf(file, position, element.currentTime * 1_000);
      if (step.show) {
        present.add(file.id);
        if (step.seekMs !== null) element.currentTime = step.seekMs / 1_000;
        element.playbackRate = step.rate;
        // A file that cannot be read must not hold up the others.
        if (element.error === null && element.readyState < HTMLMediaElement.HAVE_FUTURE_DATA && !isAtEnd(element))
          isBuffering = true;
      }
      const runs = step.show && this.playing.value && !isBuffering;
      if (runs && element.paused) element.play().catch(() => {});
      else if (!runs && !element.paused) element.pause();
    }
    if (this.playing.value && !isBuffering) this.#clock.start();
    else this.#clock.stop();
    if (this.#clock.positionMs >= this.durationMs) this.playing.value = false;
    this.waiting.value = this.playing.value && isBuffering;
    this.positionMs.value = this.#clock.positionMs;
    if (!sameMembers(present, this.present.value)) this.present.value = present;
  }
}

/** The page may have been opened under another host name than the server's own, so only the path is used. */
export function pathOf(address: string): string {
  if (!URL.canParse(address)) return address;
  const { pathname, search } = new URL(address);
  return pathname + search;
}

function isAtEnd({ currentTime, duration }: HTMLMediaElement): boolean {
  return Number.isFinite(duration) && duration - currentTime < 0.2;
}

function sameMembers(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((member) => b.has(member));
}
