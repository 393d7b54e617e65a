/** This node's ends of the links to other nodes: which worker has which link, its keys, and what crosses it. */
import { createPublicKey, diffieHellman, generateKeyPairSync, hkdfSync } from "node:crypto";
import type { OpenedLink, OpenNodeLink, RelayedTrackRef, SharedRoom } from "../protocol/media/relay.ts";
import { MediaError } from "../protocol/media-node.ts";
import type { OpenLink } from "../sfu/relay/relayed-track.ts";

const KEY_BYTES = 16;
const SALT_BYTES = 12;

type Place = { readonly index: number; readonly address: string };
type End<W> = { worker: W; rooms: Set<string>; tracks: Map<string, { roomId: string; trackId: string }> };

export class NodeLinkEnds<W extends Place> {
  /** The key pair of this process. The control plane passes the public half to the other nodes. */
  readonly #keys = generateKeyPairSync("x25519");
  readonly #ends = new Map<string, End<W>>();

  get publicKey(): string {
    return this.#keys.publicKey.export({ format: "jwk" }).x ?? "";
  }

  get size(): number {
    return this.#ends.size;
  }

  /** What the worker needs in order to open its end of the link. */
  open(worker: W, { linkId, isFirst, credentials: local, peer }: OpenNodeLink): OpenLink {
    const publicKey = createPublicKey({ key: { kty: "OKP", crv: "X25519", x: peer.publicKey }, format: "jwk" });
    // Throws for a public key of the other node from which no secret can be derived.
    const shared = diffieHellman({ privateKey: this.#keys.privateKey, publicKey });
    const [forth, back] = [keyOf(shared, linkId, "forth"), keyOf(shared, linkId, "back")];
    const keys = isFirst ? { incoming: back, outgoing: forth } : { incoming: forth, outgoing: back };
    this.#ends.set(linkId, { worker, rooms: new Set(), tracks: new Map() });
    const peers = peer.addresses.flatMap((address) => {
      const reached = reachedFrom(worker.address, address);
      return reached === null ? [] : [{ address: reached, port: peer.port }];
    });
    return { linkId, peers, keys, checks: { local, remote: peer.credentials } };
  }

  close(linkId: string): W | null {
    const { worker = null } = this.#ends.get(linkId) ?? {};
    this.#ends.delete(linkId);
    return worker;
  }

  workerOf(linkId: string): W {
    const end = this.#ends.get(linkId);
    if (!end) throw new MediaError("RTC_SERVER_UNREACHABLE", "The link to the other media node is not open.");
    return end.worker;
  }

  has(linkId: string): boolean {
    return this.#ends.has(linkId);
  }

  share({ roomId, linkId }: SharedRoom): W {
    const worker = this.workerOf(linkId);
    this.#ends.get(linkId)?.rooms.add(roomId);
    return worker;
  }

  unshare({ roomId, linkId }: SharedRoom): W | null {
    const end = this.#ends.get(linkId);
    end?.rooms.delete(roomId);
    for (const [key, track] of end?.tracks ?? []) if (track.roomId === roomId) end?.tracks.delete(key);
    return end?.worker ?? null;
  }

  isShared(roomId: string): boolean {
    for (const { rooms } of this.#ends.values()) if (rooms.has(roomId)) return true;
    return false;
  }

  add({ linkId, roomId, trackId }: RelayedTrackRef): W {
    const worker = this.workerOf(linkId);
    this.#ends.get(linkId)?.tracks.set(trackId, { roomId, trackId });
    return worker;
  }

  remove({ linkId, trackId }: RelayedTrackRef): W | null {
    const end = this.#ends.get(linkId);
    end?.tracks.delete(trackId);
    return end?.worker ?? null;
  }

  /** Called when the worker has crashed; returns the links that it had. */
  lost(worker: W): string[] {
    const lost = [...this.#ends].flatMap(([linkId, end]) => (end.worker === worker ? [linkId] : []));
    for (const linkId of lost) this.#ends.delete(linkId);
    return lost;
  }

  describe(): OpenedLink[] {
    return [...this.#ends].map(([linkId, { worker, rooms, tracks }]) => ({
      linkId,
      worker: worker.index,
      rooms: [...rooms],
      tracks: [...tracks.values()],
    }));
  }
}

/** Each link has its own keys, one for each direction. */
function keyOf(shared: Buffer, linkId: string, direction: "forth" | "back") {
  const bytes = new Uint8Array(hkdfSync("sha256", shared, linkId, `stoa link ${direction}`, KEY_BYTES + SALT_BYTES));
  return { profile: "AEAD_AES_128_GCM" as const, key: bytes.slice(0, KEY_BYTES), salt: bytes.slice(KEY_BYTES) };
}

/** A socket for both families needs the mapped form of an IPv4 address. A socket for IPv4 cannot reach other addresses. */
function reachedFrom(own: string, address: string): string | null {
  const isV6 = address.includes(":");
  if (own === "::") return isV6 ? address : `::ffff:${address}`;
  return own.includes(":") === isV6 ? address : null;
}
