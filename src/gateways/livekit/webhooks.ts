import {
  type TrackInfo as LivekitTrack,
  ParticipantInfo,
  ParticipantInfo_State,
  Room,
  TrackInfo,
  WebhookEvent,
} from "@livekit/protocol";
import type { RoomService } from "../../features/rooms/room.service.ts";
import type { CallProgress, RtcConnectionEvent } from "../../features/sessions/events.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { participantSid, roomSid, trackSid } from "../../protocol/media/livekit-sids.ts";
import type { LivekitEventType } from "../../protocol/webhook-events.ts";
import type { SignalingCore } from "../signaling/signaling.ts";
import type { Ingresses } from "./ingress/ingresses.ts";
import { KINDS, LEAVE_REASONS, type LivekitDetails, participantInfo, roomInfo, seconds, trackInfo } from "./records.ts";
import { egressInfo } from "./server-api/egress-info.ts";
import { ingressInfo } from "./server-api/ingress-service.ts";

export type WebhookDeps = {
  rooms: RoomService;
  signaling: SignalingCore;
  details: LivekitDetails;
  ingresses: Ingresses;
  /** Whether the project and environment have an endpoint in LiveKit's format. Only then events are created. */
  hasLivekitEndpoint: (tenant: Tenant) => boolean;
  /** Whether the stored history of the room has a call that has not ended. */
  hasOpenCall: (roomId: string) => boolean;
};

type Content = Partial<Pick<WebhookEvent, "room" | "participant" | "track" | "egressInfo" | "ingressInfo">>;
type Subject = Tenant & { roomId: string; at: number };
type Left = Extract<CallProgress, { type: "left" }>;

/** Publishes webhook events in LiveKit's format, in the transactions that record rooms and calls. */
export function publishWebhooks({ bus, log, now, write }: Runtime, deps: WebhookDeps): void {
  const { rooms, signaling, details, ingresses, hasLivekitEndpoint, hasOpenCall } = deps;
  const { registry } = signaling;
  /** The published tracks of every session, because LiveKit reports the end of each before its participant leaves. */
  const tracks = new Map<string, Map<string, LivekitTrack>>();

  function publish(unit: Unit, subject: Subject, event: LivekitEventType, content: Content): void {
    const { projectId, environment, roomId, at } = subject;
    bus.publish(unit, "livekitWebhook", {
      projectId,
      environment,
      at,
      type: event,
      orderKey: roomId,
      body: (id) => new WebhookEvent({ event, id, createdAt: seconds(at), ...content }).toJsonString(),
    });
  }

  function roomOf(roomId: string): Room {
    const row = rooms.byId(roomId);
    return row ? roomInfo(row, registry.room(roomId), details) : new Room({ sid: roomSid(roomId) });
  }

  function joined({ sessionId, participantIdentity: identity }: RtcConnectionEvent): ParticipantInfo {
    const session = registry.session(sessionId);
    return session
      ? participantInfo(session, details)
      : new ParticipantInfo({ sid: participantSid(sessionId), identity });
  }

  function departed({ sessionId, identity, joinedAt, reason, connection }: Left): ParticipantInfo {
    return new ParticipantInfo({
      sid: participantSid(sessionId),
      identity,
      state: ParticipantInfo_State.DISCONNECTED,
      joinedAt: seconds(joinedAt),
      joinedAtMs: BigInt(joinedAt),
      disconnectReason: LEAVE_REASONS[reason],
      ...(connection && {
        name: connection.participantName ?? "",
        metadata: connection.metadata ?? "",
        attributes: connection.participantAttributes,
        kind: KINDS[connection.participantKind],
      }),
    });
  }

  const finished = (unit: Unit, subject: Subject) =>
    publish(unit, subject, "room_finished", { room: roomOf(subject.roomId) });

  bus.inTransaction("roomCreated", (unit, row) => {
    if (!hasLivekitEndpoint(row)) return;
    publish(unit, { ...row, roomId: row.id, at: row.createdAt }, "room_started", {
      room: roomInfo(row, undefined, details),
    });
  });
  // While a call continues, the participants of a closed room leave first, and then the room is finished.
  bus.inTransaction("roomClosed", (unit, { roomId, ...tenant }) => {
    if (!hasLivekitEndpoint(tenant) || registry.room(roomId) || hasOpenCall(roomId)) return;
    finished(unit, { ...tenant, roomId, at: now() });
  });
  bus.inTransaction("egressChanged", (unit, { type, row }) => {
    if (!hasLivekitEndpoint(row)) return;
    publish(unit, { ...row, at: row.updatedAt }, `egress_${type}`, { egressInfo: egressInfo(row) });
  });
  bus.inTransaction("ingressChanged", (unit, { type, row }) => {
    if (!hasLivekitEndpoint(row)) return;
    const subject = { ...row, roomId: row.roomId ?? row.id, at: row.updatedAt };
    publish(unit, subject, `ingress_${type}`, { ingressInfo: ingressInfo(ingresses, row, null) });
  });
  bus.inTransaction("callProgress", (unit, event) => {
    if (!hasLivekitEndpoint(event)) return;
    const room = roomOf(event.roomId);
    if (event.type === "connected") {
      publish(unit, event, "participant_joined", { room, participant: joined(event.connection) });
    } else if (event.type === "left") {
      const type = event.connectedAt === null ? "participant_connection_aborted" : "participant_left";
      publish(unit, event, type, { room, participant: departed(event) });
    } else if (rooms.byId(event.roomId)?.status === "CLOSED") finished(unit, event);
  });

  function saveTrack(event: RtcConnectionEvent, type: LivekitEventType, track: LivekitTrack): void {
    const { sessionId, participantIdentity: identity, roomId, roomName: name } = event;
    const room = new Room({ sid: roomSid(roomId), name });
    const participant = new ParticipantInfo({ sid: participantSid(sessionId), identity });
    write((unit) => publish(unit, event, type, { room, participant, track })).catch((err) =>
      log.error({ err }, "livekit: webhook event of a track not saved"),
    );
  }

  // Without a list of types the listener runs before the one that records the departure of the participant.
  bus.on("rtcConnection", (event) => {
    if (event.type !== "left") return;
    const known = tracks.get(event.sessionId);
    tracks.delete(event.sessionId);
    if (event.mediaKept) return;
    for (const track of known?.values() ?? []) saveTrack(event, "track_unpublished", track);
  });
  bus.on("rtcConnection", ["trackPublished", "trackUnpublished"], (event) => {
    const { sessionId } = event;
    const known = tracks.get(sessionId) ?? new Map<string, LivekitTrack>();
    if (event.type === "trackUnpublished") {
      const track = known.get(event.trackId) ?? new TrackInfo({ sid: trackSid(event.trackId) });
      known.delete(event.trackId);
      if (hasLivekitEndpoint(event)) saveTrack(event, "track_unpublished", track);
    } else if (hasLivekitEndpoint(event)) {
      const track = trackInfo(event.track, details.track(event.track.id));
      tracks.set(sessionId, known.set(event.track.id, track));
      saveTrack(event, "track_published", track);
    }
  });
}
