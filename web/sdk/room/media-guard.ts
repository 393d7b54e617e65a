import type { Transport } from "./transport.ts";

export type MediaGuardDeps = {
  signalingOpen: () => boolean;
  /** Restarts were of no use: join anew. */
  giveUp: () => void;
  onRestart: () => void;
};

const PATIENCE_MS = 2_500;
const RESTARTS = 3;

type Connection = EventTarget & { type?: string };

/** Notices that media has stopped flowing and brings it back: an ICE restart first, a fresh join when that fails. */
export class MediaGuard {
  #transport: Transport | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #restarts = 0;
  readonly #connection = (navigator as Navigator & { connection?: Connection }).connection;

  constructor(readonly deps: MediaGuardDeps) {
    addEventListener("online", this.#networkChanged);
    this.#connection?.addEventListener("change", this.#networkChanged);
  }

  watch(transport: Transport | null): void {
    clearTimeout(this.#timer);
    this.#transport = transport;
    this.#restarts = 0;
  }

  stateChanged(state: RTCPeerConnectionState): void {
    clearTimeout(this.#timer);
    if (state === "connected") this.#restarts = 0;
    if (state === "failed") this.restart();
    if (state === "disconnected") this.#timer = setTimeout(this.restart, PATIENCE_MS);
  }

  /** Nothing to do while the socket is down: a resume calls this again. */
  restart = (): void => {
    const transport = this.#transport;
    if (!transport || !this.deps.signalingOpen()) return;
    if (this.#restarts >= RESTARTS) {
      this.deps.giveUp();
      return;
    }
    this.#restarts += 1;
    this.deps.onRestart();
    transport
      .negotiate({ iceRestart: true })
      .then(() => {
        if (this.#transport !== transport || transport.pc.connectionState === "connected") return;
        clearTimeout(this.#timer);
        this.#timer = setTimeout(this.restart, PATIENCE_MS);
      })
      .catch(() => {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(this.restart, PATIENCE_MS);
      });
  };

  close(): void {
    clearTimeout(this.#timer);
    this.#transport = null;
    removeEventListener("online", this.#networkChanged);
    this.#connection?.removeEventListener("change", this.#networkChanged);
  }

  /** Wi-Fi to mobile: the old path may take half a minute to be given up by itself. */
  readonly #networkChanged = () => {
    if (this.#transport?.pc.connectionState !== "connected") this.restart();
    else
      this.#timer = setTimeout(
        () => this.#transport?.pc.connectionState !== "connected" && this.restart(),
        PATIENCE_MS,
      );
  };
}
