type Listeners<Events extends Record<keyof Events, unknown[]>> = {
  [K in keyof Events]?: Set<(...args: Events[K]) => void>;
};

/** Typed events. A listener that throws is an uncaught error, and keeps no other from hearing. */
export class Emitter<Events extends Record<keyof Events, unknown[]>> {
  #listeners: Listeners<Events> = {};

  /** Returns the function that removes the listener again. */
  on<K extends keyof Events>(event: K, listener: (...args: Events[K]) => void): () => void {
    this.#listeners[event] ??= new Set();
    this.#listeners[event].add(listener);
    return () => this.#listeners[event]?.delete(listener);
  }

  once<K extends keyof Events>(event: K, listener: (...args: Events[K]) => void): () => void {
    const off = this.on(event, (...args) => {
      off();
      listener(...args);
    });
    return off;
  }

  /** @internal */
  emit<K extends keyof Events>(event: K, ...args: Events[K]): void {
    for (const listener of [...(this.#listeners[event] ?? [])]) {
      try {
        listener(...args);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  /** @internal */
  removeAllListeners(): void {
    this.#listeners = {};
  }
}
