import { SignalRequest, SignalResponse } from "@livekit/protocol";

type Incoming = NonNullable<SignalResponse["message"]>;
type Case = NonNullable<Incoming["case"]>;
type Said<T extends Case> = NonNullable<Extract<Incoming, { case: T }>["value"]>;

/** One of LiveKit's sockets without any of its SDKs: what is said on it, message by message. */
export class RawClient {
  readonly heard: Incoming[] = [];
  closed: number | null = null;
  readonly #socket: WebSocket;
  readonly #waiting = new Set<() => void>();

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      this.heard.push(SignalResponse.fromBinary(new Uint8Array(data as ArrayBuffer)).message);
      for (const wake of this.#waiting) wake();
    };
    socket.onclose = ({ code }) => {
      this.closed = code;
      for (const wake of this.#waiting) wake();
    };
  }

  /** `path` is "/rtc/v1" for clients with one connection. */
  static async open(url: string, token: string, more = "", path = "/rtc"): Promise<RawClient> {
    const socket = new WebSocket(`${url}${path}?access_token=${token}&protocol=16&sdk=go&version=2.4.0${more}`);
    const client = new RawClient(socket);
    await client.#until(() => client.heard.length > 0 || client.closed !== null, "the first message");
    return client;
  }

  send(message: SignalRequest["message"]): void {
    this.sendRaw(Buffer.from(new SignalRequest({ message }).toBinary()));
  }

  sendRaw(frame: Buffer<ArrayBuffer> | string): void {
    this.#socket.send(frame);
  }

  /** The first such message, now or later. */
  async hears<T extends Case>(name: T, matches: (value: Said<T>) => boolean = () => true): Promise<Said<T>> {
    const find = () => this.heard.find((one) => one.case === name && matches(one.value as Said<T>));
    await this.#until(() => find() !== undefined, name);
    return find()?.value as Said<T>;
  }

  async isClosed(): Promise<number> {
    await this.#until(() => this.closed !== null, "the close");
    return this.closed ?? 0;
  }

  close(): void {
    this.#socket.close();
  }

  async #until(holds: () => boolean, what: string): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (!holds()) {
      if (Date.now() > deadline) throw new Error(`${what} did not come`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiting.delete(wake);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(wake, 1_000);
        this.#waiting.add(wake);
      });
    }
  }
}
