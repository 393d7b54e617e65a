/** The signaling session of a participant, which reconnects automatically and resumes. */

import type { JoinAck, Push, Roster } from "../../protocol/signaling.ts";
import { RtcRefused, SignalingClient } from "../signaling-client.ts";
import { WebSocket } from "./web-socket.ts";

/** Final closes: wrong or revoked token, forbidden, room not found, replaced, room closed, or removed from the room. */
const FINAL = new Set([4400, 4401, 4403, 4404, 4409, 4410, 4423, 4440]);
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5_000;
const MAX_TRIES = 12;

type SessionDeps = {
  url: string;
  token: string;
  sdk: string;
  roster: Roster | undefined;
  publicKey: string | undefined;
  onLobby: (() => void) | undefined;
  signal: AbortSignal | undefined;
  onPush: (push: Push) => void;
  /**
   * Called after the first join, and after every reconnection. `isCurrent` tells whether the participants are those that the
   * client knows, and the pushes that it missed follow. A server that has restarted does not have these pushes any more.
   */
  onJoined: (ack: JoinAck, isCurrent: boolean) => Promise<void>;
  onLost: () => void;
  onClosed: (error: Error | null) => void;
};

export class Session {
  readonly #deps: SessionDeps;
  readonly #connectionId = `participant-${crypto.randomUUID()}`;
  #client: SignalingClient;
  #left = false;

  private constructor(deps: SessionDeps) {
    this.#deps = deps;
    this.#client = this.#open();
  }

  static async join(deps: SessionDeps): Promise<Session> {
    const session = new Session(deps);
    const giveUp = () => session.#client.close();
    deps.signal?.addEventListener("abort", giveUp);
    try {
      deps.signal?.throwIfAborted();
      const ack = await session.#client.join();
      deps.signal?.removeEventListener("abort", giveUp);
      await deps.onJoined(ack, false);
    } catch (error) {
      session.#left = true;
      session.#client.close();
      throw error;
    }
    return session;
  }

  request<Ack>(type: string, fields: object): Promise<Ack> {
    return this.#client.request<Ack>(type, fields);
  }

  get negotiate(): SignalingClient["negotiate"] {
    return (offer) => this.#client.negotiate(offer);
  }

  /** Drops the connection, which is then restored automatically. */
  drop(): void {
    this.#client.close();
  }

  async leave(): Promise<void> {
    this.#left = true;
    await this.#client.leave();
  }

  #open(): SignalingClient {
    const { url, token, sdk, roster, publicKey, onPush, onLobby } = this.#deps;
    const client: SignalingClient = new SignalingClient(
      {
        url,
        token,
        sdk,
        roster,
        publicKey,
        WebSocket,
        onPush,
        onLobby,
        onClose: (code) => client === this.#client && this.#lost(code),
      },
      this.#connectionId,
    );
    return client;
  }

  #lost(code: number): void {
    if (this.#left || !this.#client.ack) return;
    if (FINAL.has(code)) {
      this.#left = true;
      this.#deps.onClosed(new RtcRefused("CLOSED", `the server has ended the session (${code})`));
      return;
    }
    this.#deps.onLost();
    void this.#reconnect();
  }

  async #reconnect(): Promise<void> {
    let resume = this.#client.resumption;
    for (let attempt = 0; attempt < MAX_TRIES && !this.#left; attempt++) {
      const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      if (this.#left) return;
      const client = this.#open();
      try {
        const ack = await client.join(resume);
        this.#client = client;
        const isCurrent = ack.mode === "resumed" && ack.seq === resume?.lastSeq;
        resume = client.resumption;
        await this.#deps.onJoined(ack, isCurrent);
        return;
      } catch (error) {
        client.close();
        // The session to be resumed has ended, so a new one starts.
        if (error instanceof RtcRefused && error.code !== "CLOSED") resume = undefined;
        if (client.closeCode !== null && FINAL.has(client.closeCode)) break;
      }
    }
    if (this.#left) return;
    this.#left = true;
    this.#deps.onClosed(new Error("the server could not be reached again"));
  }
}
