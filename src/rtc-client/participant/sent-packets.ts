const KEPT = 1_024;

/** What was sent lately, as it was sent, for whoever has missed some of it. */
export class RetransmissionBuffer {
  readonly #packets = new Map<string, Uint8Array>();

  keep(ssrc: number, sequenceNumber: number, bytes: Uint8Array): void {
    this.#packets.set(`${ssrc}:${sequenceNumber}`, bytes);
    if (this.#packets.size <= KEPT) return;
    const [oldest] = this.#packets.keys();
    if (oldest !== undefined) this.#packets.delete(oldest);
  }

  find(ssrc: number, lost: readonly number[]): Uint8Array[] {
    return lost.flatMap((sequenceNumber) => this.#packets.get(`${ssrc}:${sequenceNumber}`) ?? []);
  }
}
