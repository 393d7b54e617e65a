/** A chat client as a test sees it: sends frames, keeps what comes, waits for what it expects. */
export type Frame = { type: string; id?: string; seq?: number } & Record<string, unknown>;

export class ChatClient {
  readonly frames: Frame[] = [];
  closeCode: number | null = null;
  #nextId = 0;
  #watchers = new Set<() => void>();
  readonly #socket: WebSocket;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      this.frames.push(JSON.parse(String(data)) as Frame);
      this.#notify();
    };
    socket.onclose = ({ code }) => {
      this.closeCode = code;
      this.#notify();
    };
  }

  /** Resolves once greeted, or closed. */
  static async open(
    url: string,
    token: string,
    options: { headers?: Record<string, string> } = {},
  ): Promise<ChatClient> {
    const address = `${url.replace(/^http/, "ws")}/v1/chat/ws?token=${encodeURIComponent(token)}`;
    const client = new ChatClient(new WebSocket(address, options as never));
    await client.until(() => client.frames.length > 0 || client.closeCode !== null);
    return client;
  }

  #notify(): void {
    for (const watcher of this.#watchers) watcher();
  }

  /** Waits for something to be true of what has come; a minute is for machines that are busy. */
  until(condition: () => boolean, timeoutMs = 60_000): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#watchers.delete(watcher);
        reject(new Error(`waited in vain; last frames: ${JSON.stringify(this.frames.slice(-5))}`));
      }, timeoutMs);
      const watcher = () => {
        if (!condition()) return;
        clearTimeout(timer);
        this.#watchers.delete(watcher);
        resolve();
      };
      this.#watchers.add(watcher);
    });
  }

  /** The first frame that fits, come or still to come. */
  async frame(fits: (frame: Frame) => boolean): Promise<Frame> {
    await this.until(() => this.frames.some(fits));
    return this.frames.find(fits) as Frame;
  }

  ofType(type: string): Frame[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  /** Sends a frame with an id; resolves with its ack or error. */
  async ask(type: string, fields: Record<string, unknown> = {}): Promise<Frame> {
    const id = `r${++this.#nextId}`;
    this.send({ type, id, ...fields });
    return this.frame((frame) => frame.id === id);
  }

  /** Resolves when everything that the server sent before its answer has arrived. */
  async settled(): Promise<void> {
    await this.ask("ping");
  }

  send(frame: unknown): void {
    this.raw(JSON.stringify(frame));
  }
  raw(data: string | Uint8Array<ArrayBuffer>): void {
    this.#socket.send(data);
  }
  closed(): Promise<void> {
    return this.until(() => this.closeCode !== null);
  }
  async close(code = 1000): Promise<void> {
    if (this.closeCode !== null) return;
    this.#socket.close(code);
    await this.closed();
  }
  /** Ends the connection without a closing handshake, like a broken network. */
  drop(): void {
    (this.#socket as WebSocket & { terminate(): void }).terminate();
  }
}
