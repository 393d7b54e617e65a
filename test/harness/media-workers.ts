type WorkerArguments = ConstructorParameters<typeof Worker>;

/** Records the media workers that this process starts from now on, so that a test can crash one. */
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
    /** Crashes the newest worker with an uncaught error, by sending it an invalid message. */
    crash(): void {
      started.at(-1)?.postMessage(null);
    },
    restore(): void {
      globalThis.Worker = Original;
    },
  };
}
