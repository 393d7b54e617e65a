/** ICE state of one peer: how both sides prove who they are, and the paths between them. */

import type { IceCredentials } from "../../wire/stun/stun.ts";
import type { PathProof } from "./path-proof.ts";

const MAX_REMEMBERED_CHECKS = 256;

/** A connection of ICE over TCP, which is a path by itself. */
export type TcpPath = {
  /** Whoever is there has proved itself: it keeps its place. */
  authenticated: boolean;
  send(data: Uint8Array): void;
  close(): void;
};

/** An address from which a peer sent a valid check. */
export type Path = {
  readonly session: IceSession;
  readonly address: string;
  readonly port: number;
  /** Null: UDP. */
  readonly tcp: TcpPath | null;
  /** A check, or media that proved authentic. */
  lastCheckMs: number;
  /** Media follows only to where the peer was reached. */
  readonly proof: PathProof;
};

/** Where a packet came from. */
export type Source = Pick<Path, "port" | "address" | "tcp">;

export type IceHandler = {
  onDtls(data: Buffer): void;
  /** RTP and RTCP, still protected. */
  onMedia(data: Buffer, nowMs: number, path: Path): void;
  /** Every valid check, or answer to one of ours; `moved` when the peer now uses another path than before. */
  onCheck(path: Path, moved: boolean, nowMs: number): void;
  /** The path in use is gone (its TCP connection closed, or another peer proved its address); this one is left, or none. */
  onPathLost(next: Path | null): void;
};

export class IceSession {
  readonly handler: IceHandler;
  selected: Path | null = null;
  readonly paths: Path[] = [];
  /** Its checks are as if they had never arrived: a cut that a developer asked for. */
  unreachable = false;
  /** Newest first. After a restart the old ones stay valid until the first check with the new. */
  credentials: IceCredentials[] = [];
  /** The client's own, for the checks that we send; newest first. */
  theirCredentials: IceCredentials[] = [];
  /** Where the client wants to be reached; it is, once it has answered there. */
  nominated: Path | null = null;
  /** The first path needs no proof: the DTLS handshake over it is one. */
  hasBegun = false;
  /** Transaction → path it came on: the same one from elsewhere is a replay. */
  readonly #seen = new Map<string, Path>();

  constructor(handler: IceHandler) {
    this.handler = handler;
  }

  /** Those of before stay valid for checks that are under way. */
  theyAreKnownBy(credentials: IceCredentials): void {
    this.theirCredentials = [credentials, ...this.theirCredentials.slice(0, 1)];
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
