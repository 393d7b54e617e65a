// Who speaks, from the audio levels in the packet headers (RFC 6464): the list shown to people, steady and at most
// four times a second; and the loudest few whose sound is forwarded, quick to let a new voice in.

const SILENCE = 127;
/** −dBov: louder than this is speech. */
const SPEECH = 45;
const UPDATE_MS = 250;
/** A speaker stays listed over pauses of breath. */
const HOLD_MS = 600;
/** Half a second of levels, roughly. */
const SMOOTHING = 0.5;
const MIN_ACTIVE_SHARE = 0.3;
const LEVEL_STEPS = 8;

export interface Speaker {
  id: string;
  /** 0 … 1. */
  level: number;
}

interface Voice {
  observed: number;
  active: number;
  activeSum: number;
  smoothed: number;
  lastActiveMs: number;
}

export class Speakers {
  readonly #voices = new Map<string, Voice>();
  #lastUpdateMs = Number.NEGATIVE_INFINITY;
  #shown: Speaker[] = [];

  /** `level` as in the header: 0 (loudest) … 127 (silence). */
  observe(id: string, level: number, nowMs: number): void {
    let voice = this.#voices.get(id);
    if (voice === undefined) {
      voice = { observed: 0, active: 0, activeSum: 0, smoothed: 0, lastActiveMs: Number.NEGATIVE_INFINITY };
      this.#voices.set(id, voice);
    }
    voice.observed += 1;
    if (level <= SPEECH) {
      voice.active += 1;
      voice.activeSum += loudness(level);
      voice.lastActiveMs = nowMs;
    }
  }

  remove(id: string): void {
    this.#voices.delete(id);
  }

  /** The speakers, loudest first, when the list has changed and 250 ms have passed; else undefined. */
  takeChange(nowMs: number): Speaker[] | undefined {
    if (nowMs - this.#lastUpdateMs < UPDATE_MS) return undefined;
    this.#lastUpdateMs = nowMs;
    const speaking: Speaker[] = [];
    for (const [id, voice] of this.#voices) {
      const speaks = voice.active > 0 && voice.active >= voice.observed * MIN_ACTIVE_SHARE;
      const now = speaks ? voice.activeSum / voice.active : 0;
      voice.smoothed = voice.smoothed === 0 ? now : voice.smoothed + (now - voice.smoothed) * SMOOTHING;
      voice.observed = voice.active = voice.activeSum = 0;
      if (nowMs - voice.lastActiveMs > HOLD_MS) voice.smoothed = 0;
      if (voice.smoothed > 0) {
        speaking.push({ id, level: Math.ceil(voice.smoothed * LEVEL_STEPS) / LEVEL_STEPS });
      }
    }
    speaking.sort((a, b) => b.level - a.level || (a.id < b.id ? -1 : 1));
    if (isSame(speaking, this.#shown)) return undefined;
    this.#shown = speaking;
    return speaking;
  }
}

/** −dBov on a scale that looks right in a meter: 0 at the speech threshold, 1 at −5 dBov. */
function loudness(level: number): number {
  return Math.max(0.01, Math.min(1, (SPEECH - level) / (SPEECH - 5)));
}

function isSame(a: readonly Speaker[], b: readonly Speaker[]): boolean {
  return a.length === b.length && a.every((speaker, i) => speaker.id === b[i]?.id && speaker.level === b[i]?.level);
}

/** A newcomer must be this much louder, in dB, to take the place of somebody who is speaking. */
const TAKEOVER_DB = 6;
const ATTACK = 0.4;
const RELEASE = 0.05;
/** Without packets for this long (DTX) a voice counts as silent. */
const QUIET_MS = 300;
/** Nobody loses their place within this time of getting it. */
const STAY_MS = 500;

interface Contender {
  level: number;
  atMs: number;
  sinceMs: number;
}

/** The loudest `places` voices. Everybody is in while there are no more voices than places. */
export class LoudestVoices {
  readonly #places: number;
  readonly #in = new Map<string, Contender>();
  readonly #out = new Map<string, Contender>();

  constructor(places: number) {
    this.#places = places;
  }

  has(id: string): boolean {
    return this.#in.has(id);
  }

  /** It has a place that nobody wants. */
  isSure(id: string): boolean {
    return this.#out.size === 0 && this.#in.has(id);
  }

  get selected(): string[] {
    return [...this.#in.keys()];
  }

  /** Returns whether the voice is forwarded, having perhaps just taken the place of a quieter one. */
  observe(id: string, level: number, nowMs: number): boolean {
    const inside = this.#in.get(id);
    if (inside !== undefined) {
      update(inside, level, nowMs);
      return true;
    }
    let outside = this.#out.get(id);
    if (outside === undefined) {
      outside = { level: SILENCE, atMs: nowMs, sinceMs: nowMs };
      this.#out.set(id, outside);
    }
    update(outside, level, nowMs);
    if (this.#in.size >= this.#places && !this.#makeRoom(outside, nowMs)) return false;
    this.#out.delete(id);
    outside.sinceMs = nowMs;
    this.#in.set(id, outside);
    return true;
  }

  #makeRoom(newcomer: Contender, nowMs: number): boolean {
    if (newcomer.level > SPEECH) return false;
    let quietest: string | undefined;
    let quietestLevel = -1;
    for (const [id, contender] of this.#in) {
      if (nowMs - contender.sinceMs < STAY_MS) continue;
      const level = nowMs - contender.atMs > QUIET_MS ? SILENCE : contender.level;
      if (level > quietestLevel) {
        quietest = id;
        quietestLevel = level;
      }
    }
    if (quietest === undefined || quietestLevel < newcomer.level + TAKEOVER_DB) return false;
    const leaving = this.#in.get(quietest);
    this.#in.delete(quietest);
    if (leaving !== undefined) this.#out.set(quietest, leaving);
    return true;
  }

  /** A muted or departed voice gives its place up. */
  remove(id: string): void {
    this.#in.delete(id);
    this.#out.delete(id);
  }
}

/** Louder at once, quieter slowly: the end of a word is not the end of a turn. */
function update(contender: Contender, level: number, nowMs: number): void {
  contender.level += (level - contender.level) * (level < contender.level ? ATTACK : RELEASE);
  contender.atMs = nowMs;
}
