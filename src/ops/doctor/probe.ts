import { randomBytes } from "node:crypto";
import { parseStun, STUN_TYPE, writeBindingRequest } from "../../sfu/wire/stun/stun.ts";
import { TIMEOUT_MS } from "./check.ts";

type Probe = { ufrag: string; pwd: string };

const TRIES = 4;
const WAIT_MS = 250;

/** A STUN binding request like the first one of a browser, and a test for its response. */
export function createStunProbe({ ufrag, pwd }: Probe): { request: Uint8Array; isResponse(data: Buffer): boolean } {
  const transactionId = randomBytes(12);
  const request = new Uint8Array(256);
  const length = writeBindingRequest(request, {
    transactionId,
    username: `${ufrag}:doctor`,
    password: pwd,
    priority: 1,
    useCandidate: false,
    iceControlling: 1n,
  });
  return {
    request: request.subarray(0, length),
    isResponse(data) {
      const message = parseStun(data);
      const isOurs = message !== undefined && Buffer.from(message.transactionId).equals(transactionId);
      return isOurs && message.type === STUN_TYPE.bindingSuccess;
    },
  };
}

export async function respondsOverUdp(address: string, port: number, probe: Probe): Promise<boolean> {
  const { request, isResponse } = createStunProbe(probe);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = await Bun.udpSocket({
    hostname: address.includes(":") ? "::" : "0.0.0.0",
    binaryType: "buffer",
    socket: {
      data: (_socket, data) => void (isResponse(data) && resolve(true)),
      error: () => {},
    },
  });
  try {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      socket.send(request, port, address);
      if (await Promise.race([promise, Bun.sleep(WAIT_MS).then(() => false)])) return true;
    }
    return false;
  } catch {
    return false;
  } finally {
    socket.close();
  }
}

/** Over TCP, a packet is preceded by its length (RFC 4571). */
export async function respondsOverTcp(address: string, port: number, probe: Probe): Promise<boolean> {
  const { request, isResponse } = createStunProbe(probe);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), TIMEOUT_MS);
  let received: Buffer = Buffer.alloc(0);
  Bun.connect({
    hostname: address,
    port,
    socket: {
      open(socket) {
        const length = Buffer.alloc(2);
        length.writeUInt16BE(request.length);
        socket.write(Buffer.concat([length, request]));
      },
      data(socket, data) {
        received = Buffer.concat([received, data]);
        if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
        resolve(isResponse(received.subarray(2, 2 + received.readUInt16BE(0))));
        socket.end();
      },
      close: () => resolve(false),
      error: () => resolve(false),
    },
  }).catch(() => resolve(false));
  return promise.finally(() => clearTimeout(timer));
}
