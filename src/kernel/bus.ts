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
  /** The same for facts of these types alone: whoever waits for one kind of event is not asked about every other. */
  withinOf<K extends Joined, T extends TypeOf<Facts[K]>>(
    name: K,
    types: readonly T[],
    listener: (unit: Unit, fact: Extract<Facts[K], { type: T }>) => void,
  ): () => void;
  on<K extends keyof Facts>(name: K, listener: (fact: Facts[K]) => void): () => void;
};

type TypeOf<Fact> = Fact extends { type: infer T extends string } ? T : never;
type Inside = (unit: Unit, fact: never) => void;
type After = (fact: never) => void;

export function createBus<Facts, Joined extends keyof Facts>(
  onListenerError: (error: unknown) => void,
): Bus<Facts, Joined> {
  const inside = new Map<keyof Facts, Set<Inside>>();
  const insideByType = new Map<keyof Facts, Map<string, Set<Inside>>>();
  const after = new Map<keyof Facts, Set<After>>();

  const add = <Key, Listener>(map: Map<Key, Set<Listener>>, name: Key, listener: Listener) => {
    const set = map.get(name) ?? new Set();
    map.set(name, set.add(listener));
    return () => void set.delete(listener);
  };

  const tell = (name: keyof Facts, fact: unknown) => {
    for (const listener of after.get(name) ?? []) {
      try {
        listener(fact as never);
      } catch (error) {
        onListenerError(error);
      }
    }
  };

  return {
    announce(unit, name, fact) {
      for (const listener of inside.get(name) ?? []) listener(unit, fact as never);
      const byType = insideByType.get(name);
      if (byType)
        for (const listener of byType.get((fact as { type: string }).type) ?? []) listener(unit, fact as never);
      unit.afterCommit(() => tell(name, fact));
    },
    tell,
    within: (name, listener) => add(inside, name, listener as Inside),
    withinOf(name, types, listener) {
      const byType = insideByType.get(name) ?? new Map<string, Set<Inside>>();
      insideByType.set(name, byType);
      const removals = types.map((type) => add(byType, type, listener as Inside));
      return () => removals.forEach((remove) => void remove());
    },
    on: (name, listener) => add(after, name, listener as After),
  };
}
