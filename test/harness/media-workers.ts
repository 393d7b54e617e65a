type WorkerArguments = ConstructorParameters<typeof Worker>;

/** Remembers the media workers that this process starts from now on, so that a test can make one die. */
export function watchMediaWorkers() {
  const started: Worker[] = [];
  const Original = globalThis.Worker;
  globalThis.Worker = class extends Original {
    constructor(...[url, options]: WorkerArguments) {
      super(url, options);
      if (/sfu\/worker\.[jt]s$/.test(String(url))) started.push(this);
    }
  };
  return {
    /** The youngest one dies of an uncaught error, as it would by a fault of its own: nobody sends it nothing. */
    crash(): void {
      started.at(-1)?.postMessage(null);
    },
    restore(): void {
      globalThis.Worker = Original;
    },
  };
}
