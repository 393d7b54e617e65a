/**
 * How features tell each other what happened. A fact is announced inside the unit of work that made it true:
 * `within` listeners join that transaction (outbox, audit), `on` listeners hear of it once it is on disk (fan-out).
 */
export type Bus<Facts> = {
  announce<K extends keyof Facts>(name: K, fact: Facts[K]): void;
  /** Joins the causing transaction; a throw undoes it. What may be refused is refused before it is announced. */
  within<K extends keyof Facts>(name: K, listener: (fact: Facts[K]) => void): () => void;
  on<K extends keyof Facts>(name: K, listener: (fact: Facts[K]) => void): () => void;
};

type Listener = (fact: never) => void;

export function createBus<Facts>(
  unit: {
    readonly inUnit: boolean;
    afterCommit(callback: () => void): void;
  },
  onListenerError: (error: unknown) => void,
): Bus<Facts> {
  const inside = new Map<keyof Facts, Set<Listener>>();
  const after = new Map<keyof Facts, Set<Listener>>();

  const add = (map: Map<keyof Facts, Set<Listener>>, name: keyof Facts, listener: Listener) => {
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
    announce(name, fact) {
      for (const listener of inside.get(name) ?? []) listener(fact as never);
      if (unit.inUnit) unit.afterCommit(() => tell(name, fact));
      else tell(name, fact);
    },
    within: (name, listener) => add(inside, name, listener as Listener),
    on: (name, listener) => add(after, name, listener as Listener),
  };
}
