import { signal } from "@preact/signals";
import type { RecordingFile } from "../../src/protocol/recordings.ts";
import { ReplayClock, stepOf } from "./clock.ts";
import type { Replay } from "./replay.ts";

const STEP_MS = 100;

export type Track = { file: RecordingFile; element: HTMLMediaElement };

/** All files of a recording as one: each in an element of its own, kept where the clock is. */
export class Player {
  readonly tracks: readonly Track[];
  readonly durationMs: number;
  /** For the page: changes ten times a second while it plays. */
  readonly positionMs = signal(0);
  readonly playing = signal(false);
  /** Some track has not arrived yet: all wait for it. */
  readonly waiting = signal(false);
  /** Files of which something is to be seen or heard now. */
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
    let late = false;
    for (const { file, element } of this.tracks) {
      const step = stepOf(file, position, element.currentTime * 1_000);
      if (step.show) {
        present.add(file.id);
        if (step.seekMs !== null) element.currentTime = step.seekMs / 1_000;
        element.playbackRate = step.rate;
        // Before its first picture there is nothing to wait with; a file that cannot be read holds up nobody.
        if (element.error === null && element.readyState < HTMLMediaElement.HAVE_FUTURE_DATA && !isAtEnd(element))
          late = true;
      }
      const runs = step.show && this.playing.value && !late;
      if (runs && element.paused) element.play().catch(() => {});
      else if (!runs && !element.paused) element.pause();
    }
    if (this.playing.value && !late) this.#clock.start();
    else this.#clock.stop();
    if (this.#clock.positionMs >= this.durationMs) this.playing.value = false;
    this.waiting.value = this.playing.value && late;
    this.positionMs.value = this.#clock.positionMs;
    if (!sameMembers(present, this.present.value)) this.present.value = present;
  }
}

/** The page may have been reached under another name than the server knows itself by. */
function pathOf(address: string): string {
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
