/**
 * Active speakers, from the audio levels in packet headers (RFC 6464): the list that clients show, steady and at most four
 * times a second; and the loudest few voices whose audio is forwarded, quick to let a new voice in.
 */
import type { Speaker } from "../../protocol/room-records.ts";
import type { Publication } from "../tracks/publication.ts";

const SILENCE = 127;
/** Levels are −dBov: a lower value is louder, and below this one it is speech. */
const SPEECH = 45;
const UPDATE_MS = 250;
/** A speaker stays listed over pauses of breath. */
const HOLD_MS = 600;
const SMOOTHING = 0.5;
const MIN_ACTIVE_SHARE = 0.3;
const LEVEL_STEPS = 8;
const DEFAULT_AUDIBLE_VOICES = 6;

interface Activity {
  observed: number;
  active: number;
  activeSum: number;
  smoothed: number;
  lastActiveMs: number;
}

/** The speakers of a room by identity. */
export class Speakers {
  readonly #activities = new Map<string, Activity>();
  #lastUpdateMs = Number.NEGATIVE_INFINITY;
  #reported: Speaker[] = [];

  /** `level` is as in the header: 0 (loudest) … 127 (silence). */
  observe(identity: string, level: number, nowMs: number): void {
    let activity = this.#activities.get(identity);
    if (activity === undefined) {
      activity = { observed: 0, active: 0, activeSum: 0, smoothed: 0, lastActiveMs: Number.NEGATIVE_INFINITY };
      this.#activities.set(identity, activity);
    }
    activity.observed += 1;
    if (level <= SPEECH) {
      activity.active += 1;
      activity.activeSum += loudness(level);
      activity.lastActiveMs = nowMs;
    }
  }

  remove(identity: string): void {
    this.#activities.delete(identity);
  }

  /** Returns the speakers, loudest first, when the list has changed and 250 ms have passed, else null. */
  takeChange(nowMs: number): Speaker[] | null {
    if (nowMs - this.#lastUpdateMs < UPDATE_MS) return null;
    this.#lastUpdateMs = nowMs;
    const speakers: Speaker[] = [];
    for (const [identity, activity] of this.#activities) {
      const speaks = activity.active > 0 && activity.active >= activity.observed * MIN_ACTIVE_SHARE;
      const now = speaks ? activity.activeSum / activity.active : 0;
      activity.smoothed = activity.smoothed === 0 ? now : activity.smoothed + (now - activity.smoothed) * SMOOTHING;
      activity.observed = activity.active = activity.activeSum = 0;
      if (nowMs - activity.lastActiveMs > HOLD_MS) activity.smoothed = 0;
      if (activity.smoothed > 0) {
        speakers.push({ identity, level: Math.ceil(activity.smoothed * LEVEL_STEPS) / LEVEL_STEPS });
      }
    }
    speakers.sort((a, b) => b.level - a.level || (a.identity < b.identity ? -1 : 1));
    if (isSame(speakers, this.#reported)) return null;
    this.#reported = speakers;
    return speakers;
  }
}

/** Maps −dBov to a scale that looks right in a meter: 0 at the speech threshold, 1 at −5 dBov. */
function loudness(level: number): number {
  return Math.max(0.01, Math.min(1, (SPEECH - level) / (SPEECH - 5)));
}

function isSame(a: readonly Speaker[], b: readonly Speaker[]): boolean {
  return (
    a.length === b.length && a.every(({ identity, level }, i) => identity === b[i]?.identity && level === b[i]?.level)
  );
}

/** A new voice must be this much louder, in dB, to replace a voice that is speaking. */
const TAKEOVER_DB = 6;
const ATTACK = 0.4;
const RELEASE = 0.05;
/** Without packets for this long (DTX) a voice counts as silent. */
const QUIET_MS = 300;
/** No voice is replaced within this time of being selected. */
const MIN_SELECTED_MS = 500;

interface Contender {
  level: number;
  atMs: number;
  sinceMs: number;
}

/** Selects the loudest voices, at most `limit`. Every voice is selected while there are no more voices than that. */
export class LoudestVoices {
  readonly #limit: number;
  readonly #selected = new Map<string, Contender>();
  readonly #others = new Map<string, Contender>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  has(id: string): boolean {
    return this.#selected.has(id);
  }

  /** Is true when the voice is selected and no other voice waits to replace one. */
  isUncontested(id: string): boolean {
    return this.#others.size === 0 && this.#selected.has(id);
  }

  get selected(): string[] {
    return [...this.#selected.keys()];
  }

  /** Returns whether the voice is selected, perhaps just now in place of a quieter one. */
  observe(id: string, level: number, nowMs: number): boolean {
    const selected = this.#selected.get(id);
    if (selected !== undefined) {
      update(selected, level, nowMs);
      return true;
    }
    let contender = this.#others.get(id);
    if (contender === undefined) {
      contender = { level: SILENCE, atMs: nowMs, sinceMs: nowMs };
      this.#others.set(id, contender);
    }
    update(contender, level, nowMs);
    if (this.#selected.size >= this.#limit && !this.#deselectQuieter(contender, nowMs)) return false;
    this.#others.delete(id);
    contender.sinceMs = nowMs;
    this.#selected.set(id, contender);
    return true;
  }

  #deselectQuieter(newcomer: Contender, nowMs: number): boolean {
    if (newcomer.level > SPEECH) return false;
    let quietest: [string, Contender] | undefined;
    let quietestLevel = -1;
    for (const entry of this.#selected) {
      const [, { atMs, sinceMs, level }] = entry;
      if (nowMs - sinceMs < MIN_SELECTED_MS) continue;
      const current = nowMs - atMs > QUIET_MS ? SILENCE : level;
      if (current <= quietestLevel) continue;
      quietest = entry;
      quietestLevel = current;
    }
    if (quietest === undefined || quietestLevel < newcomer.level + TAKEOVER_DB) return false;
    this.#selected.delete(quietest[0]);
    this.#others.set(...quietest);
    return true;
  }

  /** Forgets a voice that is muted or has left. */
  remove(id: string): void {
    this.#selected.delete(id);
    this.#others.delete(id);
  }
}

/** The level follows a louder voice at once and a quieter one slowly, because the end of a word is not the end of speech. */
function update(contender: Contender, level: number, nowMs: number): void {
  contender.level += (level - contender.level) * (level < contender.level ? ATTACK : RELEASE);
  contender.atMs = nowMs;
}

/** Only microphones share the sections of the loudest voices; other audio has its own subscriptions. */
export const isVoice = ({ kind, source }: Publication): boolean => kind === "audio" && source === "microphone";

/** Which microphones of a room are audible, and which participants are shown as speaking. */
export class RoomVoices {
  readonly #speakers = new Speakers();
  readonly #loudest: LoudestVoices;
  /** Identities by track, of microphones that have been heard. */
  readonly #identities = new Map<string, string>();

  /** `heard` is called for each voice that becomes audible. */
  constructor(
    audible = DEFAULT_AUDIBLE_VOICES,
    private readonly heard: () => void = () => {},
  ) {
    this.#loudest = new LoudestVoices(audible);
  }

  /** Voices that were selected as the loudest come first; the others have not been heard, or send no levels. */
  audible(publications: Iterable<Publication>): Publication[] {
    const voices = [...publications].filter((one) => isVoice(one) && one.announced && one.audible && !one.muted);
    const isSelected = ({ trackId }: Publication) => this.#loudest.has(trackId);
    return [...voices.filter(isSelected), ...voices.filter((voice) => !isSelected(voice))];
  }

  /** Screen-share audio is no voice: it is always forwarded, and its publisher is not shown as speaking. */
  observe(publication: Publication, level: number, nowMs: number): void {
    if (publication.muted || publication.source === "screenShareAudio") return;
    const isNew = !this.#identities.has(publication.trackId);
    this.#identities.set(publication.trackId, publication.identity);
    this.#speakers.observe(publication.identity, level, nowMs);
    const audible = this.#loudest.observe(publication.trackId, level, nowMs);
    if (publication.audible !== audible) {
      publication.audible = audible;
      for (const subscription of publication.subscriptions) subscription.refreshAudio(nowMs);
    } else if (!isNew) return;
    if (audible) this.heard();
  }

  /** Is true when the next levels of this track cannot change which tracks are audible. */
  isUncontested({ trackId, source }: Publication): boolean {
    return source === "screenShareAudio" || this.#loudest.isUncontested(trackId);
  }

  remove(publication: Publication): void {
    this.#loudest.remove(publication.trackId);
    if (this.#identities.delete(publication.trackId)) this.#speakers.remove(publication.identity);
  }

  takeChange(nowMs: number): Speaker[] | null {
    return this.#speakers.takeChange(nowMs);
  }
}
