/**
 * A TURN server (RFC 8656) that relays to a given set of peers and to nobody else. It owns no socket: messages come in
 * with the line they came on, and leave through it.
 */
import type { Now } from "../../kernel/time/clock.ts";
import { type Address, type Family, familyNamed, familyOf, maskAddress, peerKey, unmaskAddress } from "./address.ts";
import type { Allocation } from "./allocation.ts";
import { Allocations, type TurnLimits } from "./allocations.ts";
import { isChannelData, readChannelData } from "./channel-data.ts";
import type { TurnCounters } from "./counters.ts";
import { type TurnUser, TurnAuthenticator } from "./authentication.ts";
import type { OpenRelay, Peer, ClientTransport } from "./transports.ts";
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
import { PeerTable } from "./peers.ts";
import { ChallengeLimit } from "./quota.ts";
import { Refusal } from "./refusal.ts";

type TurnOptions = {
  secret: string;
  realm: string;
  /** What clients are told to have as relayed addresses, one for each family at most. Nothing listens there. */
  relayAddresses: readonly string[];
  limits: TurnLimits;
  open: OpenRelay;
  /** Whose the budget of an address is. */
  holderOf: (address: string) => string;
  now: Now;
};

const UDP_PROTOCOL = 17;
/** A bit of EVEN-PORT (RFC 8656 §18.7). */
const RESERVE_NEXT_PORT = 0x80;
const MIN_LIFETIME_SECONDS = 600;
const MAX_LIFETIME_SECONDS = 3_600;
/** A connection that fails so often is no client of ours. */
const MAX_FAILURES = 20;

type Answer = Attribute[] | Refusal;

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
  readonly #options: TurnOptions;
  readonly #gate: TurnAuthenticator;
  readonly #challenges: ChallengeLimit;
  readonly #allocations: Allocations;
  readonly #failures = new WeakMap<ClientTransport, number>();
  #peers = new PeerTable([]);

  constructor(options: TurnOptions) {
    this.#options = options;
    this.#gate = new TurnAuthenticator(options);
    this.#challenges = new ChallengeLimit(options.now);
    this.#allocations = new Allocations({ ...options, counters: this.counters });
  }

  setPeers(peers: readonly Peer[]): void {
    this.#peers = new PeerTable(peers);
  }

  /** Whether the line has an allocation, and must be remembered. */
  hasAllocation(line: ClientTransport): boolean {
    return this.#allocations.get(line) !== undefined;
  }

  receive(data: Buffer, line: ClientTransport): void {
    if (isChannelData(data)) {
      const framed = readChannelData(data);
      if (framed) this.#allocations.get(line)?.sendOnChannel(framed.channel, framed.data, this.#options.now());
      return;
    }
    const message = readMessage(data);
    if (!message) {
      this.#failed(line);
      return;
    }
    switch (message.type) {
      case TURN_TYPE.send:
        this.#send(message, line);
        break;
      case TURN_TYPE.binding:
        if (this.#mayAnswerStranger(line)) this.#answer(message, line, [this.#mapped(message, line)], null);
        break;
      case TURN_TYPE.allocate:
      case TURN_TYPE.refresh:
      case TURN_TYPE.createPermission:
      case TURN_TYPE.channelBind:
        this.#request(message, line);
        break;
    }
  }

  /** The client has gone. */
  closed(line: ClientTransport): void {
    const allocation = this.#allocations.get(line);
    if (allocation) this.#allocations.release(allocation);
  }

  /** Ends what an id holds, and refuses its credentials until they run out by themselves. */
  revoke(id: string, untilMs: number): void {
    this.#gate.revoke(id, untilMs);
    for (const allocation of this.#allocations.all()) if (allocation.options.id === id) this.#drop(allocation);
  }

  /** To be called every few seconds. */
  tick(): void {
    const nowMs = this.#options.now();
    this.#gate.prune(nowMs);
    for (const allocation of this.#allocations.all()) if (allocation.isExpired(nowMs)) this.#drop(allocation);
  }

  close(): void {
    for (const allocation of this.#allocations.all()) this.#drop(allocation);
  }

  #request(message: TurnMessage, line: ClientTransport): void {
    const allocation = this.#allocations.get(line);
    const caller = this.#gate.authenticate(message, line, allocation?.options);
    if (caller instanceof Refusal) {
      if (this.#failed(line) && this.#mayAnswerStranger(line)) this.#refuse(message, line, caller, null);
      return;
    }
    const answer = message.unknown.length > 0 ? new Refusal(420) : this.#granted(message, line, caller, allocation);
    if (answer instanceof Refusal) this.#refuse(message, line, answer, caller.key);
    else this.#answer(message, line, answer, caller.key);
  }

  #granted(message: TurnMessage, line: ClientTransport, caller: TurnUser, allocation: Allocation | undefined): Answer {
    if (message.type === TURN_TYPE.allocate) return this.#allocate(message, line, caller, allocation);
    if (!allocation) return new Refusal(437);
    if (allocation.options.username !== caller.username) return new Refusal(441);
    switch (message.type) {
      case TURN_TYPE.refresh:
        return this.#refresh(message, allocation);
      case TURN_TYPE.createPermission:
        return this.#permit(message, allocation);
      default:
        return this.#bind(message, allocation);
    }
  }

  #allocate(message: TurnMessage, line: ClientTransport, caller: TurnUser, held: Allocation | undefined): Answer {
    const transaction = transactionOf(message).toString("latin1");
    // An answer that was lost is given again.
    if (held) return held.options.transaction === transaction ? this.#allocated(message, held) : new Refusal(437);
    const protocol = message.attributes.get(ATTRIBUTE.requestedTransport)?.at(0);
    if (protocol !== UDP_PROTOCOL) return new Refusal(protocol === undefined ? 400 : 442);
    const address = this.#relayAddressFor(message);
    if (address === undefined) return new Refusal(440);
    const evenPort = message.attributes.get(ATTRIBUTE.evenPort);
    // A relayed port is only a name here, so an even one is had for the asking; a pair of them is of no use to anybody.
    if ((evenPort?.at(0) ?? 0) & RESERVE_NEXT_PORT) return new Refusal(508);
    const isEven = evenPort !== undefined;
    const allocation = this.#allocations.make({ client: line, ...caller, transaction, address, isEven });
    if (allocation instanceof Refusal) return allocation;
    allocation.expiresAtMs = this.#options.now() + (lifetimeOf(message) || MIN_LIFETIME_SECONDS) * 1_000;
    return this.#allocated(message, allocation);
  }

  #allocated(message: TurnMessage, allocation: Allocation): Attribute[] {
    const { relayed, client } = allocation.options;
    const seconds = Math.max(0, Math.round((allocation.expiresAtMs - this.#options.now()) / 1_000));
    return [
      [ATTRIBUTE.relayedAddress, maskAddress(relayed, transactionOf(message))],
      [ATTRIBUTE.lifetime, uint32(seconds)],
      this.#mapped(message, client),
    ];
  }

  /** Of the family that is asked for; without a word of it IPv4, or what there is. */
  #relayAddressFor(message: TurnMessage): string | undefined {
    const { relayAddresses } = this.#options;
    const asked = message.attributes.get(ATTRIBUTE.requestedFamily);
    const of = (family: Family | undefined) => relayAddresses.find((address) => familyOf(address) === family);
    if (asked) return of(familyNamed(asked[0] ?? 0));
    return of("ipv4") ?? relayAddresses[0];
  }

  #refresh(message: TurnMessage, allocation: Allocation): Answer {
    const asked = message.attributes.get(ATTRIBUTE.requestedFamily);
    if (asked && familyNamed(asked[0] ?? 0) !== familyOf(allocation.options.relayed.address)) return new Refusal(443);
    const seconds = lifetimeOf(message);
    if (seconds === 0) this.#allocations.release(allocation);
    else allocation.expiresAtMs = this.#options.now() + seconds * 1_000;
    return [[ATTRIBUTE.lifetime, uint32(seconds)]];
  }

  #permit(message: TurnMessage, allocation: Allocation): Answer {
    if (message.peers.length === 0) return new Refusal(400);
    const addresses: string[] = [];
    for (const value of message.peers) {
      const peer = this.#peerIn(message, value, allocation);
      if (peer instanceof Refusal) return peer;
      if (!this.#peers.hasHost(peer.address)) return new Refusal(403);
      addresses.push(peer.address);
    }
    for (const address of addresses) allocation.permit(address, this.#options.now());
    return [];
  }

  #bind(message: TurnMessage, allocation: Allocation): Answer {
    const channel = message.attributes.get(ATTRIBUTE.channelNumber);
    const [value] = message.peers;
    if (channel?.length !== 4 || !value) return new Refusal(400);
    const address = this.#peerIn(message, value, allocation);
    if (address instanceof Refusal) return address;
    const peer = this.#peers.find(address);
    if (!peer) return new Refusal(403);
    const key = peerKey(value, message.data);
    return allocation.bind(channel.readUInt16BE(0), peer, key, this.#options.now()) ? [] : new Refusal(400);
  }

  #peerIn(message: TurnMessage, value: Buffer, allocation: Allocation): Address | Refusal {
    const address = unmaskAddress(value, transactionOf(message));
    if (!address) return new Refusal(400);
    const family = familyOf(allocation.options.relayed.address);
    return familyOf(address.address) === family ? address : new Refusal(443);
  }

  /** Firefox sends all its media like this: what is known by its bytes is not read again. */
  #send(message: TurnMessage, line: ClientTransport): void {
    const allocation = this.#allocations.get(line);
    const [value] = message.peers;
    const data = message.attributes.get(ATTRIBUTE.data);
    if (!allocation || !value || !data || message.unknown.length > 0) return;
    const key = peerKey(value, message.data);
    const nowMs = this.#options.now();
    if (allocation.sendToKnownPeer(key, data, nowMs)) return;
    const address = this.#peerIn(message, value, allocation);
    const peer = address instanceof Refusal ? undefined : this.#peers.find(address);
    if (peer) allocation.sendTo(peer, key, data, nowMs);
  }

  #mapped(message: TurnMessage, line: ClientTransport): Attribute {
    return [ATTRIBUTE.mappedAddress, maskAddress(line, transactionOf(message))];
  }

  #answer(message: TurnMessage, line: ClientTransport, attributes: readonly Attribute[], key: Buffer | null): void {
    const fingerprint = message.attributes.has(ATTRIBUTE.fingerprint);
    line.send(writeMessage(successOf(message.type), transactionOf(message), attributes, { key, fingerprint }));
  }

  #refuse(message: TurnMessage, line: ClientTransport, refusal: Refusal, key: Buffer | null): void {
    const { code, reason } = refusal;
    this.counters.refusals[code] = (this.counters.refusals[code] ?? 0) + 1;
    const attributes: Attribute[] = [[ATTRIBUTE.errorCode, errorValue(code, reason)]];
    if (code === 401 || code === 438) attributes.push(...this.#gate.challenge(line));
    if (code === 420) attributes.push([ATTRIBUTE.unknownAttributes, uint16s(message.unknown)]);
    const fingerprint = message.attributes.has(ATTRIBUTE.fingerprint);
    line.send(writeMessage(errorOf(message.type), transactionOf(message), attributes, { key, fingerprint }));
  }

  #mayAnswerStranger(line: ClientTransport): boolean {
    return line.protocol !== "udp" || this.#challenges.allows(this.#options.holderOf(line.address));
  }

  /** False when the line was closed for it. */
  #failed(line: ClientTransport): boolean {
    if (line.protocol === "udp") return true;
    const failures = (this.#failures.get(line) ?? 0) + 1;
    this.#failures.set(line, failures);
    if (failures <= MAX_FAILURES || this.hasAllocation(line)) return true;
    line.close();
    return false;
  }

  #drop(allocation: Allocation): void {
    this.#allocations.release(allocation);
    allocation.options.client.close();
  }
}

function lifetimeOf(message: TurnMessage): number {
  const asked = message.attributes.get(ATTRIBUTE.lifetime);
  if (asked?.length !== 4) return MIN_LIFETIME_SECONDS;
  const seconds = asked.readUInt32BE(0);
  return seconds === 0 ? 0 : Math.min(MAX_LIFETIME_SECONDS, Math.max(MIN_LIFETIME_SECONDS, seconds));
}
