import { connect, createServer, type Server, type Socket } from "node:net";

/** A network that stops carrying anything without saying so, and then carries again; or leads elsewhere. */
export class Line {
  #broken = false;
  readonly #sockets = new Set<Socket>();
  private constructor(
    private readonly server: Server,
    private target: number,
    readonly port: number,
  ) {}

  static async to(target: number): Promise<Line> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const line = new Line(server, target, (server.address() as { port: number }).port);
    server.on("connection", (near) => line.#carry(near));
    return line;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  break(): void {
    this.#broken = true;
  }

  /** What was lost on the way stays lost: connections from before are cut. */
  mend(): void {
    this.#cut();
    this.#broken = false;
  }

  /** As an address that moves to another machine. */
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

  #carry(near: Socket): void {
    const far = connect(this.target, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
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
