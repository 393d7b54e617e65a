/** Where the participants of one room are: on its main worker, and on more workers while it is large. */
import type { MediaRequest, OpenRoom } from "../protocol/media-node.ts";

/** A worker with participants of a room, by their ids. */
type Site<W> = { readonly worker: W; readonly identities: Map<string, string> };

/** From about this many viewers on, a second worker pays off: relaying a watched publication costs as much as many viewers. */
export const SPREAD_FROM = 100;
/** A busy worker already spreads a room of this share of that size. */
const BUSY_SHARE = 0.2;

export class RoomSites<W extends { readonly isBusy: boolean }> {
  readonly options: OpenRoom;
  /** Simulated networks by identity, which another worker needs too. */
  readonly networks = new Map<string, MediaRequest<"setNetwork">>();
  isGrowing = false;
  /** After a failure, no other worker is tried before this time. */
  growsFromMs = 0;
  #main: Site<W>;
  readonly #others: Site<W>[] = [];
  readonly #spreadFrom: number;

  constructor(options: OpenRoom, main: W, spreadFrom: number) {
    this.options = options;
    this.#main = { worker: main, identities: new Map() };
    this.#spreadFrom = spreadFrom;
  }

  /** The main worker records the room and determines its speakers. */
  get main(): W {
    return this.#main.worker;
  }

  get all(): Site<W>[] {
    return [this.#main, ...this.#others];
  }

  get workers(): W[] {
    return this.all.map(({ worker }) => worker);
  }

  get size(): number {
    return this.all.reduce((total, { identities }) => total + identities.size, 0);
  }

  /** The participant's worker; the main worker if the participant is unknown. */
  workerOf(participantId: string): W {
    return (this.all.find(({ identities }) => identities.has(participantId)) ?? this.#main).worker;
  }

  workerOfIdentity(identity: string | null): W {
    if (this.#others.length === 0) return this.#main.worker;
    const found = this.all.find(({ identities }) => [...identities.values()].includes(identity ?? ""));
    return (found ?? this.#main).worker;
  }

  /** Publishers usually come first, and stay together on the main worker, because it is filled first. */
  place(participantId: string, identity: string): W {
    const known = this.all.find(({ identities }) => identities.has(participantId));
    const site = known ?? this.all.find((one) => !this.#isFull(one)) ?? smallest(this.all);
    site.identities.set(participantId, identity);
    return site.worker;
  }

  /** Whether every worker of the room has as many participants as it should have. */
  get isFull(): boolean {
    return this.all.every((site) => this.#isFull(site));
  }

  #isFull({ worker, identities }: Site<W>): boolean {
    return identities.size >= this.#spreadFrom * (worker.isBusy ? BUSY_SHARE : 1);
  }

  add(worker: W): void {
    this.#others.push({ worker, identities: new Map() });
  }

  /** Returns the worker if the room no longer needs it: its last participant has left, and it is not the main worker. */
  remove(participantId: string): W | null {
    const site = this.all.find(({ identities }) => identities.delete(participantId));
    if (!site || site === this.#main || site.identities.size > 0 || this.isGrowing) return null;
    this.#others.splice(this.#others.indexOf(site), 1);
    return site.worker;
  }

  /** Returns the participants of a worker that has died, and whether the room remains; null if the room did not use the worker. */
  lose(worker: W): { participantIds: string[]; remains: boolean; wasMain: boolean } | null {
    const site = this.all.find((one) => one.worker === worker);
    if (!site) return null;
    const wasMain = site === this.#main;
    const rest = this.all.filter((one) => one !== site);
    const next = rest.find((one) => one === this.#main) ?? (rest.length > 0 ? largest(rest) : null);
    if (next) {
      this.#main = next;
      this.#others.splice(0, this.#others.length, ...rest.filter((one) => one !== next));
    }
    return { participantIds: [...site.identities.keys()], remains: next !== null, wasMain };
  }
}

function smallest<W>(sites: Site<W>[]): Site<W> {
  return sites.reduce((a, b) => (b.identities.size < a.identities.size ? b : a));
}

function largest<W>(sites: Site<W>[]): Site<W> {
  return sites.reduce((a, b) => (b.identities.size > a.identities.size ? b : a));
}
