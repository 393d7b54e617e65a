/**
 * A TURN server (RFC 8656) that relays to a given set of peers only. The server owns no sockets: each message is passed
 * with the client transport for its responses.
 */
import type { Now } from "../../kernel/time/clock.ts";
import { type Address, type Family, familyNamed, familyOf, maskAddress, peerKey, unmaskAddress } from "./address.ts";
import type { Allocation } from "./allocation.ts";
import { Allocations, type TurnCounters, type TurnLimits } from "./allocations.ts";
import { TurnAuthenticator, type TurnUser } from "./authentication.ts";
import { isChannelData, readChannelData } from "./framing.ts";
import {
  ATTRIBUTE,
  type Attribute,
  errorOf,
  errorValue,
  readMessage,
  successOf,
  TURN_TYPE,
  type TurnMessage,
  transactionOf,
  uint16s,
  uint32,
  writeMessage,
} from "./message.ts";
import { ChallengeLimit } from "./quota.ts";
import { Refusal } from "./refusal.ts";
import { type ClientTransport, type OpenRelay, type Peer, PeerTable } from "./transports.ts";

type TurnOptions = {
  secret: string;
  realm: string;
  relayAddresses: readonly string[];
  limits: TurnLimits;
  open: OpenRelay;
  /** The key of the limits that apply to an IP address. */
  holderOf: (address: string) => string;
  now: Now;
};

const UDP_PROTOCOL = 17;
const RESERVE_NEXT_PORT = 0x80;
const MIN_LIFETIME_SECONDS = 600;
const MAX_LIFETIME_SECONDS = 3_600;
/** A connection without an allocation is closed after this many invalid requests. */
const MAX_FAILURES = 20;

type Response = Attribute[] | Refusal;

export class TurnServer {
  readonly counters: TurnCounters = {
    allocations: 0,
    allocationsMade: 0,
    packetsIn: 0,
    packetsOut: 0,
    bytesIn: 0,
    bytesOut: 0,
    dropped: 0,
    refusals: {},
  };
  readonly #authenticator: TurnAuthenticator;
  readonly #challenges: ChallengeLimit;
  readonly #allocations: Allocations;
  readonly #failures = new WeakMap<ClientTransport, number>();
  #peers = new PeerTable([]);

  constructor(private readonly options: TurnOptions) {
    this.#authenticator = new TurnAuthenticator(options);
    this.#challenges = new ChallengeLimit(options.now);
    this.#allocations = new Allocations({ ...options, counters: this.counters });
  }

  setPeers(peers: readonly Peer[]): void {
    this.#peers = new PeerTable(peers);
  }

  hasAllocation(client: ClientTransport): boolean {
    return this.#allocations.get(client) !== undefined;
  }

  receive(data: Buffer, client: ClientTransport): void {
    if (isChannelData(data)) {
      const framed = readChannelData(data);
      if (framed) this.#allocations.get(client)?.sendOnChannel(framed.channel, framed.data, this.options.now());
      return;
    }
    const message = readMessage(data);
    if (!message) {
      this.#failed(client);
      return;
    }
    switch (message.type) {
      case TURN_TYPE.send:
        this.#send(message, client);
        break;
      case TURN_TYPE.binding:
        if (this.#mayAnswerUnauthenticated(client))
          this.#succeed(message, client, [this.#mapped(message, client)], null);
        break;
      case TURN_TYPE.allocate:
      case TURN_TYPE.refresh:
      case TURN_TYPE.createPermission:
      case TURN_TYPE.channelBind:
        this.#request(message, client);
        break;
    }
  }

  closed(client: ClientTransport): void {
    const allocation = this.#allocations.get(client);
    if (allocation) this.#allocations.release(allocation);
  }

  revoke(id: string, untilMs: number): void {
    this.#authenticator.revoke(id, untilMs);
    for (const allocation of this.#allocations.all()) if (allocation.options.id === id) this.#drop(allocation);
  }

  tick(): void {
    const nowMs = this.options.now();
    this.#authenticator.prune(nowMs);
    for (const allocation of this.#allocations.all()) if (allocation.isExpired(nowMs)) this.#drop(allocation);
  }

  #request(message: TurnMessage, client: ClientTransport): void {
    const allocation = this.#allocations.get(client);
    const user = this.#authenticator.authenticate(message, client, allocation?.options);
    if (user instanceof Refusal) {
      if (this.#failed(client) && this.#mayAnswerUnauthenticated(client)) this.#refuse(message, client, user, null);
      return;
    }
    const response = message.unknown.length > 0 ? new Refusal(420) : this.#handle(message, client, user, allocation);
    if (response instanceof Refusal) this.#refuse(message, client, response, user.key);
    else this.#succeed(message, client, response, user.key);
  }

  #handle(message: TurnMessage, client: ClientTransport, user: TurnUser, allocation: Allocation | undefined): Response {
    if (message.type === TURN_TYPE.allocate) return this.#allocate(message, client, user, allocation);
    if (!allocation) return new Refusal(437);
    if (allocation.options.username !== user.username) return new Refusal(441);
    switch (message.type) {
      case TURN_TYPE.refresh:
        return this.#refresh(message, allocation);
      case TURN_TYPE.createPermission:
        return this.#permit(message, allocation);
      default:
        return this.#bind(message, allocation);
    }
  }

  #allocate(message: TurnMessage, client: ClientTransport, user: TurnUser, held: Allocation | undefined): Response {
    const transaction = transactionOf(message).toString("latin1");
    if (held) return held.options.transaction === transaction ? this.#allocated(message, held) : new Refusal(437);
    const protocol = message.attributes.get(ATTRIBUTE.requestedTransport)?.at(0);
    if (protocol !== UDP_PROTOCOL) return new Refusal(protocol === undefined ? 400 : 442);
    const address = this.#relayAddressFor(message);
    if (address === undefined) return new Refusal(440);
    const evenPort = message.attributes.get(ATTRIBUTE.evenPort);
    // The relayed port is only a label here, so an even one is always available; reserving the next port (R bit) would
    // be useless.
    if ((evenPort?.at(0) ?? 0) & RESERVE_NEXT_PORT) return new Refusal(508);
    const isEven = evenPort !== undefined;
    const allocation = this.#allocations.make({ client, ...user, transaction, address, isEven });
    if (allocation instanceof Refusal) return allocation;
    allocation.expiresAtMs = this.options.now() + (lifetimeOf(message) || MIN_LIFETIME_SECONDS) * 1_000;
    return this.#allocated(message, allocation);
  }

  #allocated(message: TurnMessage, allocation: Allocation): Attribute[] {
    const { relayed, client } = allocation.options;
    const seconds = Math.max(0, Math.round((allocation.expiresAtMs - this.options.now()) / 1_000));
    return [
      [ATTRIBUTE.relayedAddress, maskAddress(relayed, transactionOf(message))],
      [ATTRIBUTE.lifetime, uint32(seconds)],
      this.#mapped(message, client),
    ];
  }

  /** The relayed address of the requested family; by default IPv4, or the only one. */
  #relayAddressFor(message: TurnMessage): string | undefined {
    const { relayAddresses } = this.options;
    const requested = message.attributes.get(ATTRIBUTE.requestedFamily);
    const of = (family: Family | undefined) => relayAddresses.find((address) => familyOf(address) === family);
    if (requested) return of(familyNamed(requested[0] ?? 0));
    return of("ipv4") ?? relayAddresses[0];
  }

  #refresh(message: TurnMessage, allocation: Allocation): Response {
    const requested = message.attributes.get(ATTRIBUTE.requestedFamily);
    if (requested && familyNamed(requested[0] ?? 0) !== familyOf(allocation.options.relayed.address))
      return new Refusal(443);
    const seconds = lifetimeOf(message);
    if (seconds === 0) this.#allocations.release(allocation);
    else allocation.expiresAtMs = this.options.now() + seconds * 1_000;
    return [[ATTRIBUTE.lifetime, uint32(seconds)]];
  }

  #permit(message: TurnMessage, allocation: Allocation): Response {
    if (message.peers.length === 0) return new Refusal(400);
    const addresses: string[] = [];
    for (const value of message.peers) {
      const peer = this.#peerIn(message, value, allocation);
      if (peer instanceof Refusal) return peer;
      if (!this.#peers.hasHost(peer.address)) return new Refusal(403);
      addresses.push(peer.address);
    }
    for (const address of addresses) allocation.permit(address, this.options.now());
    return [];
  }

  #bind(message: TurnMessage, allocation: Allocation): Response {
    const channel = message.attributes.get(ATTRIBUTE.channelNumber);
    const [value] = message.peers;
    if (channel?.length !== 4 || !value) return new Refusal(400);
    const address = this.#peerIn(message, value, allocation);
    if (address instanceof Refusal) return address;
    const peer = this.#peers.find(address);
    if (!peer) return new Refusal(403);
    const key = peerKey(value, message.data);
    return allocation.bind(channel.readUInt16BE(0), peer, key, this.options.now()) ? [] : new Refusal(400);
  }

  #peerIn(message: TurnMessage, value: Buffer, allocation: Allocation): Address | Refusal {
    const address = unmaskAddress(value, transactionOf(message));
    if (!address) return new Refusal(400);
    const family = familyOf(allocation.options.relayed.address);
    return familyOf(address.address) === family ? address : new Refusal(443);
  }

  /** Firefox sends all its media in Send indications, so a known peer's address is not decoded again. */
  #send(message: TurnMessage, client: ClientTransport): void {
    const allocation = this.#allocations.get(client);
    const [value] = message.peers;
    const data = message.attributes.get(ATTRIBUTE.data);
    if (!allocation || !value || !data || message.unknown.length > 0) return;
    const key = peerKey(value, message.data);
    const nowMs = this.options.now();
    if (allocation.sendToKnownPeer(key, data, nowMs)) return;
    const address = this.#peerIn(message, value, allocation);
    const peer = address instanceof Refusal ? undefined : this.#peers.find(address);
    if (peer) allocation.sendTo(peer, key, data, nowMs);
  }

  #mapped(message: TurnMessage, client: ClientTransport): Attribute {
    return [ATTRIBUTE.mappedAddress, maskAddress(client, transactionOf(message))];
  }

  #succeed(message: TurnMessage, client: ClientTransport, attributes: readonly Attribute[], key: Buffer | null): void {
    const fingerprint = message.attributes.has(ATTRIBUTE.fingerprint);
    client.send(writeMessage(successOf(message.type), transactionOf(message), attributes, { key, fingerprint }));
  }

  #refuse(message: TurnMessage, client: ClientTransport, refusal: Refusal, key: Buffer | null): void {
    const { code, reason } = refusal;
    this.counters.refusals[code] = (this.counters.refusals[code] ?? 0) + 1;
    const attributes: Attribute[] = [[ATTRIBUTE.errorCode, errorValue(code, reason)]];
    if (code === 401 || code === 438) attributes.push(...this.#authenticator.challenge(client));
    if (code === 420) attributes.push([ATTRIBUTE.unknownAttributes, uint16s(message.unknown)]);
    const fingerprint = message.attributes.has(ATTRIBUTE.fingerprint);
    client.send(writeMessage(errorOf(message.type), transactionOf(message), attributes, { key, fingerprint }));
  }

  #mayAnswerUnauthenticated(client: ClientTransport): boolean {
    return client.protocol !== "udp" || this.#challenges.allows(this.options.holderOf(client.address));
  }

  /** Returns false when the connection is closed because of too many failures. */
  #failed(client: ClientTransport): boolean {
    if (client.protocol === "udp") return true;
    const failures = (this.#failures.get(client) ?? 0) + 1;
    this.#failures.set(client, failures);
    if (failures <= MAX_FAILURES || this.hasAllocation(client)) return true;
    client.close();
    return false;
  }

  #drop(allocation: Allocation): void {
    this.#allocations.release(allocation);
    allocation.options.client.close();
  }
}

function lifetimeOf(message: TurnMessage): number {
  const requested = message.attributes.get(ATTRIBUTE.lifetime);
  if (requested?.length !== 4) return MIN_LIFETIME_SECONDS;
  const seconds = requested.readUInt32BE(0);
  return seconds === 0 ? 0 : Math.min(MAX_LIFETIME_SECONDS, Math.max(MIN_LIFETIME_SECONDS, seconds));
}
