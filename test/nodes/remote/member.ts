/** A participant without a browser. */

import type { Push } from "../../../src/protocol/signaling.ts";
import { type PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { SignalingClient } from "../../../src/rtc-client/signaling-client.ts";
import { createCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { until } from "./until.ts";

/** One participant: its socket, and its media once it publishes or watches. */
export class Member {
  pushes: Push[] = [];
  client: SignalingClient;
  peer: RtcPeer | null = null;
  /** Between two packets of what it watches. */
  longestGapMs = 0;
  #heardAt: number | null = null;
  #sending: Timer | null = null;

  constructor(
    readonly url: string,
    readonly token: string,
  ) {
    this.client = this.#dial();
  }

  #dial(connectionId?: string): SignalingClient {
    const { url, token } = this;
    return new SignalingClient({ url, token, onPush: (push) => void this.pushes.push(push) }, connectionId);
  }

  join() {
    return this.client.join();
  }

  /** On a new socket, for as long as it takes to reach the server. */
  async resume() {
    const { connectionId, resumption } = this.client;
    for (;;) {
      this.client = this.#dial(connectionId);
      try {
        return await this.client.join(resumption);
      } catch {
        await Bun.sleep(50);
      }
    }
  }

  of<T extends Push["type"]>(type: T): Extract<Push, { type: T }>[] {
    return this.pushes.filter((push): push is Extract<Push, { type: T }> => push.type === type);
  }

  async publish(): Promise<void> {
    const peer = await this.#media("sendonly");
    await peer.connect([{ mid: "0", clientTrackId: "camera", kind: "video", source: "camera" }], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    this.#sending = setInterval(() => source.sendFrame(peer, true), 40);
  }

  /** Receives the video of a participant. */
  async watch(publisher: string, openSocket?: PeerOptions["openSocket"]): Promise<void> {
    const track = await until(() => {
      const known = this.client.ack?.participants.find(({ identity }) => identity === publisher)?.tracks ?? [];
      const announced = this.of("track.published").filter(({ identity }) => identity === publisher);
      return [...known, ...announced.map(({ track }) => track)].find(({ kind }) => kind === "video");
    });
    const peer = await this.#media("recvonly", openSocket);
    await peer.connect([], [{ mid: "0", trackId: track.id }]);
    await this.receives();
  }

  /** Ten packets more than now. */
  async receives(): Promise<void> {
    const before = this.peer?.packetsIn ?? 0;
    await until(() => (this.peer?.packetsIn ?? 0) >= before + 10);
  }

  #heard(): void {
    const now = performance.now();
    this.longestGapMs = Math.max(this.longestGapMs, now - (this.#heardAt ?? now));
    this.#heardAt = now;
  }

  async #media(direction: "sendonly" | "recvonly", openSocket?: PeerOptions["openSocket"]): Promise<RtcPeer> {
    const certificate = await createCertificate();
    const sections = [{ kind: "video" as const, direction }];
    const ref = { roomId: "", participantId: "" };
    const options = {
      node: this.client,
      ...ref,
      sections,
      certificate,
      hostname: "0.0.0.0",
      onRtp: () => this.#heard(),
      ...(openSocket && { openSocket }),
    };
    this.peer = await RtcPeer.create(options);
    return this.peer;
  }

  close(): void {
    if (this.#sending) clearInterval(this.#sending);
    this.peer?.close();
    this.client.close();
  }
}
