import { onWake } from "../wake.ts";
import type { Transport } from "./transport.ts";

export type MediaGuardDeps = {
  signalingOpen: () => boolean;
  /** Media has stopped, or flows again. */
  onFlow: (flowing: boolean) => void;
  /** `ever`: whether this connection has carried anything at all. */
  onRestart: (ever: boolean) => void;
  /** Restarts were of no use: join anew. */
  giveUp: (ever: boolean) => void;
};

/** A short hiccup mends itself; browsers say `disconnected` after five seconds of silence already. */
const PATIENCE_MS = 2_000;
const FIRST_MS = 10_000;
const RETRY_MS = 4_000;
const RESTARTS = 4;

/** Notices that media has stopped flowing and brings it back: an ICE restart first, a fresh join when that fails. */
export class MediaGuard {
  readonly #deps: MediaGuardDeps;
  readonly #stopListening: () => void;
  #transport: Transport | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #restarts = 0;
  #ever = false;

  constructor(deps: MediaGuardDeps) {
    this.#deps = deps;
    // Wi-Fi to mobile: the browser may take half a minute to give up the old path by itself.
    this.#stopListening = onWake(() => this.#transport && this.check());
  }

  watch(transport: Transport): void {
    clearTimeout(this.#timer);
    this.#transport = transport;
    this.#restarts = 0;
    this.#ever = false;
    this.#later(FIRST_MS);
  }

  stateChanged(state: RTCPeerConnectionState): void {
    switch (state) {
      case "connected":
        clearTimeout(this.#timer);
        this.#restarts = 0;
        this.#ever = true;
        this.#deps.onFlow(true);
        break;
      case "disconnected":
        this.#deps.onFlow(false);
        this.#later(PATIENCE_MS);
        break;
      case "failed":
        this.#deps.onFlow(false);
        this.check();
        break;
    }
  }

  /** Restarts unless media flows. While the socket is down there is nothing to do: a resume calls this again. */
  check = (): void => {
    clearTimeout(this.#timer);
    const transport = this.#transport;
    if (!transport || !this.#deps.signalingOpen() || isFine(transport.pc.connectionState)) return;
    if (this.#restarts >= RESTARTS) {
      this.#restarts = 0;
      this.#deps.giveUp(this.#ever);
      return;
    }
    this.#restarts += 1;
    this.#deps.onRestart(this.#ever);
    void transport
      .negotiate({ iceRestart: true })
      .catch(() => {})
      .then(() => {
        if (this.#transport === transport) this.#later(RETRY_MS);
      });
  };

  close(): void {
    clearTimeout(this.#timer);
    this.#transport = null;
    this.#stopListening();
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.check, ms);
  }
}

function isFine(state: RTCPeerConnectionState): boolean {
  return state === "connected" || state === "closed";
}
