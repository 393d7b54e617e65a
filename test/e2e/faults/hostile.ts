import { connect, type Socket } from "node:net";
import { repeatedly } from "./honest.ts";
import type { Subject } from "./subject.ts";

const PAUSE_MS = 700;
/** How many rounds a connection that only uses resources is kept open. */
const HOLD_ROUNDS = 6;

const binding = Buffer.alloc(20);
binding.writeUInt16BE(0x0001, 0);
binding.writeUInt32BE(0x2112a442, 4);

const unsigned = (claims: object) =>
  [{ alg: "none", typ: "JWT" }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");

/**
 * Strangers on every port, who do everything that a stranger can; nothing that they send may be believed, and no other client may
 * be affected.
 */
export class Hostile {
  readonly complaints: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #subject: Subject;
  readonly #userToken: string;
  readonly #stop: () => Promise<void>;
  readonly #held: Socket[][] = [];

  /** `userToken` is a chat token of its own: some attacks are an insider's. */
  constructor(subject: Subject, userToken: string) {
    this.#subject = subject;
    this.#userToken = userToken;
    subject.secrets.add(userToken);
    this.#stop = repeatedly(() => this.#round(), this.complaints);
  }

  async stop(): Promise<void> {
    await this.#stop();
    for (const socket of this.#held.flat()) socket.destroy();
  }

  async #round(): Promise<void> {
    this.#held.push([...this.#slowLoris(), ...this.#nonsense()]);
    if (this.#held.length > HOLD_ROUNDS) for (const socket of this.#held.shift() ?? []) socket.destroy();
    await Promise.all([this.#floods(), this.#guesses(), this.#sockets(), this.#bodies()]);
    await Bun.sleep(PAUSE_MS);
  }

  #count(what: string, times = 1): void {
    this.counts[what] = (this.counts[what] ?? 0) + times;
  }

  #say(port: number, bytes: string | Uint8Array): Socket {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {});
    socket.on("data", () => {});
    socket.write(bytes);
    return socket;
  }

  get #port(): number {
    return Number(new URL(this.#subject.url).port);
  }

  /** Half of them never say a word, half never finish. */
  #slowLoris(): Socket[] {
    this.#count("slow or silent connections", 10);
    const head = "POST /v1/auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n";
    return Array.from({ length: 10 }, (_, i) => this.#say(this.#port, i % 2 ? `${head}x-a: ` : ""));
  }

  #nonsense(): Socket[] {
    const garbage = crypto.getRandomValues(Buffer.alloc(4_000));
    const lines = [
      garbage,
      "GET / HTTP/9.9\r\n\r\n",
      `GET /${"a".repeat(100_000)} HTTP/1.1\r\nhost: localhost\r\n\r\n`,
      "POST /v1/rooms HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n",
    ];
    const [mediaPort = 0] = this.#subject.mediaPorts;
    this.#count("connections with nonsense", lines.length + 2);
    // A frame on the media port begins with its length.
    const framed = Buffer.concat([Buffer.from([0xff, 0xff]), garbage]);
    return [
      ...lines.map((line) => this.#say(this.#port, line)),
      ...[garbage, framed].map((it) => this.#say(mediaPort, it)),
    ];
  }

  async #floods(): Promise<void> {
    let answers = 0;
    const udp = await Bun.udpSocket({
      hostname: "127.0.0.1",
      socket: { data: () => void answers++, error: () => {} },
    });
    for (let i = 0; i < 300; i++) {
      const packet = i % 2 ? binding : crypto.getRandomValues(Buffer.alloc(1 + ((i * 37) % 1200)));
      for (const port of this.#subject.mediaPorts) trySend(udp, packet, port);
    }
    this.#count("datagrams", 300);
    await Bun.sleep(20);
    udp.close();
    if (answers > 0) this.complaints.push(`${answers} datagrams came back for forged ones`);
  }

  async #guesses(): Promise<void> {
    const { apiKey, email, projectId } = this.#subject;
    const [publicHalf = ""] = apiKey.split(".");
    const soon = Math.floor(Date.now() / 1000) + 3600;
    const bearers = [
      `${publicHalf}.${crypto.randomUUID()}`,
      `svk_prod_${crypto.randomUUID().slice(0, 16)}.${"a".repeat(43)}`,
      `${unsigned({ sub: "1", aud: "session", exp: soon })}.`,
      `${unsigned({ sub: "1", aud: "chat", exp: soon, projectId })}.x`,
      `${this.#userToken.slice(0, -4)}AAAA`,
    ];
    const paths = ["/v1/project", "/v1/projects", "/v1/chat/conversations", "/v1/rtc/servers", "/v1/auth/me"];
    const tried = bearers.flatMap((credential) =>
      paths.map(async (path) => {
        const answer = await this.#subject.call("GET", path, { credential }).catch(() => null);
        if (answer && answer.status < 400) this.complaints.push(`a guess was believed at ${path}`);
      }),
    );
    const login = this.#subject.call("POST", "/v1/auth/login", { body: { email, password: crypto.randomUUID() } });
    const believed = await login.then(({ status }) => status < 400).catch(() => false);
    if (believed) this.complaints.push("a guessed password was believed");
    await Promise.all(tried);
    this.#count("guessed credentials", tried.length + 1);
  }

  /** Comes, says too much or nothing, goes without a word, and comes again. */
  async #sockets(): Promise<void> {
    const url = this.#subject.url.replace(/^http/, "ws");
    const said = ["x".repeat(70_000), "[".repeat(9_000), '{"type":"room.join","room":"common","id":5}', "\u0000"];
    const visits = Array.from({ length: 16 }, (_, i) => {
      const token = i % 2 ? this.#userToken : "not.a.token";
      const socket = new WebSocket(`${url}/v1/${i % 4 < 2 ? "chat/ws" : "rtc"}?token=${token}`);
      socket.onopen = () => {
        socket.send(said[i % said.length] ?? "");
        if (i % 3 === 0) (socket as WebSocket & { terminate(): void }).terminate();
      };
      const closed = new Promise<void>((done) => {
        socket.onclose = () => done();
      });
      return Promise.race([closed, Bun.sleep(500)]).then(() => socket.close());
    });
    await Promise.all(visits);
    this.#count("sockets", visits.length);
  }

  async #bodies(): Promise<void> {
    const bodies = ["x".repeat(2 << 20), "[".repeat(100_000), '{"__proto__":{"isOperator":true}}'];
    const answers = bodies.map((body) =>
      fetch(`${this.#subject.url}/v1/auth/register`, {
        method: "POST",
        body,
        headers: { "content-type": "application/json" },
        keepalive: false,
        signal: AbortSignal.timeout(5_000),
      }).then(
        (answer) => {
          if (answer.status < 400 || answer.status === 500) this.complaints.push(`a bad body got ${answer.status}`);
        },
        () => {},
      ),
    );
    await Promise.all(answers);
    this.#count("bad bodies", bodies.length);
  }
}

/** While the server is down, its port refuses packets; that is no error here. */
function trySend(udp: Bun.udp.Socket<"buffer">, packet: Buffer, port: number): void {
  try {
    udp.send(packet, port, "127.0.0.1");
  } catch {}
}
