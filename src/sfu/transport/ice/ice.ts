/**
 * ICE-lite for every peer of a worker on one port: who is asking (username fragment), is it really them (integrity), and
 * which address do they use now. Packets of addresses that never proved themselves go nowhere.
 */
import { randomBytes } from "node:crypto";
import type { ClientAddress, ClientTable } from "../../../protocol/client-table.ts";
import {
  hasFingerprint,
  hasIntegrity,
  type IceCredentials,
  isStun,
  MAX_BINDING_SUCCESS_BYTES,
  parseStun,
  STUN_TYPE,
  type StunMessage,
  writeBindingError,
  writeBindingSuccess,
} from "../../wire/stun/stun.ts";
import type { IceSession, Path, Source, TcpPath } from "./ice-session.ts";
import { PathProof } from "./path-proof.ts";

/** What was refused, by reason; harmless, and worth knowing. */
export type IceRefusals = {
  unreadable: number;
  unknownUser: number;
  forgedCheck: number;
  replayedCheck: number;
  foreignAddress: number;
};

const LOOPBACK = "127.0.0.1";
const MAX_PATHS = 8;
/** A path without checks for that long gives way to one that has them, even if the client nominates nothing. */
const SILENT_PATH_MS = 5_000;
/** A check of ours: two user names of at most 256 bytes and the rest. */
const MAX_CHECK_BYTES = 640;

export type IceOutput = { sendUdp(data: Uint8Array, port: number, address: string): void };

export class IceAgent {
  readonly refusals: IceRefusals = {
    unreadable: 0,
    unknownUser: 0,
    forgedCheck: 0,
    replayedCheck: 0,
    foreignAddress: 0,
  };
  readonly #byUfrag = new Map<string, IceSession>();
  /** Remote port → paths: a number is cheaper to look up for every packet than an address. */
  readonly #byPort = new Map<number, Path[]>();
  readonly #byTcp = new Map<TcpPath, Path>();
  readonly #out: IceOutput;
  readonly #answer = new Uint8Array(MAX_BINDING_SUCCESS_BYTES + 64);
  readonly #question = new Uint8Array(MAX_CHECK_BYTES);

  readonly #probe: IceCredentials | undefined;

  readonly #relayed: ClientTable | null;

  /** `relayed`: who is behind the ports of loopback from which the relay of this machine speaks. */
  constructor(out: IceOutput, probe?: IceCredentials, relayed: ClientTable | null = null) {
    this.#out = out;
    this.#probe = probe;
    this.#relayed = relayed;
  }

  /** Null unless its packets come through the relay of this machine: then the client behind it. */
  relayedClient({ address, port, tcp }: Pick<Path, "address" | "port" | "tcp">): ClientAddress | null {
    if (tcp || !this.#relayed || plainAddress(address) !== LOOPBACK) return null;
    return this.#relayed.clientOf(port) ?? null;
  }

  /** As the client knows itself: a candidate of the relay is answered with the address that the candidate names. */
  #mappedAddress(from: Source): ClientAddress {
    const address = plainAddress(from.address);
    const relayed = address === LOOPBACK && !from.tcp ? this.#relayed?.relayedOf(from.port) : undefined;
    return relayed ?? { address, port: from.port };
  }

  /** New credentials for a new session or a restart, in answer to the client's (null: not known yet); unguessable and unique. */
  issueCredentials(session: IceSession, theirs: IceCredentials | null): IceCredentials {
    const credentials = {
      ufrag: randomBytes(9).toString("base64").replaceAll(/[+/]/g, "A"),
      pwd: randomBytes(24).toString("hex"),
    };
    session.credentials = [credentials, ...session.credentials.slice(0, 1)];
    if (theirs) session.theyAreKnownBy(theirs);
    this.#byUfrag.set(credentials.ufrag, session);
    return credentials;
  }

  close(session: IceSession): void {
    for (const [ufrag, owner] of this.#byUfrag) if (owner === session) this.#byUfrag.delete(ufrag);
    session.selected = null;
    for (const path of [...session.paths]) this.#forget(path);
  }

  receive(data: Buffer, port: number, address: string, tcp: TcpPath | null, nowMs: number): void {
    const first = data[0] ?? 255;
    if (first < 4) {
      this.#check(data, port, address, tcp, nowMs);
      return;
    }
    const path = tcp ? this.#byTcp.get(tcp) : this.#find(port, address);
    if (!path) this.refusals.foreignAddress++;
    else if (first >= 128 && first < 192) path.session.handler.onMedia(data, nowMs, path);
    else if (first >= 20 && first < 64) path.session.handler.onDtls(data);
    else this.refusals.unreadable++;
  }

  /** Sends again what a lossy network swallowed. */
  tick(session: IceSession, nowMs: number): void {
    for (const path of session.paths) this.#sendQuestion(path, nowMs);
  }

  tcpClosed(connection: TcpPath): void {
    const path = this.#byTcp.get(connection);
    if (path) this.#forget(path);
  }

  #find(port: number, address: string): Path | undefined {
    const paths = this.#byPort.get(port);
    if (!paths) return undefined;
    for (const path of paths) if (path.address === address) return path;
    return undefined;
  }

  /** Unproven senders get no answer at all: nothing here can be used to amplify or to probe. */
  #check(data: Buffer, port: number, address: string, tcp: TcpPath | null, nowMs: number): void {
    const message = isStun(data) ? parseStun(data) : undefined;
    if (!message) {
      this.refusals.unreadable++;
      return;
    }
    if (message.type === STUN_TYPE.bindingSuccess) this.#answered(message, { port, address, tcp }, nowMs);
    if (message.type !== STUN_TYPE.bindingRequest) return;
    const ufrag = (message.username ?? "").split(":")[0] ?? "";
    const session = this.#byUfrag.get(ufrag);
    if (!session) {
      if (this.#answersProbe(message, ufrag, { port, address, tcp })) return;
      this.refusals.unknownUser++;
      return;
    }
    if (session.unreachable) return;
    const credentials = session.credentials.find((candidate) => candidate.ufrag === ufrag);
    if (!credentials || !hasIntegrity(message, credentials.pwd) || !hasFingerprint(message)) {
      this.refusals.forgedCheck++;
      return;
    }
    this.#accept(session, credentials, message, { port, address, tcp }, nowMs);
  }

  #answersProbe(message: StunMessage, ufrag: string, from: Source): boolean {
    const probe = this.#probe;
    if (!probe || ufrag !== probe.ufrag || !hasIntegrity(message, probe.pwd)) return false;
    const { address, port } = this.#mappedAddress(from);
    this.#reply(writeBindingSuccess(this.#answer, message, address, port, probe.pwd), from);
    return true;
  }

  #accept(session: IceSession, credentials: IceCredentials, message: StunMessage, from: Source, nowMs: number): void {
    const transaction = Buffer.from(message.transactionId).toString("latin1");
    if (session.isReplay(transaction, from)) {
      this.refusals.replayedCheck++;
      return;
    }
    if (message.iceControlled !== undefined && message.iceControlling === undefined) {
      this.#reply(writeBindingError(this.#answer, message, 487, "Role Conflict", credentials.pwd), from);
      return;
    }
    const path = this.#learn(session, from);
    session.remember(transaction, path);
    const { address, port } = this.#mappedAddress(from);
    this.#reply(writeBindingSuccess(this.#answer, message, address, port, credentials.pwd), from);
    if (credentials === session.credentials[0]) this.#retireOld(session);
    path.lastCheckMs = nowMs;
    if (message.useCandidate) session.nominated = path;
    const theirs = (message.username ?? "").slice(credentials.ufrag.length + 1);
    this.#askForProof(path, credentials.ufrag, theirs, nowMs);
    session.handler.onCheck(path, this.#moves(path, nowMs), nowMs);
  }

  /** A client that moves keeps what it has until it was reached at its new address. */
  #moves(path: Path, nowMs: number): boolean {
    const { session } = path;
    const { selected } = session;
    if (path === selected) return false;
    const isFirst = !session.hasBegun && this.#owner(path) === path;
    // Nobody can be asked whose password is not known.
    const canProve = session.theirCredentials.length > 0;
    if (!isFirst && canProve && !path.proof.isGiven) return false;
    const silent = selected === null || nowMs - selected.lastCheckMs > SILENT_PATH_MS;
    if (!silent && session.nominated !== path) return false;
    session.selected = path;
    session.hasBegun = true;
    return true;
  }

  #askForProof(path: Path, ours: string, theirUfrag: string, nowMs: number): void {
    const { session, proof } = path;
    if (proof.isGiven || path === session.selected || (!session.hasBegun && this.#owner(path) === path)) return;
    const theirs = session.theirCredentials.find(({ ufrag }) => ufrag === theirUfrag);
    if (!theirs) return;
    proof.ask({ ours, theirs }, nowMs);
    this.#sendQuestion(path, nowMs);
  }

  #sendQuestion(path: Path, nowMs: number): void {
    const length = path.proof.write(this.#question, nowMs);
    if (length > 0) this.#out.sendUdp(this.#question.subarray(0, length), path.port, path.address);
  }

  /** To a check of ours: only whoever is really there knows what it asked. */
  #answered(answer: StunMessage, { port, address }: Source, nowMs: number): void {
    const here = (this.#byPort.get(port) ?? []).filter((one) => one.address === address);
    const path = here.find(({ session, proof }) => !session.unreachable && proof.take(answer));
    if (!path) return;
    // The same address behind a NAT, now used by another tab: whoever was reached there last owns it.
    for (const other of here) if (other !== path) this.#forget(other);
    path.lastCheckMs = nowMs;
    path.session.handler.onCheck(path, this.#moves(path, nowMs), nowMs);
  }

  /** What comes from there is for its session. */
  isOwner(path: Path): boolean {
    return path.session.paths.includes(path) && this.#owner(path) === path;
  }

  /** Whose packets come from that address: the session that was there first, until another one answers there. */
  #owner(path: Path): Path {
    return path.tcp ? path : (this.#find(path.port, path.address) ?? path);
  }

  #reply(length: number, to: Source): void {
    if (length < 0) return;
    const answer = this.#answer.subarray(0, length);
    if (to.tcp) to.tcp.send(answer);
    else this.#out.sendUdp(answer, to.port, to.address);
  }

  #retireOld(session: IceSession): void {
    const old = session.credentials[1];
    if (!old) return;
    this.#byUfrag.delete(old.ufrag);
    session.credentials.length = 1;
  }

  #learn(session: IceSession, from: Source): Path {
    const known = session.paths.find((path) =>
      from.tcp ? path.tcp === from.tcp : path.tcp === null && path.port === from.port && path.address === from.address,
    );
    if (known) return known;
    const path: Path = { session, ...from, lastCheckMs: 0, proof: new PathProof(from.tcp !== null) };
    if (from.tcp) {
      from.tcp.authenticated = true;
      this.#byTcp.set(from.tcp, path);
    } else {
      const paths = this.#byPort.get(from.port);
      if (paths) paths.push(path);
      else this.#byPort.set(from.port, [path]);
    }
    session.paths.push(path);
    if (session.paths.length > MAX_PATHS) {
      const oldest = session.paths.find((other) => other !== session.selected && other !== path);
      if (oldest) this.#forget(oldest);
    }
    return path;
  }

  #forget(path: Path): void {
    const { session } = path;
    session.paths.splice(session.paths.indexOf(path), 1);
    if (session.nominated === path) session.nominated = null;
    if (session.selected === path) {
      session.selected = session.paths.findLast(({ proof }) => proof.isGiven) ?? null;
      session.handler.onPathLost(session.selected);
    }
    if (path.tcp) {
      this.#byTcp.delete(path.tcp);
      path.tcp.close();
      return;
    }
    const rest = (this.#byPort.get(path.port) ?? []).filter((other) => other !== path);
    if (rest.length > 0) this.#byPort.set(path.port, rest);
    else this.#byPort.delete(path.port);
  }
}

/** A dual-stack socket shows IPv4 peers as `::ffff:a.b.c.d`; they know themselves as `a.b.c.d`. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") ? address.slice(7) : address;
}
