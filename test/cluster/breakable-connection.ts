import { connect, createServer, type Server, type Socket } from "node:net";

/** A proxy that can drop all bytes silently, recover, or lead to another port. */
export class BreakableConnection {
  #broken = false;
  readonly #sockets = new Set<Socket>();
  private constructor(
    private readonly server: Server,
    private target: number,
    readonly port: number,
  ) {}

  static async to(target: number): Promise<BreakableConnection> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const connection = new BreakableConnection(server, target, (server.address() as { port: number }).port);
    server.on("connection", (client) => connection.#forward(client));
    return connection;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  break(): void {
    this.#broken = true;
  }

  /** Connections from before are cut, because their lost bytes stay lost. */
  mend(): void {
    this.#cut();
    this.#broken = false;
  }

  /** Acts like an address that moves to another machine. */
  pointTo(target: number): void {
    this.target = target;
    this.#cut();
  }

  close(): void {
    this.#cut();
    this.server.close();
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #forward(client: Socket): void {
    const upstream = connect(this.target, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(from);
      from.on("data", (bytes) => void (this.#broken || to.write(bytes)));
      from.on("error", () => {});
      from.on("close", () => {
        this.#sockets.delete(from);
        if (!this.#broken) to.destroy();
      });
    }
  }
}
