import {
  ConnectionQualityInfo,
  ConnectionQualityUpdate,
  DisconnectReason,
  LeaveRequest,
  LeaveRequest_Action,
  MuteTrackRequest,
  type ParticipantInfo,
  ParticipantInfo_State,
  ParticipantUpdate,
  RoomUpdate,
  SpeakerInfo,
  SpeakersChanged,
  StreamState,
  StreamStateInfo,
  StreamStateUpdate,
  SubscribedCodec,
  SubscribedQuality,
  SubscribedQualityUpdate,
  SubscriptionPermissionUpdate,
  TrackUnpublishedResponse,
  VideoQuality,
} from "@livekit/protocol";
import type { RoomRow } from "../../features/rooms/room.table.ts";
import { participantSid, trackSid } from "../../protocol/media/livekit-sids.ts";
import { BACKUP_CODECS, type BackupCodec, type LeaveReason, type Push } from "../../protocol/signaling.ts";
import { othersFor } from "../signaling/rosters.ts";
import { mayReceive, publisherOf, type RtcSession } from "../signaling/rtc-session.ts";
import type { Message } from "./negotiation/negotiator.ts";
import type { PublishedTracks } from "./published-tracks.ts";
import { LAYER_QUALITY, LEAVE_REASONS, type LivekitDetails, participantInfo, qualityOf, roomInfo } from "./records.ts";

type NotifierDeps = {
  session: RtcSession;
  published: PublishedTracks;
  details: LivekitDetails;
  /** The stored room; undefined when it was deleted with its project. */
  row(): RoomRow | undefined;
  send(message: Message): void;
};

const ACTIONS: Record<Extract<Push, { type: "bye" }>["action"], LeaveRequest_Action> = {
  stop: LeaveRequest_Action.DISCONNECT,
  resume: LeaveRequest_Action.RESUME,
  rejoin: LeaveRequest_Action.RECONNECT,
};

/**
 * Translates the room's pushes into LiveKit's messages for one client, and tracks the state of the room that the client
 * knows.
 */
export class SignalNotifier {
  /** The participants that the client knows, by identity, in the state that was last sent. */
  readonly #known = new Map<string, ParticipantInfo>();
  #speaking = new Set<string>();
  readonly #paused = new Set<string>();
  #isDeferring = false;
  /** Whether a newer process of this server can resume this client's session. */
  canResume = false;

  constructor(private readonly deps: NotifierDeps) {}

  others(): ParticipantInfo[] {
    return othersFor(this.deps.session).map((other) => this.#describe(other));
  }

  self(): ParticipantInfo {
    const { session, details } = this.deps;
    return participantInfo(session, details);
  }

  notifySelf(): void {
    this.#update([this.self()]);
  }

  /** Sends the current participants, and those that left, to a client that missed updates. */
  catchUp(): void {
    const before = new Map(this.#known);
    this.#known.clear();
    const present = this.others();
    const gone = [...before].flatMap(([identity, info]) =>
      this.#known.get(identity)?.sid === info.sid ? [] : [this.#disconnected(info, "left")],
    );
    this.#update([...gone, this.self(), ...present]);
  }

  /** Joins and changes of other participants are not sent until `release`. */
  hold(): void {
    this.#isDeferring = true;
  }

  release(): void {
    this.#isDeferring = false;
    this.catchUp();
  }

  push(push: Push): void {
    const { session, send } = this.deps;
    switch (push.type) {
      case "participant.joined":
      case "participant.updated":
        this.#changed(push.participant.identity);
        break;
      case "participants.changed":
        this.#changedTogether(push);
        break;
      case "track.published":
      case "track.unpublished":
        if (push.type === "track.unpublished" && push.identity === session.identity) this.#unpublished(push.trackId);
        else this.#changed(push.identity);
        if (push.type === "track.published") this.#withheld(push.identity, push.track.id);
        break;
      case "track.muted":
      case "track.unmuted":
        if (push.identity === session.identity) this.#muted(push.trackId, push.type === "track.muted");
        else this.#changed(push.identity);
        break;
      case "participant.left":
        this.#update(this.#left(push));
        break;
      case "speakers.changed":
        this.#speakers(push.speakers);
        break;
      case "recording.changed":
      case "room.state":
        this.roomChanged();
        break;
      case "layers.wanted":
        this.#layersWanted(push.trackId, push.layers);
        break;
      case "codecs.wanted":
        this.#codecsWanted(push.trackId, push.codecs);
        break;
      case "subscription.changed":
        this.#delivery(push.trackId, push.paused && push.reason === "bandwidth");
        break;
      case "quality.changed": {
        const of = session.room.sessions.get(push.identity);
        if (!of || of.hidden) break;
        const info = { participantSid: participantSid(of.id), quality: qualityOf(push.quality) };
        const updates = [new ConnectionQualityInfo(info)];
        send({ case: "connectionQuality", value: new ConnectionQualityUpdate({ updates }) });
        break;
      }
      case "bye":
        this.bye(push.reason as LeaveReason, push.action === "resume" && !this.canResume ? "rejoin" : push.action);
        break;
      // The session itself handles a move. Permissions are part of the participant, data has its own channels, and the client detects stalls itself.
      case "room.moved":
      case "lobby.changed":
      case "permissions.changed":
      case "data":
      case "media.stalled":
      case "media.flows":
        break;
    }
  }

  roomChanged(): void {
    const row = this.deps.row();
    if (!row) return;
    const room = roomInfo(row, this.deps.session.room, this.deps.details);
    this.deps.send({ case: "roomUpdate", value: new RoomUpdate({ room }) });
  }

  receiving(publisher: RtcSession, trackId: string, allowed: boolean): void {
    const ids = { participantSid: participantSid(publisher.id), trackSid: trackSid(trackId) };
    this.deps.send({
      case: "subscriptionPermissionUpdate",
      value: new SubscriptionPermissionUpdate({ ...ids, allowed }),
    });
  }

  bye(reason: LeaveReason, action: Extract<Push, { type: "bye" }>["action"]): void {
    const value = new LeaveRequest({
      reason: LEAVE_REASONS[reason] ?? DisconnectReason.UNKNOWN_REASON,
      action: ACTIONS[action],
      canReconnect: action !== "stop",
    });
    this.deps.send({ case: "leave", value });
  }

  #changed(identity: string): void {
    this.#update(this.#current(identity));
  }

  #changedTogether({ joined, left, updated }: Extract<Push, { type: "participants.changed" }>): void {
    const present = [...joined, ...updated].flatMap(({ identity }) => this.#current(identity));
    this.#update([...left.flatMap((one) => this.#left(one)), ...present]);
  }

  #left({ identity, reason }: { identity: string; reason: LeaveReason }): ParticipantInfo[] {
    const info = this.#known.get(identity);
    this.#known.delete(identity);
    return info ? [this.#disconnected(info, reason)] : [];
  }

  #current(identity: string): ParticipantInfo[] {
    const { session, details } = this.deps;
    if (identity === session.identity) return [participantInfo(session, details)];
    const other = session.room.sessions.get(identity);
    if (!other?.announced || this.#isDeferring) return [];
    const before = this.#known.get(identity);
    // LiveKit's clients treat another session of the same identity as another participant.
    const replaced = before && before.sid !== participantSid(other.id) ? [this.#disconnected(before, "replaced")] : [];
    return [...replaced, this.#describe(other)];
  }

  /** Called for a track that its publisher does not let this client receive. */
  #withheld(identity: string, trackId: string): void {
    const { session } = this.deps;
    const publisher = session.room.sessions.get(identity);
    if (publisher && publisher !== session && !mayReceive(session, trackId, publisher))
      this.receiving(publisher, trackId, false);
  }

  #describe(other: RtcSession): ParticipantInfo {
    const info = participantInfo(other, this.deps.details);
    // A viewer who waits for a live stream to start does not see tracks.
    if (this.deps.session.waiting) info.tracks = [];
    this.#known.set(other.identity, info);
    return info;
  }

  #disconnected(info: ParticipantInfo, reason: LeaveReason): ParticipantInfo {
    const gone = info.clone();
    gone.state = ParticipantInfo_State.DISCONNECTED;
    gone.disconnectReason = LEAVE_REASONS[reason];
    return gone;
  }

  #update(participants: ParticipantInfo[]): void {
    if (participants.length === 0) return;
    this.deps.send({ case: "update", value: new ParticipantUpdate({ participants }) });
  }

  /** LiveKit sends only changes, so a speaker who becomes silent is listed once. */
  #speakers(speakers: Extract<Push, { type: "speakers.changed" }>["speakers"]): void {
    const { session, send } = this.deps;
    const now = new Map(
      speakers.flatMap(({ identity, level }) => {
        const of = session.room.sessions.get(identity);
        return of ? [[participantSid(of.id), level]] : [];
      }),
    );
    const silent = [...this.#speaking].filter((sid) => !now.has(sid));
    this.#speaking = new Set(now.keys());
    const changed = [
      ...[...now].map(([sid, level]) => new SpeakerInfo({ sid, level, active: true })),
      ...silent.map((sid) => new SpeakerInfo({ sid, level: 0, active: false })),
    ];
    if (changed.length > 0) send({ case: "speakersChanged", value: new SpeakersChanged({ speakers: changed }) });
  }

  #unpublished(trackId: string): void {
    const { published, send } = this.deps;
    if (!published.find(trackId)) return;
    published.remove(trackId);
    send({ case: "trackUnpublished", value: new TrackUnpublishedResponse({ trackSid: trackSid(trackId) }) });
  }

  /** An echo of the client's own request could revert a later one, so only other changes are sent. */
  #muted(trackId: string, muted: boolean): void {
    const { published, send } = this.deps;
    const track = published.find(trackId);
    if (!track || track.muted === muted) return;
    track.muted = muted;
    send({ case: "mute", value: new MuteTrackRequest({ sid: trackSid(trackId), muted }) });
  }

  #layersWanted(trackId: string, layers: Extract<Push, { type: "layers.wanted" }>["layers"]): void {
    const track = this.deps.session.tracks.get(trackId);
    const qualities = (["low", "medium", "high"] as const).map(
      (layer) => new SubscribedQuality({ quality: LAYER_QUALITY[layer], enabled: layers.includes(layer) }),
    );
    const codec = (track?.codec ?? "vp8").toLowerCase();
    const value = new SubscribedQualityUpdate({
      trackSid: trackSid(trackId),
      subscribedQualities: qualities,
      subscribedCodecs: [new SubscribedCodec({ codec, qualities })],
    });
    this.deps.send({ case: "subscribedQualityUpdate", value });
  }

  #codecsWanted(trackId: string, codecs: readonly BackupCodec[]): void {
    const { session, send } = this.deps;
    const own = session.tracks.get(trackId)?.codec;
    const subscribedCodecs = BACKUP_CODECS.filter((codec) => codec !== own).map((codec) => {
      const enabled = codecs.includes(codec);
      const qualities = [VideoQuality.LOW, VideoQuality.MEDIUM, VideoQuality.HIGH].map(
        (quality) => new SubscribedQuality({ quality, enabled }),
      );
      return new SubscribedCodec({ codec: codec.toLowerCase(), qualities });
    });
    send({
      case: "subscribedQualityUpdate",
      value: new SubscribedQualityUpdate({ trackSid: trackSid(trackId), subscribedCodecs }),
    });
  }

  #delivery(trackId: string, paused: boolean): void {
    if (paused === this.#paused.has(trackId)) return;
    if (paused) this.#paused.add(trackId);
    else this.#paused.delete(trackId);
    const publisher = publisherOf(this.deps.session.room, trackId);
    if (!publisher) return;
    const state = new StreamStateInfo({
      participantSid: participantSid(publisher.id),
      trackSid: trackSid(trackId),
      state: paused ? StreamState.PAUSED : StreamState.ACTIVE,
    });
    this.deps.send({ case: "streamStateUpdate", value: new StreamStateUpdate({ streamStates: [state] }) });
  }
}
