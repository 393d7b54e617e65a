import type { Unit } from "./db/writer.ts";

/**
 * How features tell each other what happened. A fact is announced inside the unit of work that made it true:
 * `within` listeners join that transaction (outbox, audit), `on` listeners hear of it once it is on disk (fan-out).
 */
export type Bus<Facts, Joined extends keyof Facts> = {
  announce<K extends keyof Facts>(unit: Unit, name: K, fact: Facts[K]): void;
  /** For a fact that no transaction made true (somebody connected): `on` listeners hear of it at once. */
  tell<K extends Exclude<keyof Facts, Joined>>(name: K, fact: Facts[K]): void;
  /** Joins the causing transaction; a throw undoes it. What may be refused is refused before it is announced. */
  within<K extends Joined>(name: K, listener: (unit: Unit, fact: Facts[K]) => void): () => void;
  /**
   * The same for facts of these types alone, and where `among` is given for those that it has: whoever waits for one kind
   * of event, or for some projects, is not asked about every other.
   */
  withinOf<K extends Joined, T extends TypeOf<Facts[K]>>(
    name: K,
    types: readonly T[],
    listener: (unit: Unit, fact: Extract<Facts[K], { type: T }>) => void,
    among?: Among<Facts[K]>,
  ): () => void;
  on<K extends keyof Facts>(name: K, listener: (fact: Facts[K]) => void): () => void;
  onOf<K extends keyof Facts, T extends TypeOf<Facts[K]>>(
    name: K,
    types: readonly T[],
    listener: (fact: Extract<Facts[K], { type: T }>) => void,
    among?: Among<Facts[K]>,
  ): () => void;
};

type Among<Fact> = { has(fact: Fact): boolean };

/** Facts of these rooms, whichever they are by then. */
export function ofRooms(rooms: { has(roomId: string): boolean }): Among<{ roomId: string }> {
  return { has: ({ roomId }) => rooms.has(roomId) };
}

type TypeOf<Fact> = Fact extends { type: infer T extends string } ? T : never;
type Inside = (unit: Unit, fact: never) => void;
type After = (fact: never) => void;
/** Those who hear of all facts of a name come first, then those who wait for its type. */
type Listeners<Name, Listener> = { all: Map<Name, Set<Listener>>; byType: Map<Name, Map<string, Set<Listener>>> };

export function createBus<Facts, Joined extends keyof Facts>(
  onListenerError: (error: unknown) => void,
): Bus<Facts, Joined> {
  const inside: Listeners<keyof Facts, Inside> = { all: new Map(), byType: new Map() };
  const after: Listeners<keyof Facts, After> = { all: new Map(), byType: new Map() };

  const hear = (listener: After, fact: unknown) => {
    try {
      listener(fact as never);
    } catch (error) {
      onListenerError(error);
    }
  };

  const tell = (name: keyof Facts, fact: unknown) => {
    for (const listener of after.all.get(name) ?? []) hear(listener, fact);
    for (const listener of waitingFor(after, name, fact)) hear(listener, fact);
  };

  return {
    announce(unit, name, fact) {
      for (const listener of inside.all.get(name) ?? []) listener(unit, fact as never);
      for (const listener of waitingFor(inside, name, fact)) listener(unit, fact as never);
      unit.afterCommit(() => tell(name, fact));
    },
    tell,
    within: (name, listener) => add(inside.all, name, listener as Inside),
    withinOf(name, types, listener, among) {
      const heard = listener as Inside;
      const asked: Inside = (unit, fact) => among?.has(fact) && heard(unit, fact);
      return addOf(inside, name, types, among ? asked : heard);
    },
    on: (name, listener) => add(after.all, name, listener as After),
    onOf(name, types, listener, among) {
      const heard = listener as After;
      const asked: After = (fact) => among?.has(fact) && heard(fact);
      return addOf(after, name, types, among ? asked : heard);
    },
  };
}

function waitingFor<Name, Listener>({ byType }: Listeners<Name, Listener>, name: Name, fact: unknown) {
  return byType.get(name)?.get((fact as { type: string }).type) ?? [];
}

function add<Key, Listener>(map: Map<Key, Set<Listener>>, key: Key, listener: Listener): () => void {
  const set = map.get(key) ?? new Set();
  map.set(key, set.add(listener));
  return () => void set.delete(listener);
}

function addOf<Name, Listener>(
  { byType }: Listeners<Name, Listener>,
  name: Name,
  types: readonly string[],
  listener: Listener,
): () => void {
  const ofName = byType.get(name) ?? new Map<string, Set<Listener>>();
  byType.set(name, ofName);
  const removals = types.map((type) => add(ofName, type, listener));
  return () => removals.forEach((remove) => void remove());
}
