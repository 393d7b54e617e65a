/** A TURN client for tests of a server: it allocates, relays and releases. */
import { type Address, maskAddress, unmaskAddress } from "./address.ts";
import {
  ATTRIBUTE,
  type Attribute,
  errorCodeOf,
  longTermKey,
  newTransaction,
  readMessage,
  TURN_TYPE,
  type TurnMessage,
  textOf,
  transactionOf,
  uint32,
  writeMessage,
} from "./message.ts";

/** The transport to the peer is UDP, regardless of the transport to the server. */
const UDP = Buffer.from([17, 0, 0, 0]);

export class TurnRefused extends Error {
  override readonly name = "TurnRefused";
  constructor(readonly code: number) {
    super(code === 401 ? "it refuses the credentials" : `it answers ${code}`);
  }
}

export class TurnClient {
  onData: (data: Buffer, from: Address) => void = () => {};
  readonly #write: (message: Buffer) => void;
  readonly #username: string;
  readonly #password: string;
  readonly #pending = new Map<string, { resolve(message: TurnMessage): void; reject(error: Error): void }>();
  #failure: Error | null = null;
  #realm = "";
  #nonce = "";

  constructor(write: (message: Buffer) => void, username: string, password: string) {
    this.#write = write;
    this.#username = username;
    this.#password = password;
  }

  receive(data: Buffer): void {
    const message = readMessage(Buffer.from(data));
    if (!message) return;
    if (message.type === TURN_TYPE.data) {
      const [peer] = message.peers;
      const from = peer && unmaskAddress(peer, transactionOf(message));
      const body = message.attributes.get(ATTRIBUTE.data);
      if (from && body) this.onData(body, from);
      return;
    }
    const transaction = transactionOf(message).toString("latin1");
    this.#pending.get(transaction)?.resolve(message);
    this.#pending.delete(transaction);
  }

  failed(error: Error): void {
    this.#failure = error;
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }

  async allocate(): Promise<Address> {
    const response = await this.request(TURN_TYPE.allocate, [[ATTRIBUTE.requestedTransport, UDP]]);
    const relayed = response.attributes.get(ATTRIBUTE.relayedAddress);
    const address = relayed && unmaskAddress(relayed, transactionOf(response));
    if (!address) throw new Error("its response names no relayed address");
    return address;
  }

  async permit(peer: Address): Promise<void> {
    await this.request(TURN_TYPE.createPermission, (transaction) => [
      [ATTRIBUTE.peerAddress, maskAddress(peer, transaction)],
    ]);
  }

  async bind(channel: number, peer: Address): Promise<void> {
    await this.request(TURN_TYPE.channelBind, (transaction) => [
      [ATTRIBUTE.channelNumber, uint32(channel * 0x1_0000)],
      [ATTRIBUTE.peerAddress, maskAddress(peer, transaction)],
    ]);
  }

  async refresh(seconds: number): Promise<void> {
    await this.request(TURN_TYPE.refresh, [[ATTRIBUTE.lifetime, uint32(seconds)]]);
  }

  release(): Promise<void> {
    return this.refresh(0);
  }

  send(data: Uint8Array, peer: Address): void {
    const transaction = newTransaction();
    const to = [ATTRIBUTE.peerAddress, maskAddress(peer, transaction)] as const;
    this.#write(writeMessage(TURN_TYPE.send, transaction, [to, [ATTRIBUTE.data, data]], { key: null }));
  }

  /** Without a current nonce the first attempt is challenged, as for every client. */
  async request(
    type: number,
    attributes: readonly Attribute[] | ((transaction: Buffer) => Attribute[]),
  ): Promise<TurnMessage> {
    for (let attempt = 0; ; attempt++) {
      const hadNonce = this.#nonce !== "";
      const response = await this.#send(type, attributes);
      const code = errorCodeOf(response);
      if (code === null) return response;
      const challenged = (code === 401 && !hadNonce) || code === 438;
      if (!challenged || attempt > 1) throw new TurnRefused(code);
      this.#realm = textOf(response, ATTRIBUTE.realm) ?? "";
      this.#nonce = textOf(response, ATTRIBUTE.nonce) ?? "";
    }
  }

  #send(type: number, attributes: readonly Attribute[] | ((transaction: Buffer) => Attribute[])): Promise<TurnMessage> {
    if (this.#failure) return Promise.reject(this.#failure);
    const transaction = newTransaction();
    const body = [...(typeof attributes === "function" ? attributes(transaction) : attributes)];
    const key = this.#nonce === "" ? null : longTermKey(this.#username, this.#realm, this.#password);
    if (key) {
      body.push([ATTRIBUTE.username, Buffer.from(this.#username)]);
      body.push([ATTRIBUTE.realm, Buffer.from(this.#realm)], [ATTRIBUTE.nonce, Buffer.from(this.#nonce)]);
    }
    const { promise, resolve, reject } = Promise.withResolvers<TurnMessage>();
    this.#pending.set(transaction.toString("latin1"), { resolve, reject });
    this.#write(writeMessage(type, transaction, body, { key }));
    return promise;
  }
}
