/** A room: its participants, their tracks, the audible voices, the recording and data messages. */

import { KEY_TOPIC } from "../../protocol/encryption/data-cipher.ts";
import type { RecordingRef, StartRecording } from "../../protocol/media/recording.ts";
import type { RelayedData } from "../../protocol/media/relay.ts";
import type { AddParticipant, OpenRoom, RoomSnapshot, SendData, SetNetwork } from "../../protocol/media-node.ts";
import { MediaError } from "../../protocol/media-node.ts";
import type { NetworkProfile } from "../../protocol/playground.ts";
import { DATA_FRAME_MAX_BYTES } from "../../protocol/signaling.ts";
import { BackupDemand } from "../tracks/backup-demand.ts";
import { Dynacast } from "../tracks/dynacast.ts";
import type { Publication } from "../tracks/publication.ts";
import { DataMessage } from "./data-message.ts";
import { DataBudget, type DataKind, type DataOwner, type DataSink, ROOM_RATES } from "./data-relay.ts";
import type { ParticipantHost, RoomLink, RoomTracks, TrackOwner } from "./host.ts";
import { Participant } from "./participant.ts";
import { RelayedSenders } from "./relayed-senders.ts";
import type { DataSender } from "./reliable-queue.ts";
import { RoomRecorder } from "./room-recorder.ts";
import { isVoice, RoomVoices } from "./speakers.ts";

/** Lost packets are requested after 10 ms. */
export const URGENT_TICK_MS = 20;
/** The tick interval once publishers have settled and no subscriber's path is too narrow. */
const STEADY_TICK_MS = 50;
const SLOW_TICK_MS = 100;
/** Unanswered requests of the server in one room. */
const MAX_REQUESTS = 1_000;
/** A request is answered at most by an acknowledgement and a response. */
const MAX_ANSWERS = 2;
/** Timers may fire a little early. */
const TIMER_SLACK_MS = 10;

export class Room implements RoomTracks, DataSink {
  readonly #host: ParticipantHost;
  readonly #roomId: string;
  readonly #participants = new Map<string, Participant>();
  /** Participants that no session belongs to, such as compositions: they are neither counted nor reported. */
  readonly #unlisted = new Set<string>();
  readonly #publications = new Map<string, Publication>();
  /** By track. */
  readonly #owners = new Map<string, TrackOwner>();
  readonly #publishers = new Set<TrackOwner>();
  readonly #voices: RoomVoices;
  readonly #dynacast = new Dynacast();
  readonly #backupDemand = new BackupDemand();
  /** By identity, so that a profile outlasts a rejoin. */
  readonly #networks = new Map<string, NetworkProfile>();
  readonly #dataBudget: DataBudget;
  readonly #relayedSenders: RelayedSenders;
  /** The server's own requests to participants, by id. */
  readonly #requests = new Map<string, { to: string; untilMs: number; answers: number }>();
  /** The links to the other workers that have participants of the room. */
  readonly #links = new Set<RoomLink>();
  #recorder: RoomRecorder | null = null;
  #slowTickDueMs = 0;

  constructor(host: ParticipantHost, options: OpenRoom) {
    this.#host = host;
    this.#roomId = options.roomId;
    this.#voices = new RoomVoices(options.audibleVoices, () => this.#placeVoices());
    this.#dataBudget = new DataBudget(ROOM_RATES, host.now);
    this.#relayedSenders = new RelayedSenders(host, options.roomId);
  }

  get size(): number {
    return this.#participants.size - this.#unlisted.size;
  }

  add({ participantId, identity, permissions, unlisted, agent = false }: AddParticipant): void {
    if (this.#participants.has(participantId)) return;
    if (unlisted) this.#unlisted.add(participantId);
    const self = { roomId: this.#roomId, participantId, identity };
    const participant = new Participant(this.#host, this, self, permissions, agent);
    participant.setNetwork(this.#networks.get(identity) ?? "none");
    this.#participants.set(participantId, participant);
  }

  setNetwork({ identity, profile }: SetNetwork): void {
    this.#networks.set(identity, profile);
    for (const participant of this.#participants.values()) {
      if (participant.self.identity === identity) participant.setNetwork(profile);
    }
  }

  remove(participantId: string): void {
    this.#participants.get(participantId)?.close();
    this.#participants.delete(participantId);
    this.#unlisted.delete(participantId);
  }

  /** On a link that already has the room, the tracks are offered again. */
  share(link: RoomLink): void {
    this.#links.add(link);
    for (const publication of this.#publications.values()) this.#offer(publication, link);
  }

  unshare(link: RoomLink): void {
    if (!this.#links.delete(link)) return;
    for (const publication of this.#publications.values()) link.end(publication);
  }

  /** A track crosses one link of either kind at most, so that it comes to each worker once. */
  #offer(publication: Publication, link: RoomLink): void {
    if (publication.announced && publication.origin !== link.kind) link.offer(this.#roomId, publication);
  }

  find(participantId: string): Participant | undefined {
    return this.#participants.get(participantId);
  }

  publications(): Iterable<Publication> {
    return this.#publications.values();
  }

  publication(trackId: string): Publication | undefined {
    return this.#publications.get(trackId);
  }

  voices(): Publication[] {
    return this.#voices.audible(this.#publications.values());
  }

  #placeVoices(): void {
    const listeners = [...this.#participants.values()].filter(({ downlink }) => downlink.sharesVoices);
    if (listeners.length === 0) return;
    const voices = this.voices();
    for (const { downlink } of listeners) downlink.placeVoices(voices);
  }

  published(publication: Publication, owner: TrackOwner): void {
    this.#publications.set(publication.trackId, publication);
    this.#owners.set(publication.trackId, owner);
    this.#publishers.add(owner);
    if (publication.origin !== "node") this.#recorder?.published(publication);
    for (const participant of this.#participants.values()) participant.downlink.fillAutomatically();
  }

  announced(publication: Publication): void {
    if (isVoice(publication)) this.#placeVoices();
    for (const link of this.#links) this.#offer(publication, link);
  }

  backupBegan(backup: Publication, primary: Publication): void {
    primary.backupChanged();
    for (const link of this.#links) this.#offer(backup, link);
    this.muteChanged(backup);
  }

  backupEnded(backup: Publication, primary: Publication): void {
    for (const link of this.#links) link.end(backup);
    primary.backup = null;
    backup.backupChanged();
  }

  unpublished(publication: Publication): void {
    for (const link of this.#links) link.end(publication);
    this.#publications.delete(publication.trackId);
    this.#owners.delete(publication.trackId);
    this.#publishers.clear();
    for (const owner of this.#owners.values()) this.#publishers.add(owner);
    this.#voices.remove(publication);
    this.#dynacast.forget(publication);
    this.#backupDemand.forget(publication);
    this.#recorder?.unpublished(publication);
    for (const participant of this.#participants.values()) participant.downlink.trackEnded(publication);
    for (const participant of this.#participants.values()) participant.downlink.fillAutomatically();
  }

  isWanted(publication: Publication): boolean {
    return this.#dynacast.isWanted(publication);
  }

  muteChanged(publication: Publication): void {
    for (const link of this.#links) link.muted(publication);
    if (publication.muted) this.#voices.remove(publication);
    else publication.audible = true;
    this.#placeVoices();
    const nowMs = this.#host.now();
    for (const participant of this.#participants.values()) {
      if (publication.identity !== participant.self.identity) participant.downlink.allocate(nowMs);
    }
  }

  startRecording(request: StartRecording): void {
    if (this.#recorder?.recordingId === request.recordingId) {
      if (request.continues) return;
      for (const publication of this.#publications.values()) this.#recorder.beginAgain(publication);
      return;
    }
    if (this.#recorder) throw new MediaError("RECORDING_RUNS", "Another recording of the room is running.");
    this.#recorder = new RoomRecorder(request, this.#host);
    // Tracks from another node are recorded there.
    for (const publication of this.#publications.values())
      if (publication.origin !== "node") this.#recorder.published(publication);
  }

  stopRecording({ recordingId }: RecordingRef): void {
    if (this.#recorder?.recordingId !== recordingId) return;
    this.#recorder.stop();
    this.#recorder = null;
  }

  observeAudioLevel(publication: Publication, level: number, nowMs: number): void {
    this.#voices.observe(publication, level, nowMs);
  }

  isVoiceUncontested(publication: Publication): boolean {
    return this.#voices.isUncontested(publication);
  }

  relay(from: DataOwner, kind: DataKind, message: DataMessage, share: DataBudget, sender: DataSender): boolean {
    if (share.isSpent || this.#dataBudget.isSpent) return false;
    const { answer } = message;
    const request = answer && this.#requests.get(answer.requestId);
    if (answer && request?.to === from.self.identity) {
      const { requestId, packet } = answer;
      request.answers += 1;
      // Answers go to the main thread, which all rooms share, so their number is limited.
      if (request.answers === MAX_ANSWERS) this.#requests.delete(requestId);
      from.emit({ type: "requestAnswered", requestId, packet: packet.toString("base64") });
      share.spend(1, message.size);
      return true;
    }
    const recipients = this.#deliver(from.self.identity, kind, message, sender);
    const links = this.#relayData(from.self.identity, kind, message);
    for (const budget of [share, this.#dataBudget]) budget.spend(recipients + links, message.size);
    return true;
  }

  #ask(to: string, payload: string, request: NonNullable<SendData["request"]>): void {
    const nowMs = this.#host.now();
    for (const [id, { untilMs }] of this.#requests) if (untilMs < nowMs) this.#requests.delete(id);
    if (this.#requests.size >= MAX_REQUESTS) throw new MediaError("RATE_LIMITED", "Too many requests are unanswered.");
    this.#requests.set(request.id, { to, untilMs: nowMs + request.timeoutMs, answers: 0 });
    this.#deliver(null, "reliable", DataMessage.ofRequest(to, payload, request), null);
  }

  sendData(data: SendData): void {
    const { from, topic, to, payload, encoding, lossy = false, nonce, request } = data;
    if (request && to?.[0] !== undefined) {
      this.#ask(to[0], payload, request);
      return;
    }
    if (Buffer.byteLength(payload, encoding) > DATA_FRAME_MAX_BYTES)
      throw new MediaError("PAYLOAD_TOO_LARGE", "The payload is too large.");
    // The budget applies to participants and not to backends.
    if (from !== null && this.#dataBudget.isSpent)
      throw new MediaError("RATE_LIMITED", "The room delivers as much data as it may. Send it again in a second.");
    const sender = [...this.#participants.values()].find(({ self }) => self.identity === from);
    const known = from === null ? null : (sender?.self ?? { identity: from, participantId: "" });
    const message =
      encoding === undefined
        ? DataMessage.ofFrame(known, { topic, to, payload })
        : DataMessage.ofBytes(Buffer.from(payload, encoding), { topic, to, isLossy: lossy, nonce });
    const kind = lossy ? "lossy" : "reliable";
    const recipients = this.#deliver(from, kind, message, sender?.data ?? null);
    const links = this.#relayData(from, kind, message);
    if (from !== null) this.#dataBudget.spend(recipients + links, payload.length);
  }

  /**
   * Returns the number of links that the message is for. Each counts as a recipient: the message passes through the main thread,
   * even if it names nobody whom this worker knows.
   */
  #relayData(from: string | null, kind: DataKind, message: DataMessage): number {
    if (this.#links.size > 0) this.#host.relayData(message.relayed(this.#roomId, from, kind));
    return this.#links.size;
  }

  /** Takes data whose sender is on another worker, which has checked it. */
  deliverRelayed(data: RelayedData): void {
    const sender = data.from === null ? null : this.#relayedSenders.of(data.from);
    const recipients = this.#deliver(data.from, data.kind, DataMessage.ofRelayed(data), sender);
    if (data.from !== null) this.#dataBudget.spend(recipients, data.size);
  }

  #deliver(from: string | null, kind: DataKind, message: DataMessage, sender: DataSender | null): number {
    const { delivery } = message;
    // Participants who may not send data still have to get the keys of an encrypted call.
    const isForAll = delivery?.topic === KEY_TOPIC;
    const recipients: string[] = [];
    let delivered = 0;
    for (const [participantId, participant] of this.#participants) {
      const { identity } = participant.self;
      if (identity === from || !message.isFor(participant.self)) continue;
      if (!isForAll && !participant.permissions.publishData && !participant.data.alwaysReceives) continue;
      delivered += 1;
      if (!participant.data.deliver(kind, message, sender)) recipients.push(participantId);
    }
    if (delivery && recipients.length > 0)
      this.#host.emit({ type: "data", roomId: this.#roomId, ...delivery, recipients });
    return delivered;
  }

  refusals(): Record<string, number> {
    const total: Record<string, number> = {};
    for (const participant of this.#participants.values()) {
      for (const [reason, count] of Object.entries(participant.refusals()))
        total[reason] = (total[reason] ?? 0) + count;
    }
    return total;
  }

  /** How often `tick` has to be called from now on; null while the room is empty. */
  tickEveryMs(nowMs: number): number | null {
    if (this.#participants.size === 0 && this.#publishers.size === 0) return this.#recorder ? SLOW_TICK_MS : null;
    let everyMs = SLOW_TICK_MS;
    for (const { uplink } of this.#publishers) {
      if (uplink.isUrgent) return URGENT_TICK_MS;
      if (uplink.isBusy(nowMs)) everyMs = STEADY_TICK_MS;
    }
    return everyMs;
  }

  /** Publishers need work every few milliseconds; viewers do not, and there are many. */
  tick(nowMs: number): void {
    for (const owner of this.#publishers) owner.uplink.tick(nowMs);
    if (nowMs < this.#slowTickDueMs) return;
    this.#slowTickDueMs = nowMs + SLOW_TICK_MS - TIMER_SLACK_MS;
    for (const participant of this.#participants.values()) participant.tick(nowMs);
    this.#relayedSenders.tick(nowMs);
    this.#recorder?.tick(nowMs);
    const speakers = this.#voices.takeChange(nowMs);
    if (speakers) this.#host.emit({ type: "speakersChanged", roomId: this.#roomId, speakers });
    for (const [trackId, publication] of this.#publications) {
      const layers = this.#dynacast.update(publication, nowMs);
      if (layers) this.#owners.get(trackId)?.emit({ type: "layersWanted", trackId, layers });
      const codecs = this.#backupDemand.update(publication, this.#links, nowMs);
      if (codecs) this.#owners.get(trackId)?.emit({ type: "codecsWanted", trackId, codecs });
    }
  }

  snapshot(): RoomSnapshot {
    const listed = [...this.#participants].filter(([participantId]) => !this.#unlisted.has(participantId));
    return { roomId: this.#roomId, participants: listed.map(([, participant]) => participant.snapshot()) };
  }

  close(): void {
    this.#recorder?.stop();
    this.#recorder = null;
    for (const participant of this.#participants.values()) participant.close();
    this.#participants.clear();
    this.#publications.clear();
    this.#owners.clear();
    this.#publishers.clear();
  }
}
