/** Replaces the DTLS handshake where both sides were given the keys. */
import type { Dtls, DtlsKeys, DtlsOptions } from "./dtls.ts";

export class AgreedKeys implements Dtls {
  state: "connecting" | "connected" | "closed" = "connecting";
  readonly #options: DtlsOptions;
  readonly #keys: DtlsKeys;

  constructor(options: DtlsOptions, keys: DtlsKeys) {
    this.#options = options;
    this.#keys = keys;
  }

  /** Called once the path to the other side is known. */
  connect(): void {
    if (this.state !== "connecting") return;
    this.state = "connected";
    this.#options.onConnected(this.#keys);
  }

  /** Any record completes the handshake. */
  receive(): void {
    this.connect();
  }

  async send(): Promise<void> {}

  close(): void {
    this.state = "closed";
  }
}
