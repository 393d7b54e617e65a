import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import { PATIENCE_MS } from "./check.ts";
import {
  readAnswer,
  TURN_TYPE,
  type TurnAnswer,
  type TurnCredentials,
  writeAllocate,
  writeRelease,
} from "./turn-message.ts";

type TurnTarget = { host: string; port: number; transport: "udp" | "tcp" | "tls" };

/** `turn:host:port?transport=tcp` and the like (RFC 7065). */
export function turnTarget(url: string): TurnTarget {
  const {
    scheme,
    host = "",
    port,
    transport,
  } = /^(?<scheme>turns?):(?<host>\[[^\]]+\]|[^:?]+)(?::(?<port>\d+))?(?:\?transport=(?<transport>udp|tcp))?$/.exec(url)
    ?.groups ?? {};
  if (host === "") throw new Error(`${url} is no TURN address`);
  const secure = scheme === "turns";
  return {
    host: host.replace(/^\[|\]$/g, ""),
    port: Number(port ?? (secure ? 5349 : 3478)),
    transport: secure ? "tls" : transport === "tcp" ? "tcp" : "udp",
  };
}

type Line = { ask(request: Buffer): Promise<TurnAnswer>; close(): void };

/** Asks for a relay with these credentials, gives it back, and answers its address; throws when there is none to be had. */
export async function allocateRelay(target: TurnTarget, username: string, password: string): Promise<string> {
  const line = await withinPatience(target.transport === "udp" ? udpLine(target) : tcpLine(target));
  try {
    const challenge = await withinPatience(line.ask(writeAllocate(null)));
    if (challenge.errorCode !== 401)
      throw new Error(`it asks for no credentials (${challenge.errorCode ?? "granted"})`);
    const credentials: TurnCredentials = { username, password, realm: challenge.realm, nonce: challenge.nonce };
    const answer = await withinPatience(line.ask(writeAllocate(credentials)));
    if (answer.type !== TURN_TYPE.allocated || answer.relay === null) {
      throw new Error(answer.errorCode === 401 ? "it refuses the credentials" : `it answers ${answer.errorCode}`);
    }
    await withinPatience(line.ask(writeRelease(credentials)));
    return answer.relay;
  } finally {
    line.close();
  }
}

async function udpLine({ host, port }: TurnTarget): Promise<Line> {
  let waiting: (answer: TurnAnswer) => void = () => {};
  const socket = await Bun.udpSocket({
    connect: { hostname: host, port },
    binaryType: "buffer",
    socket: {
      data(_socket, data) {
        const answer = readAnswer(data);
        if (answer) waiting(answer);
      },
      error: () => {},
    },
  });
  return {
    ask: (request) =>
      new Promise((resolve) => {
        waiting = resolve;
        socket.send(request);
      }),
    close: () => socket.close(),
  };
}

async function tcpLine({ host, port, transport }: TurnTarget): Promise<Line> {
  let waiting: { resolve(answer: TurnAnswer): void; reject(error: Error): void } | null = null;
  let received: Buffer = Buffer.alloc(0);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = transport === "tls" ? connectTls({ host, port, servername: host }) : connectTcp({ host, port });
  socket.once(transport === "tls" ? "secureConnect" : "connect", () => resolve());
  socket.on("error", (error: Error) => {
    reject(error);
    waiting?.reject(error);
  });
  socket.on("data", (data: Buffer) => {
    received = Buffer.concat([received, data]);
    const answer = readAnswer(received);
    if (answer) waiting?.resolve(answer);
  });
  await promise;
  return {
    ask: (request) =>
      new Promise((resolve, reject) => {
        received = Buffer.alloc(0);
        waiting = { resolve, reject };
        socket.write(request);
      }),
    close: () => socket.destroy(),
  };
}

function withinPatience<Result>(work: Promise<Result>): Promise<Result> {
  const late = Bun.sleep(PATIENCE_MS).then((): never => {
    throw new Error("it does not answer");
  });
  late.catch(() => {});
  return Promise.race([work, late]);
}
