/** One session of Janus's WebSocket protocol: requests are answered by transaction, first by an ack and then by an event. */
type Message = {
  janus: string;
  transaction?: string;
  data?: { id: number };
  jsep?: { type: string; sdp: string };
  plugindata?: { data: { error?: string; error_code?: number } };
  error?: { reason: string };
};

const KEEP_ALIVE_MS = 20_000;
const PLUGIN = "janus.plugin.videoroom";

export class JanusSession {
  readonly #socket: WebSocket;
  readonly #pending = new Map<string, { resolve(message: Message): void; reject(error: Error): void }>();
  #nextTransaction = 1;
  #sessionId: number | undefined;
  #timer: Timer | null = null;

  static async open(url: string): Promise<JanusSession> {
    const socket = new WebSocket(url, "janus-protocol");
    const session = new JanusSession(socket);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = reject;
    });
    session.#sessionId = (await session.#request({ janus: "create" })).data?.id;
    session.#timer = setInterval(() => void session.#request({ janus: "keepalive" }), KEEP_ALIVE_MS);
    return session;
  }

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const message: Message = JSON.parse(String(data));
      const waiting = this.#pending.get(message.transaction ?? "");
      // The ack of a message to a plugin only says that an event will follow; that of a keepalive is all there is.
      if (!waiting || (message.janus === "ack" && !message.transaction?.startsWith("keepalive"))) return;
      this.#pending.delete(message.transaction ?? "");
      const reason = message.error?.reason ?? message.plugindata?.data.error;
      if (reason) waiting.reject(new Error(`Janus: ${reason}`));
      else waiting.resolve(message);
    };
  }

  async attach(): Promise<number> {
    return (await this.#request({ janus: "attach", plugin: PLUGIN })).data?.id ?? 0;
  }

  /** To a handle of the plugin; resolves with what the plugin says, and the description it sends along. */
  async message(handle: number, body: object, jsep?: { type: "offer" | "answer"; sdp: string }): Promise<string> {
    const sent = { janus: "message", handle_id: handle, body, ...(jsep && { jsep: { ...jsep, trickle: false } }) };
    return (await this.#request(sent)).jsep?.sdp ?? "";
  }

  #request(request: { janus: string } & Record<string, unknown>): Promise<Message> {
    const transaction = `${request.janus}-${this.#nextTransaction++}`;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    this.#pending.set(transaction, { resolve, reject });
    const session = this.#sessionId === undefined ? {} : { session_id: this.#sessionId };
    this.#socket.send(JSON.stringify({ ...request, ...session, transaction }));
    return promise;
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#socket.close();
  }
}
