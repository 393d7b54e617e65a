/** The ICE state of one peer: the credentials of both sides, and the paths between them. */

import type { IceCredentials } from "../../wire/stun/stun.ts";
import type { PathProof } from "./path-proof.ts";

const MAX_REMEMBERED_CHECKS = 256;

/** A connection of ICE-TCP (RFC 6544), which is a path of its own. */
export type TcpPath = {
  /** The peer has sent a valid check, so the connection does not give way to new ones. */
  authenticated: boolean;
  send(data: Uint8Array): void;
  close(): void;
};

/** An address from which a peer sent a valid check. */
export type Path = {
  readonly session: IceSession;
  readonly address: string;
  readonly port: number;
  /** Null for UDP. */
  readonly tcp: TcpPath | null;
  /** The time of the last check, or of the last authentic packet. */
  lastCheckMs: number;
  /** Media is sent only to an address at which the peer has responded. */
  readonly proof: PathProof;
};

/** The source of a packet. */
export type Source = Pick<Path, "port" | "address" | "tcp">;

type IceHandler = {
  onDtls(data: Buffer): void;
  /** Called with protected RTP and RTCP. */
  onMedia(data: Buffer, nowMs: number, path: Path): void;
  /** Called with every valid check and response. `moved` is true when another path has become the selected one. */
  onCheck(path: Path, moved: boolean, nowMs: number): void;
  /** Called when the selected path is gone: its TCP connection was closed, or its address belongs to another session now. */
  onPathLost(next: Path | null): void;
};

export class IceSession {
  readonly handler: IceHandler;
  selected: Path | null = null;
  readonly paths: Path[] = [];
  /** Set while a developer simulates a network that is down: all checks of this session are ignored. */
  unreachable = false;
  /** Newest first. After a restart, the previous credentials stay valid until the first check with the new ones. */
  credentials: IceCredentials[] = [];
  /** The credentials of the client, for the checks that the server sends; newest first. */
  remoteCredentials: IceCredentials[] = [];
  /** The path that the client has chosen. It is selected once the client has responded on it. */
  nominated: Path | null = null;
  /** A path was selected. The first one needs no proof, because the DTLS handshake over it is one. */
  hasStarted = false;
  /** Paths by transaction id: the same transaction from another address is a replay. */
  readonly #seen = new Map<string, Path>();

  constructor(handler: IceHandler) {
    this.handler = handler;
  }

  /** The previous credentials stay valid for checks that are under way. */
  setRemoteCredentials(credentials: IceCredentials): void {
    this.remoteCredentials = [credentials, ...this.remoteCredentials.slice(0, 1)];
  }

  isReplay(transaction: string, from: { address: string; port: number }): boolean {
    const path = this.#seen.get(transaction);
    return path !== undefined && (path.port !== from.port || path.address !== from.address);
  }

  remember(transaction: string, path: Path): void {
    this.#seen.set(transaction, path);
    if (this.#seen.size <= MAX_REMEMBERED_CHECKS) return;
    for (const oldest of this.#seen.keys()) {
      this.#seen.delete(oldest);
      return;
    }
  }
}
