import { type Keyring, sameSecret } from "../../../kernel/crypto/secrets.ts";
import type { Now } from "../../../kernel/time/clock.ts";

export type KeyState = { segmentKeys: number; barredAt: [name: string, at: number][] };

/**
 * The secrets in the URLs of one HLS stream. Each viewer has a key of its own for the playlists, which is checked with
 * every request. Segments have keys that all viewers share, so that a cache can serve them; when a viewer is removed,
 * new segments get another key, which is only in the playlists.
 */
export class BroadcastKeys {
  /** All segment keys so far, including the current one. */
  readonly #segmentKeys = new Set<string>();
  /** The hashed tokens and identities that were revoked or removed, with the time. */
  readonly #barredAt = new Map<string, number>();
  #current = "";
  #isUsed = false;

  constructor(
    private readonly keyring: Keyring,
    private readonly now: Now,
    private readonly recordingId: string,
  ) {
    this.#rotate();
  }

  /** The state that the next process of this server continues with. */
  state(): KeyState {
    return { segmentKeys: this.#segmentKeys.size, barredAt: [...this.#barredAt] };
  }

  /** Continues with the segment keys and the revocations of an earlier process. */
  resume({ segmentKeys, barredAt }: KeyState): void {
    for (const [name, at] of barredAt) this.#barredAt.set(name, at);
    while (this.#segmentKeys.size < segmentKeys) this.#rotate();
  }

  /** The key of a segment that starts now. */
  useSegmentKey(): string {
    this.#isUsed = true;
    return this.#current;
  }

  isSegmentKey(key: string): boolean {
    return this.#segmentKeys.has(key);
  }

  viewerKey({ tokenId, identity }: { tokenId: string; identity: string }): string {
    const fields = [this.#nameOf(tokenId), this.#nameOf(identity), this.now().toString(36)];
    return [...fields, this.#signature(fields)].join("-");
  }

  isViewerKey(key: string): boolean {
    const [signature = "", ...reversed] = key.split("-").reverse();
    const fields = reversed.reverse();
    if (fields.length !== 3 || !sameSecret(signature, this.#signature(fields))) return false;
    const [token = "", participant = "", at = ""] = fields;
    const issuedAt = Number.parseInt(at, 36);
    return [token, participant].every((name) => (this.#barredAt.get(name) ?? -1) < issuedAt);
  }

  /** Revokes the keys of a token, or of all tokens of an identity, that were created until now. */
  bar(tokenOrIdentity: string): void {
    this.#barredAt.set(this.#nameOf(tokenOrIdentity), this.now());
    if (this.#isUsed) this.#rotate();
  }

  #rotate(): void {
    this.#current = this.#digest(["segments", String(this.#segmentKeys.size)]);
    this.#segmentKeys.add(this.#current);
    this.#isUsed = false;
  }

  /** Identities must not be part of a URL, because caches log URLs. */
  #nameOf(tokenOrIdentity: string): string {
    return this.#digest(["name", tokenOrIdentity]).slice(0, 16);
  }

  #signature(fields: readonly string[]): string {
    return this.#digest(["viewer", ...fields]);
  }

  #digest(parts: readonly string[]): string {
    return this.keyring.digest("live-stream-hls", JSON.stringify([this.recordingId, ...parts]));
  }
}
