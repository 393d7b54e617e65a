import type { Unit } from "./db/writer.ts";

/**
 * Events that other features record in the transaction that caused them, by name. They are only ever published inside a
 * unit of work. Features add theirs by declaration merging, in their `events.ts`.
 */
// biome-ignore lint/suspicious/noEmptyInterface: the features' declarations fill it.
export interface TransactionalEvents {}

/** All events that features publish for each other, by name. Features add theirs by declaration merging. */
export interface BusEvents extends TransactionalEvents {
  /** Another process wrote to the database: caches drop everything. */
  changedElsewhere: Record<string, never>;
}

/**
 * Notifies features of events in other features. `inTransaction` listeners join the unit of work that publishes an
 * event (outbox, audit log), `on` listeners run once it is on disk (fan-out). A listener can be limited to some types
 * of an event; such listeners run after those that get every type.
 */
export type Bus<
  Events = BusEvents,
  Transactional extends keyof Events = Extract<keyof Events, keyof TransactionalEvents>,
> = {
  publish<Name extends keyof Events>(unit: Unit, name: Name, event: Events[Name]): void;
  /** Publishes an event without a transaction, such as a new connection: `on` listeners run at once. */
  emit<Name extends Exclude<keyof Events, Transactional>>(name: Name, event: Events[Name]): void;
  /** A listener that throws rolls back the transaction. */
  inTransaction<Name extends Transactional>(
    name: Name,
    listener: (unit: Unit, event: Events[Name]) => void,
  ): () => void;
  inTransaction<Name extends Transactional, Type extends TypeOf<Events[Name]>>(
    name: Name,
    types: readonly Type[],
    listener: (unit: Unit, event: Extract<Events[Name], { type: Type }>) => void,
  ): () => void;
  on<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): () => void;
  on<Name extends keyof Events, Type extends TypeOf<Events[Name]>>(
    name: Name,
    types: readonly Type[],
    listener: (event: Extract<Events[Name], { type: Type }>) => void,
  ): () => void;
};

type TypeOf<Event> = Event extends { type: infer Type extends string } ? Type : never;

export function createBus<
  Events = BusEvents,
  Transactional extends keyof Events = Extract<keyof Events, keyof TransactionalEvents>,
>(onListenerError: (error: unknown) => void): Bus<Events, Transactional> {
  const inTransaction = new Listeners<(unit: Unit, event: unknown) => void>();
  const afterCommit = new Listeners<(event: unknown) => void>();

  function emit(name: PropertyKey, event: unknown): void {
    for (const listener of afterCommit.of(name, event)) {
      try {
        listener(event);
      } catch (error) {
        onListenerError(error);
      }
    }
  }

  const bus = {
    publish(unit: Unit, name: PropertyKey, event: unknown) {
      for (const listener of inTransaction.of(name, event)) listener(unit, event);
      unit.afterCommit(() => emit(name, event));
    },
    emit,
    inTransaction: inTransaction.add,
    on: afterCommit.add,
  };
  return bus as Bus<Events, Transactional>;
}

class Listeners<Listener> {
  readonly #byName = new Map<PropertyKey, { all: Set<Listener>; byType: Map<string, Set<Listener>> }>();

  *of(name: PropertyKey, event: unknown): Iterable<Listener> {
    const named = this.#byName.get(name);
    if (!named) return;
    yield* named.all;
    if (named.byType.size > 0) yield* named.byType.get((event as { type: string }).type) ?? [];
  }

  readonly add = (name: PropertyKey, ...args: [Listener] | [readonly string[], Listener]): (() => void) => {
    const named = this.#byName.get(name) ?? { all: new Set(), byType: new Map() };
    this.#byName.set(name, named);
    const [types, listener] = args.length === 1 ? [null, args[0]] : args;
    const sets = types ? types.map((type) => setOf(named.byType, type)) : [named.all];
    for (const set of sets) set.add(listener);
    return () => {
      for (const set of sets) set.delete(listener);
    };
  };
}

function setOf<Value>(sets: Map<string, Set<Value>>, key: string): Set<Value> {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set);
  return set;
}
