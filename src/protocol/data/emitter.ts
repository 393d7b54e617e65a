type Listeners<Events extends Record<keyof Events, unknown[]>> = {
  [K in keyof Events]?: Set<(...args: Events[K]) => void>;
};

/** Typed events. A listener that throws causes an uncaught error and does not affect other listeners. */
export class Emitter<Events extends Record<keyof Events, unknown[]>> {
  #listeners: Listeners<Events> = {};

  /** Adds a listener and returns a function that removes it. */
  on<K extends keyof Events>(event: K, listener: (...args: Events[K]) => void): () => void {
    this.#listeners[event] ??= new Set();
    this.#listeners[event].add(listener);
    return () => this.off(event, listener);
  }

  /** Adds a listener that is called at most once and returns a function that removes it. */
  once<K extends keyof Events>(event: K, listener: (...args: Events[K]) => void): () => void {
    const off = this.on(event, (...args) => {
      off();
      listener(...args);
    });
    return off;
  }

  /** Removes a listener. */
  off<K extends keyof Events>(event: K, listener: (...args: Events[K]) => void): void {
    this.#listeners[event]?.delete(listener);
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
