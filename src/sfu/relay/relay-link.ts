/**
 * A link to another worker: one connection for all rooms that both have. To the publisher's worker the link is a viewer, to the
 * viewers' worker a publisher. Each side tells the other which streams it wants, and repeats the whole list every second, so that
 * no acknowledgement is needed.
 */
import type { LinkCondition, LinkState, RelayedTrack, RelayedTrackRef } from "../../protocol/media/relay.ts";
import { BACKUP_CODECS, type BackupCodec } from "../../protocol/signaling.ts";
import type { ParticipantHost } from "../room/host.ts";
import { type PathLoss, randomSsrc } from "../tracks/publisher-feedback.ts";
import { AgreedKeys } from "../transport/agreed-keys.ts";
import { Connection } from "../transport/connection.ts";
import { parseRtcp, type RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { writeApp } from "../wire/rtcp/rtcp-write.ts";
import { IncomingRelays } from "./incoming-relays.ts";
import { LinkBudget, LinkQueue } from "./link-budget.ts";
import { OutgoingRelays } from "./outgoing-relays.ts";
import { type LinkKind, MAX_LINK_STREAMS, type OpenLink } from "./relayed-track.ts";

const NAME = "WANT";
const SUBTYPE = { wanted: 1, unwanted: 0, ping: 2, pong: 3, arrived: 4 } as const;
/**
 * The name of packets that ask for backup codecs: each entry is the first stream of a track and the codec that is
 * wanted. Older nodes ignore these packets.
 */
const BACKUPS_NAME = "BKUP";
const WANTS_EVERY_MS = 1_000;
/** The interval of checks until the other side has responded. */
const HELLO_EVERY_MS = 50;
/** The interval between nodes, where nothing else shows that the network has failed. */
const SIGN_OF_LIFE_EVERY_MS = 250;
const CHECK_EVERY_MS = 1_000;
const ARRIVED_EVERY_MS = 1_000;
const REPORT_EVERY_MS = 5_000;
const LOSS_UNITS = 65_536;
const UNKNOWN = 0xffff_ffff;
const SILENT_AFTER_MS = 1_000;
const DOWN_AFTER_MS = 3_000;
const MAX_WORDS = 250;

type LinkOutput = {
  /** Called when the link's condition changes, and when the other side has responded for the first time. */
  changed(condition: LinkCondition): void;
  offered(track: RelayedTrack): void;
  muted(ref: RelayedTrackRef & { muted: boolean }): void;
  ended(ref: RelayedTrackRef): void;
};

export class RelayLink {
  readonly incoming: IncomingRelays;
  readonly outgoing: OutgoingRelays;
  readonly #connection: Connection;
  readonly #host: ParticipantHost;
  readonly #peers: OpenLink["peers"];
  readonly #checks: OpenLink["checks"];
  readonly #output: LinkOutput;
  readonly path = { expected: 0, lost: 0 };
  /** Null between workers of one node, whose links are as wide as its memory. */
  readonly #budget: LinkBudget | null;
  /** Measures how long packets towards this end wait. */
  readonly #queue = new LinkQueue();
  readonly #wants = new Map<number, boolean>();
  /** The wanted backups, by the first stream of their track; null for those that are no longer wanted. */
  readonly #backups = new Map<number, BackupCodec | null>();
  readonly #ssrc = randomSsrc();
  readonly #out = new Uint8Array(1_200);
  /** Null until the other side is heard. */
  #state: LinkState | null = null;
  readonly #openedAtMs: number;
  #heardAtMs = Number.NEGATIVE_INFINITY;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #livedAtMs = Number.NEGATIVE_INFINITY;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  readonly #reported = { expected: 0, lost: 0 };
  readonly #arrived = { expected: 0, lost: 0, bytes: 0, atMs: 0 };
  /** Measured between nodes only. */
  #rttMs: number | null = null;
  #lossPercent: number | null = null;

  constructor(host: ParticipantHost, { linkId, peers, keys, checks }: OpenLink, output: LinkOutput) {
    this.#host = host;
    this.#peers = peers;
    this.#checks = checks;
    this.#budget = checks && new LinkBudget();
    this.#output = output;
    this.#openedAtMs = this.#arrived.atMs = host.now();
    let agreed: AgreedKeys | null = null;
    const openDtls: ParticipantHost["openDtls"] = (options) => {
      agreed = new AgreedKeys(options, keys);
      return agreed;
    };
    const link = () => this;
    this.#connection = new Connection({ ...host, openDtls, maxStreams: MAX_LINK_STREAMS }, [], {
      onIceState(state) {
        if (state === "connected") agreed?.connect();
      },
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
    this.incoming = new IncomingRelays(host, this, this.#connection, {
      want: (ssrc, isWanted) => this.#want(ssrc, isWanted),
      wantBackup: (ssrc, codec) => this.#wantBackup(ssrc, codec),
      forget: (ssrc) => {
        this.#wants.delete(ssrc);
        this.#backups.delete(ssrc);
      },
    });
    this.outgoing = new OutgoingRelays(host, { linkId, kind: this.kind }, this.#connection, output);
    const [peer] = peers;
    if (checks) host.agent.acceptChecks(this.#connection.ice, checks.local);
    else if (peer) host.agent.assumePath(this.#connection.ice, peer, host.now());
    this.tick(host.now());
  }

  get kind(): LinkKind {
    return this.#checks ? "node" : "worker";
  }

  get rttMs(): number | null {
    return this.#rttMs;
  }

  #want(ssrc: number, isWanted: boolean): void {
    if ((this.#wants.get(ssrc) ?? false) === isWanted) return;
    this.#wants.set(ssrc, isWanted);
    this.#sendWants([[ssrc, isWanted]]);
  }

  #wantBackup(ssrc: number, codec: BackupCodec | null): void {
    this.#backups.set(ssrc, codec);
    this.#sendBackups([[ssrc, codec]]);
  }

  #sendBackups(backups: Iterable<[number, BackupCodec | null]>): void {
    const words = [...backups].flatMap(([ssrc, codec]) => [ssrc, codec ? BACKUP_CODECS.indexOf(codec) + 1 : 0]);
    if (words.length > 0) this.#send(0, words, BACKUPS_NAME);
  }

  #sendAllWants(): void {
    this.#sendWants(this.#wants);
    this.#sendBackups(this.#backups);
  }

  #sendWants(wants: Iterable<[number, boolean]>): void {
    const wanted: number[] = [];
    const unwanted: number[] = [];
    for (const [ssrc, isWanted] of wants) (isWanted ? wanted : unwanted).push(ssrc);
    this.#send(SUBTYPE.wanted, wanted);
    if (unwanted.length > 0) this.#send(SUBTYPE.unwanted, unwanted);
  }

  /** An empty list is sent too: it is a sign of life. */
  #send(subtype: number, allWords: readonly number[], name = NAME): void {
    for (let from = 0; from === 0 || from < allWords.length; from += MAX_WORDS) {
      const words = allWords.slice(from, from + MAX_WORDS);
      const end = writeApp(this.#out, 0, { subtype, ssrc: this.#ssrc, name, words });
      this.#connection.sendRtcp(this.#out.subarray(0, end));
    }
  }

  #receiveRtcp(packets: readonly RtcpPacket[], nowMs: number): void {
    this.#heardAtMs = nowMs;
    if (this.#state !== "up") {
      this.#sendAllWants();
      this.#change("up");
    }
    for (const packet of packets) {
      if (packet.type === "app" && packet.name === BACKUPS_NAME) this.#backupsWanted(packet.words);
      if (packet.type !== "app" || packet.name !== NAME) continue;
      if (packet.subtype === SUBTYPE.ping) this.#pinged(packet.words[0] ?? 0, nowMs);
      else if (packet.subtype === SUBTYPE.pong) this.#ponged(packet.words[0], nowMs);
      else if (packet.subtype === SUBTYPE.arrived) this.#arrivalReported(packet.words, nowMs);
      else for (const ssrc of packet.words) this.outgoing.want(ssrc, packet.subtype === SUBTYPE.wanted);
    }
    this.incoming.receiveRtcp(packets, this.#rttMs ?? this.outgoing.rttMs, nowMs);
    this.outgoing.receiveRtcp(packets, nowMs);
  }

  #backupsWanted(words: readonly number[]): void {
    for (let i = 0; i + 1 < words.length; i += 2)
      this.outgoing.wantBackup(words[i] ?? 0, BACKUP_CODECS[(words[i + 1] ?? 0) - 1] ?? null);
  }

  #ponged(sentAt: number | undefined, nowMs: number): void {
    const tripMs = sentAt === undefined ? -1 : ((nowMs >>> 0) - sentAt) >>> 0;
    if (tripMs < 0 || tripMs > DOWN_AFTER_MS) return;
    this.#rttMs = Math.max(1, this.#rttMs === null ? tripMs : this.#rttMs + (tripMs - this.#rttMs) / 8);
    this.outgoing.setRtt(this.#rttMs);
  }

  #pinged(sentAt: number, nowMs: number): void {
    this.#send(SUBTYPE.pong, [sentAt]);
    this.#queue.arrived(((nowMs >>> 0) - sentAt) | 0, nowMs);
  }

  #arrivalReported([kilobits = 0, loss = 0, queueMs = UNKNOWN]: readonly number[], nowMs: number): void {
    if (!this.#budget) return;
    const arrival = { bitsPerSecond: kilobits * 1_000, lossRatio: loss / LOSS_UNITS };
    this.#budget.onReport(
      { ...arrival, queueMs: queueMs === UNKNOWN ? null : queueMs },
      this.outgoing.wantedBps,
      nowMs,
    );
    this.outgoing.fit(this.#budget.limit, nowMs);
  }

  #reportArrival(nowMs: number): void {
    const { bytes, atMs } = this.#arrived;
    const { bytesIn } = this.#connection;
    const kilobits = Math.round(((bytesIn - bytes) * 8) / (nowMs - atMs));
    const loss = Math.round((this.#lossSince(this.#arrived) ?? 0) * LOSS_UNITS);
    Object.assign(this.#arrived, { bytes: bytesIn, atMs: nowMs });
    this.#send(SUBTYPE.arrived, [kilobits, loss, this.#queue.takeMs() ?? UNKNOWN]);
  }

  #lossSince(before: PathLoss): number | null {
    const [expected, lost] = [this.path.expected - before.expected, this.path.lost - before.lost];
    Object.assign(before, this.path);
    return expected === 0 ? null : lost / expected;
  }

  get #condition(): Omit<LinkCondition, "state"> {
    const { limit = Number.POSITIVE_INFINITY } = this.#budget ?? {};
    const limitBps = Number.isFinite(limit) ? Math.round(limit) : null;
    return { rttMs: this.#rttMs, lossPercent: this.#lossPercent, limitBps };
  }

  #change(state: LinkState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#output.changed({ state, ...this.#condition });
  }

  get everyMs(): number {
    return this.#state === "up" ? 100 : HELLO_EVERY_MS;
  }

  tick(nowMs: number): void {
    this.#connection.tick(nowMs);
    this.outgoing.tick(nowMs);
    if (this.#checks) this.#keepAlive(this.#checks, nowMs);
    if (nowMs - this.#sentAtMs < (this.#state === "up" ? WANTS_EVERY_MS : HELLO_EVERY_MS)) return;
    this.#sentAtMs = nowMs;
    this.#sendAllWants();
  }

  /** Each side learns the address of the other from its connectivity checks, so one of them may be behind a NAT. */
  #keepAlive(checks: NonNullable<OpenLink["checks"]>, nowMs: number): void {
    const silentMs = nowMs - Math.max(this.#heardAtMs, this.#connection.liveness.mediaAtMs, this.#openedAtMs);
    if (silentMs >= DOWN_AFTER_MS) this.#change("down");
    else if (silentMs >= SILENT_AFTER_MS && this.#state === "up") this.#change("silent");
    if (nowMs - this.#checkedAtMs >= (this.#state === "up" ? CHECK_EVERY_MS : HELLO_EVERY_MS)) {
      this.#checkedAtMs = nowMs;
      const { selected } = this.#connection.ice;
      const to = selected && this.#state === "up" ? [selected] : [...this.#peers, ...(selected ? [selected] : [])];
      for (const place of to) this.#host.agent.check(checks, place);
    }
    this.#report(nowMs);
    if (this.#state !== "up" || nowMs - this.#livedAtMs < SIGN_OF_LIFE_EVERY_MS) return;
    this.#livedAtMs = nowMs;
    this.#send(SUBTYPE.ping, [nowMs >>> 0]);
    if (nowMs - this.#arrived.atMs >= ARRIVED_EVERY_MS) this.#reportArrival(nowMs);
  }

  /** Repeats the state regularly for a control plane that has just started and missed the last change. */
  #report(nowMs: number): void {
    if (this.#state === null || nowMs - this.#reportedAtMs < REPORT_EVERY_MS) return;
    this.#reportedAtMs = nowMs;
    const loss = this.#lossSince(this.#reported);
    this.#lossPercent = loss === null ? null : loss * 100;
    this.#output.changed({ state: this.#state, ...this.#condition });
  }

  close(): void {
    this.outgoing.close();
    this.incoming.close();
    this.#connection.close();
  }
}
