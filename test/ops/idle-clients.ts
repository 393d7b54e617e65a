/** Clients that connect and say nothing, and connect again when they are closed. */
export class IdleClients {
  readonly #open = new Set<Bun.Socket<undefined>>();
  readonly #loops: Promise<void>[];
  #stopped = false;

  constructor(
    readonly port: number,
    count: number,
  ) {
    this.#loops = Array.from({ length: count }, () => this.#stay());
  }

  get open(): number {
    return this.#open.size;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const socket of this.#open) socket.terminate();
    await Promise.all(this.#loops);
  }

  async #stay(): Promise<void> {
    while (!this.#stopped) {
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      try {
        const socket = await Bun.connect<undefined>({
          hostname: "127.0.0.1",
          port: this.port,
          socket: { data() {}, close: () => resolve(), error() {} },
        });
        this.#open.add(socket);
        if (this.#stopped) socket.terminate();
        await closed;
        this.#open.delete(socket);
      } catch {}
      await Bun.sleep(200 + Math.random() * 300);
    }
  }
}
