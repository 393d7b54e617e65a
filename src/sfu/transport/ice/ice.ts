/**
 * ICE-lite (RFC 8445) for all peers of a worker on one port. A connectivity check names its session by the username fragment, proves
 * it by message integrity, and shows the address that the peer uses now. Packets from any other address are dropped.
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
  writeBindingRequest,
  writeBindingSuccess,
} from "../../wire/stun/stun.ts";
import type { IceSession, Path, Source, TcpPath } from "./ice-session.ts";
import { PathProof } from "./path-proof.ts";

/** Packets that were refused, by reason, for the metrics. */
type IceRefusals = {
  unreadable: number;
  unknownUser: number;
  forgedCheck: number;
  replayedCheck: number;
  foreignAddress: number;
};

const LOOPBACK = "127.0.0.1";
const MAX_PATHS = 8;
/** If the selected path gets no check for this long, it is replaced by one that does, even if the client nominates none. */
const SILENT_PATH_MS = 5_000;
/** A check that the server sends: two username fragments of at most 256 bytes, and the other attributes. */
const MAX_CHECK_BYTES = 640;

type IceOutput = { sendUdp(data: Uint8Array, port: number, address: string): void };

/** The other processes at the same port, which have to learn of some datagrams and addresses. */
type PortSharers = {
  /** Called with a datagram that belongs to no session. Returns whether another process gets it. */
  relay(data: Uint8Array, port: number, address: string): boolean;
  /** Called when `addresses` has changed. */
  addressesChanged(): void;
};

export class IceAgent {
  readonly refusals: IceRefusals = {
    unreadable: 0,
    unknownUser: 0,
    forgedCheck: 0,
    replayedCheck: 0,
    foreignAddress: 0,
  };
  /** Null while the port is not shared. */
  sharers: PortSharers | null = null;
  readonly #byUfrag = new Map<string, IceSession>();
  /** By remote port, because looking up a number for every packet is cheaper than looking up an address. */
  readonly #byPort = new Map<number, Path[]>();
  readonly #byTcp = new Map<TcpPath, Path>();
  readonly #out: IceOutput;
  readonly #response = new Uint8Array(MAX_BINDING_SUCCESS_BYTES + 64);
  readonly #request = new Uint8Array(MAX_CHECK_BYTES);

  readonly #probe: IceCredentials | undefined;

  readonly #relayed: ClientTable | null;

  /** `relayed` names the clients behind the loopback ports from which the relay of this machine sends. */
  constructor(out: IceOutput, probe?: IceCredentials, relayed: ClientTable | null = null) {
    this.#out = out;
    this.#probe = probe;
    this.#relayed = relayed;
  }

  /** Returns the client behind the relay of this machine, or null for a path without that relay. */
  relayedClient({ address, port, tcp }: Pick<Path, "address" | "port" | "tcp">): ClientAddress | null {
    if (tcp || !this.#relayed || plainAddress(address) !== LOOPBACK) return null;
    return this.#relayed.clientOf(port) ?? null;
  }

  /** Returns the address that the client knows as its own; for a relayed candidate, the relayed address. */
  #mappedAddress(from: Source): ClientAddress {
    const address = plainAddress(from.address);
    const relayed = address === LOOPBACK && !from.tcp ? this.#relayed?.relayedOf(from.port) : undefined;
    return relayed ?? { address, port: from.port };
  }

  /** Creates credentials for a new session or a restart. `remote` is null while the client's credentials are unknown. */
  issueCredentials(session: IceSession, remote: IceCredentials | null): IceCredentials {
    const credentials = {
      ufrag: randomBytes(9).toString("base64").replaceAll(/[+/]/g, "A"),
      pwd: randomBytes(24).toString("hex"),
    };
    session.credentials = [credentials, ...session.credentials.slice(0, 1)];
    if (remote) session.setRemoteCredentials(remote);
    this.#byUfrag.set(credentials.ufrag, session);
    return credentials;
  }

  /** Accepts checks from a worker of another node, which has these credentials from the control plane and sends checks itself. */
  acceptChecks(session: IceSession, local: IceCredentials): void {
    session.credentials = [local];
    this.#byUfrag.set(local.ufrag, session);
  }

  /** Sends a check, which tells the peer the address at which it can reach this worker. */
  check({ local, remote }: { local: IceCredentials; remote: IceCredentials }, to: { address: string; port: number }) {
    const length = writeBindingRequest(this.#request, {
      transactionId: randomBytes(12),
      username: `${remote.ufrag}:${local.ufrag}`,
      password: remote.pwd,
      priority: 1,
      useCandidate: true,
      iceControlling: 0n,
    });
    if (length > 0) this.#out.sendUdp(this.#request.subarray(0, length), to.port, to.address);
  }

  /** Selects a path to a worker of this machine, whose address needs no check. */
  assumePath(session: IceSession, at: { address: string; port: number }, nowMs: number): void {
    const path = this.#learn(session, { ...at, tcp: null });
    path.proof.isGiven = true;
    path.lastCheckMs = nowMs;
    session.nominated = path;
    session.handler.onCheck(path, this.#select(path, nowMs), nowMs);
  }

  close(session: IceSession): void {
    for (const [ufrag, owner] of this.#byUfrag) if (owner === session) this.#byUfrag.delete(ufrag);
    session.selected = null;
    for (const path of [...session.paths]) this.#forget(path);
  }

  receive(data: Buffer, port: number, address: string, tcp: TcpPath | null, nowMs: number): void {
    const first = data[0] ?? 255;
    if (first < 4) {
      this.#receiveStun(data, port, address, tcp, nowMs);
      return;
    }
    const path = tcp ? this.#byTcp.get(tcp) : this.#find(port, address);
    if (!path) {
      if (tcp || !this.sharers?.relay(data, port, address)) this.refusals.foreignAddress++;
    } else if (first >= 128 && first < 192) path.session.handler.onMedia(data, nowMs, path);
    else if (first >= 20 && first < 64) path.session.handler.onDtls(data);
    else this.refusals.unreadable++;
  }

  /** Repeats checks that were not answered. */
  tick(session: IceSession, nowMs: number): void {
    for (const path of session.paths) this.#sendCheck(path, nowMs);
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

  /** A sender without valid credentials gets no response, so that the port can neither amplify nor be probed. */
  #receiveStun(data: Buffer, port: number, address: string, tcp: TcpPath | null, nowMs: number): void {
    const message = isStun(data) ? parseStun(data) : undefined;
    if (!message) {
      this.refusals.unreadable++;
      return;
    }
    if (message.type === STUN_TYPE.bindingSuccess) {
      const isExpected = this.#receiveResponse(message, { port, address, tcp }, nowMs);
      if (!isExpected && !tcp) this.sharers?.relay(data, port, address);
    }
    if (message.type !== STUN_TYPE.bindingRequest) return;
    const ufrag = (message.username ?? "").split(":")[0] ?? "";
    const session = this.#byUfrag.get(ufrag);
    if (!session) {
      if (this.#respondToProbe(message, ufrag, { port, address, tcp })) return;
      if (!tcp && this.sharers?.relay(data, port, address)) return;
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

  #respondToProbe(message: StunMessage, ufrag: string, from: Source): boolean {
    const probe = this.#probe;
    if (!probe || ufrag !== probe.ufrag || !hasIntegrity(message, probe.pwd)) return false;
    const { address, port } = this.#mappedAddress(from);
    this.#reply(writeBindingSuccess(this.#response, message, address, port, probe.pwd), from);
    return true;
  }

  #accept(session: IceSession, credentials: IceCredentials, message: StunMessage, from: Source, nowMs: number): void {
    const transaction = Buffer.from(message.transactionId).toString("latin1");
    if (session.isReplay(transaction, from)) {
      this.refusals.replayedCheck++;
      return;
    }
    if (message.iceControlled !== undefined && message.iceControlling === undefined) {
      this.#reply(writeBindingError(this.#response, message, 487, "Role Conflict", credentials.pwd), from);
      return;
    }
    const path = this.#learn(session, from);
    session.remember(transaction, path);
    const { address, port } = this.#mappedAddress(from);
    this.#reply(writeBindingSuccess(this.#response, message, address, port, credentials.pwd), from);
    if (credentials === session.credentials[0]) this.#retireOld(session);
    path.lastCheckMs = nowMs;
    if (message.useCandidate) session.nominated = path;
    const remoteUfrag = (message.username ?? "").slice(credentials.ufrag.length + 1);
    this.#requestProof(path, credentials.ufrag, remoteUfrag, nowMs);
    session.handler.onCheck(path, this.#select(path, nowMs), nowMs);
  }

  /** Returns whether the path becomes the selected one. A client that moves keeps its path until it has responded at its new address. */
  #select(path: Path, nowMs: number): boolean {
    const { session } = path;
    const { selected } = session;
    if (path === selected) return false;
    const isFirst = !session.hasStarted && this.#owner(path) === path;
    // The server cannot send a check to a client whose password it does not know.
    const canProve = session.remoteCredentials.length > 0;
    if (!isFirst && canProve && !path.proof.isGiven) return false;
    const silent = selected === null || nowMs - selected.lastCheckMs > SILENT_PATH_MS;
    if (!silent && session.nominated !== path) return false;
    session.selected = path;
    session.hasStarted = true;
    return true;
  }

  #requestProof(path: Path, localUfrag: string, remoteUfrag: string, nowMs: number): void {
    const { session, proof } = path;
    if (proof.isGiven || path === session.selected || (!session.hasStarted && this.#owner(path) === path)) return;
    const remote = session.remoteCredentials.find(({ ufrag }) => ufrag === remoteUfrag);
    if (!remote) return;
    proof.request({ localUfrag, remote }, nowMs);
    this.#sendCheck(path, nowMs);
  }

  #sendCheck(path: Path, nowMs: number): void {
    const length = path.proof.write(this.#request, nowMs);
    if (length > 0) this.#out.sendUdp(this.#request.subarray(0, length), path.port, path.address);
  }

  /**
   * Handles the response to a check of the server. Only the peer at that address knows its transaction id. Returns false when the
   * server awaits no such response.
   */
  #receiveResponse(response: StunMessage, { port, address }: Source, nowMs: number): boolean {
    const here = (this.#byPort.get(port) ?? []).filter((one) => one.address === address);
    const path = here.find(({ session, proof }) => !session.unreachable && proof.accept(response));
    if (!path) return false;
    // Another tab may now use the same address behind a NAT, so the address belongs to the session that responded last.
    for (const other of here) if (other !== path) this.#forget(other);
    path.lastCheckMs = nowMs;
    path.session.handler.onCheck(path, this.#select(path, nowMs), nowMs);
    return true;
  }

  /** The addresses from which its peers send. */
  *addresses(): Iterable<{ address: string; port: number }> {
    for (const paths of this.#byPort.values()) yield* paths;
  }

  /** Returns whether packets from the address of the path belong to its session. */
  isOwner(path: Path): boolean {
    return path.session.paths.includes(path) && this.#owner(path) === path;
  }

  /**
   * Returns the path that owns this remote address: the first path that used it, until a path of another session
   * answers a connectivity check from it.
   */
  #owner(path: Path): Path {
    return path.tcp ? path : (this.#find(path.port, path.address) ?? path);
  }

  #reply(length: number, to: Source): void {
    if (length < 0) return;
    const response = this.#response.subarray(0, length);
    if (to.tcp) to.tcp.send(response);
    else this.#out.sendUdp(response, to.port, to.address);
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
      this.sharers?.addressesChanged();
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
    this.sharers?.addressesChanged();
  }
}

/** A dual-stack socket has `::ffff:a.b.c.d` for IPv4 peers, which know their address as `a.b.c.d`. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") ? address.slice(7) : address;
}

/** The candidates of a worker: UDP before TCP, in the configured order of the addresses. */
export function candidatesOf(settings: { announce: readonly string[]; tcp: boolean }, port: number): string[] {
  const udp = settings.announce.map(
    (address, i) => `${i + 1} 1 udp ${2_130_706_431 - i} ${plainAddress(address)} ${port} typ host`,
  );
  if (!settings.tcp) return udp;
  const tcp = settings.announce.map(
    (address, i) => `${i + 101} 1 tcp ${1_671_430_143 - i} ${plainAddress(address)} ${port} typ host tcptype passive`,
  );
  return [...udp, ...tcp];
}
