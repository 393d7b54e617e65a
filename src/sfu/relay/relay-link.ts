/**
 * A link to another worker: one connection for all rooms that both have. To the publisher's worker it is a viewer, to the viewers'
 * worker a publisher. Each side tells the other which streams it wants: all of it every second, so that nothing needs an answer.
 */
import type { ParticipantHost } from "../room/host.ts";
import { randomSsrc } from "../tracks/publisher-feedback.ts";
import { AgreedKeys } from "../transport/agreed-keys.ts";
import { Connection } from "../transport/connection.ts";
import { parseRtcp, type RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { writeApp } from "../wire/rtcp/rtcp-write.ts";
import { IncomingRelays } from "./incoming-relays.ts";
import { OutgoingRelays } from "./outgoing-relays.ts";
import { MAX_LINK_STREAMS, type OpenLink, type RelayedTrack } from "./relayed-track.ts";

const NAME = "WANT";
const SUBTYPE = { wanted: 1, unwanted: 0 } as const;
const WANTS_EVERY_MS = 1_000;
/** Until the other side is heard. */
const HELLO_EVERY_MS = 50;
const MAX_SSRCS = 250;

type LinkOutput = {
  /** The other side was heard for the first time. */
  up(): void;
  offered(track: RelayedTrack): void;
};

export class RelayLink {
  readonly incoming: IncomingRelays;
  readonly outgoing: OutgoingRelays;
  readonly #connection: Connection;
  readonly #now: () => number;
  readonly #onUp: () => void;
  readonly #wants = new Map<number, boolean>();
  readonly #ssrc = randomSsrc();
  readonly #out = new Uint8Array(1_200);
  #isUp = false;
  #sentAtMs = Number.NEGATIVE_INFINITY;

  constructor(host: ParticipantHost, { linkId, peer, keys }: OpenLink, { up, offered }: LinkOutput) {
    this.#now = host.now;
    this.#onUp = up;
    let agreed: AgreedKeys | null = null;
    const openDtls: ParticipantHost["openDtls"] = (options) => {
      agreed = new AgreedKeys(options, keys);
      return agreed;
    };
    const link = () => this;
    this.#connection = new Connection({ ...host, openDtls, maxStreams: MAX_LINK_STREAMS }, [], {
      onIceState() {},
      onDtlsState() {},
      onReady() {},
      onLost() {},
      onChannel: (channel) => channel.close(),
      onMessage() {},
      get streams() {
        return link().incoming.fastStreams;
      },
      onRtp: (data, length, nowMs) => this.incoming.receiveRtp(data, length, nowMs),
      onRtcp: (data, length, nowMs) => this.#receiveRtcp(parseRtcp(data, length), nowMs),
    });
    const want = (ssrc: number, isWanted: boolean) => this.#want(ssrc, isWanted);
    this.incoming = new IncomingRelays(host, this.#connection, want, (ssrc) => void this.#wants.delete(ssrc));
    this.outgoing = new OutgoingRelays(host, linkId, this.#connection, offered);
    host.agent.assumePath(this.#connection.ice, peer, host.now());
    (agreed as AgreedKeys | null)?.connect();
    this.#sendWants(this.#wants);
  }

  #want(ssrc: number, isWanted: boolean): void {
    if ((this.#wants.get(ssrc) ?? false) === isWanted) return;
    this.#wants.set(ssrc, isWanted);
    this.#sendWants([[ssrc, isWanted]]);
  }

  #sendWants(wants: Iterable<[number, boolean]>): void {
    const wanted: number[] = [];
    const unwanted: number[] = [];
    for (const [ssrc, isWanted] of wants) (isWanted ? wanted : unwanted).push(ssrc);
    this.#send(SUBTYPE.wanted, wanted);
    if (unwanted.length > 0) this.#send(SUBTYPE.unwanted, unwanted);
  }

  /** An empty list is sent too: it is a sign of life. */
  #send(subtype: number, ssrcs: readonly number[]): void {
    for (let from = 0; from === 0 || from < ssrcs.length; from += MAX_SSRCS) {
      const words = ssrcs.slice(from, from + MAX_SSRCS);
      const end = writeApp(this.#out, 0, { subtype, ssrc: this.#ssrc, name: NAME, words });
      this.#connection.sendRtcp(this.#out.subarray(0, end));
    }
  }

  #receiveRtcp(packets: readonly RtcpPacket[], nowMs: number): void {
    if (!this.#isUp) {
      this.#isUp = true;
      this.#sendWants(this.#wants);
      this.#onUp();
    }
    for (const packet of packets) {
      if (packet.type !== "app" || packet.name !== NAME) continue;
      for (const ssrc of packet.words) this.outgoing.want(ssrc, packet.subtype === SUBTYPE.wanted);
    }
    this.incoming.receiveRtcp(packets, this.outgoing.rttMs, nowMs);
    this.outgoing.receiveRtcp(packets, nowMs);
  }

  get everyMs(): number {
    return this.#isUp ? 100 : HELLO_EVERY_MS;
  }

  tick(nowMs: number): void {
    this.#connection.tick(nowMs);
    this.outgoing.tick(nowMs);
    if (nowMs - this.#sentAtMs < (this.#isUp ? WANTS_EVERY_MS : HELLO_EVERY_MS)) return;
    this.#sentAtMs = nowMs;
    this.#sendWants(this.#wants);
  }

  close(): void {
    this.outgoing.close();
    this.incoming.close();
    this.#connection.close();
  }
}
