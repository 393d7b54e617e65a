import {
  CreateRoomRequest,
  DataPacket_Kind,
  DeleteRoomRequest,
  DeleteRoomResponse,
  ForwardParticipantRequest,
  ForwardParticipantResponse,
  ListParticipantsRequest,
  ListParticipantsResponse,
  ListRoomsRequest,
  ListRoomsResponse,
  MoveParticipantRequest,
  MoveParticipantResponse,
  MuteRoomTrackRequest,
  MuteRoomTrackResponse,
  ParticipantInfo,
  type ParticipantPermission,
  PerformRpcRequest,
  PerformRpcResponse,
  RemoveParticipantResponse,
  type Room,
  RoomParticipantIdentity,
  SendDataRequest,
  SendDataResponse,
  UpdateParticipantRequest,
  UpdateRoomMetadataRequest,
  UpdateSubscription,
  UpdateSubscriptionsRequest,
  UpdateSubscriptionsResponse,
} from "@livekit/protocol";
import type { ModerationService } from "../../../features/rooms/moderation.service.ts";
import type { RoomService } from "../../../features/rooms/room.service.ts";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import { NEWEST } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { RequestError } from "../../../protocol/data/requests.ts";
import { foreignName } from "../../../protocol/ids.ts";
import { sessionIdOf, trackIdOf } from "../../../protocol/media/livekit-sids.ts";
import type { Permissions } from "../../../protocol/room-records.ts";
import type { RtcSession } from "../../signaling/rtc-session.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import type { Agents } from "../agents/agents.ts";
import type { Forwards } from "../forwarding/forwards.ts";
import type { LivekitSessions } from "../livekit-session.ts";
import { type LivekitDetails, participantInfo, permissionInfo, roomInfo, sourceOf } from "../records.ts";
import { metadataProblem } from "../room-options.ts";
import { type LivekitToken, publishPermissions } from "../tokens.ts";
import { dispatchInto, requestedDispatch } from "./dispatch-service.ts";
import type { NamedRooms } from "./named-rooms.ts";
import {
  defineMethod,
  invalidArgument,
  type Method,
  requireName,
  requireNotSet,
  requireRoomAdmin,
  TwirpError,
} from "./twirp.ts";

type RoomServiceDeps = {
  rooms: RoomService;
  namedRooms: NamedRooms;
  moderation: ModerationService;
  signaling: SignalingCore;
  details: LivekitDetails;
  agents: Agents;
  forwards: Forwards;
  sessionOf: LivekitSessions["of"];
};

const LISTED_ROOMS = 1_000;

/** LiveKit's RoomService. */
export function createRoomService(runtime: Runtime, deps: RoomServiceDeps): Record<string, Method> {
  const { bus, write, timers, now } = runtime;
  const { rooms, namedRooms, moderation, signaling, details, agents, forwards, sessionOf } = deps;
  const { registry } = signaling;

  function requireAdminRoom(
    token: LivekitToken,
    name: string,
  ): { row: RoomRow; ref: Parameters<RoomService["find"]>[0] } {
    requireRoomAdmin(token, name);
    const row = namedRooms.require(token, name);
    const { projectId, environment } = token.key;
    return { row, ref: { projectId, environment, roomId: row.id } };
  }

  function requireParticipant(row: RoomRow, identity: string): RtcSession {
    const session = registry.find(row.id, foreignName(identity) ?? "");
    if (!session) throw new TwirpError("not_found", "participant does not exist");
    return session;
  }

  function requireDestination({ grant }: LivekitToken, destinationRoom: string): string {
    const to = requireName(destinationRoom);
    if (foreignName(grant.destinationRoom) === to) return to;
    throw new TwirpError("permission_denied", `the token has no destinationRoom grant for the room ${to}`);
  }

  const presentRoom = (row: RoomRow): Room => roomInfo(row, registry.room(row.id), details);

  function requireMetadata(metadata: string): void {
    const problem = metadataProblem(metadata);
    if (problem !== null) throw invalidArgument(problem);
  }

  return {
    CreateRoom: defineMethod(CreateRoomRequest, async (token, request) => {
      if (token.grant.roomCreate !== true)
        throw new TwirpError("permission_denied", "the token has no roomCreate grant");
      const { roomPreset, nodeId, tags, egress, minPlayoutDelay, maxPlayoutDelay, syncStreams, replayEnabled } =
        request;
      requireNotSet({ roomPreset, nodeId, tags, egress, minPlayoutDelay, maxPlayoutDelay, syncStreams, replayEnabled });
      requireMetadata(request.metadata);
      const wanted = request.agents.map(requestedDispatch);
      const { row, isNew } = await namedRooms.open(token, request.name, request);
      // A room that exists is returned as it is.
      if (isNew) for (const dispatch of wanted) await dispatchInto(agents, row, dispatch, { alone: true });
      return presentRoom(row);
    }),

    ListRooms: defineMethod(ListRoomsRequest, async (token, { names }) => {
      if (token.grant.roomList !== true) throw new TwirpError("permission_denied", "the token has no roomList grant");
      const { projectId, environment } = token.key;
      const named = new Set(names.flatMap((name) => foreignName(name) ?? []));
      const rows =
        names.length > 0
          ? [...named].flatMap((name) => rooms.findByName(token.key, name) ?? [])
          : rooms.list({ projectId, environment, status: "ACTIVE" }, NEWEST, LISTED_ROOMS);
      return new ListRoomsResponse({ rooms: rows.map(presentRoom) });
    }),

    DeleteRoom: defineMethod(DeleteRoomRequest, async (token, { room: name }) => {
      if (token.grant.roomCreate !== true)
        throw new TwirpError("permission_denied", "the token has no roomCreate grant");
      const { projectId, environment } = token.key;
      const { id: roomId } = namedRooms.require(token, name);
      await write((unit) => void rooms.close(unit, { projectId, environment, roomId }, "closed", token.author));
      return new DeleteRoomResponse();
    }),

    UpdateRoomMetadata: defineMethod(UpdateRoomMetadataRequest, async (token, { room: name, metadata }) => {
      const { ref } = requireAdminRoom(token, name);
      requireMetadata(metadata);
      const stored = metadata === "" ? null : metadata;
      return presentRoom(await write((unit) => rooms.update(unit, ref, { metadata: stored }, token.author)));
    }),

    ListParticipants: defineMethod(ListParticipantsRequest, async (token, { room }) => {
      const { row } = requireAdminRoom(token, room);
      const sessions = [...(registry.room(row.id)?.sessions.values() ?? [])];
      return new ListParticipantsResponse({
        participants: sessions.map((session) => participantInfo(session, details)),
      });
    }),

    GetParticipant: defineMethod(RoomParticipantIdentity, async (token, { room, identity }) =>
      participantInfo(requireParticipant(requireAdminRoom(token, room).row, identity), details),
    ),

    RemoveParticipant: defineMethod(RoomParticipantIdentity, async (token, { room, identity }) => {
      const { row, ref } = requireAdminRoom(token, room);
      const { identity: removed } = requireParticipant(row, identity);
      const validFrom = await moderation.remove(ref, removed, token.author);
      // Waits until the next second, so that tokens signed after this request are valid and tokens signed before are not.
      await new Promise<void>((resolve) => void timers.after(Math.max(0, validFrom - now()), resolve));
      return new RemoveParticipantResponse();
    }),

    MutePublishedTrack: defineMethod(MuteRoomTrackRequest, async (token, { room, identity, trackSid, muted }) => {
      const { row, ref } = requireAdminRoom(token, room);
      const session = requireParticipant(row, identity);
      if (!muted) throw new TwirpError("failed_precondition", "only its publisher can open a track again");
      const trackId = trackIdOf(trackSid);
      await moderation.mute(ref, session.identity, trackId, token.author);
      const track = participantInfo(session, details).tracks.find(({ sid }) => sid === trackSid);
      if (track) track.muted = true;
      return new MuteRoomTrackResponse(track ? { track } : {});
    }),

    UpdateParticipant: defineMethod(UpdateParticipantRequest, async (token, request) => {
      const { row, ref } = requireAdminRoom(token, request.room);
      const session = requireParticipant(row, request.identity);
      const { permission, metadata, name, attributes } = request;
      if (permission) requireUnchanged(permission, permissionInfo(session, details), session);
      const change = {
        ...(permission && { permissions: permissionsFrom(permission) }),
        ...(metadata !== "" && { metadata }),
        ...(name !== "" && { name }),
        attributes,
      };
      await moderation.update(ref, session.identity, change, token.author);
      return new ParticipantInfo({
        ...participantInfo(session, details),
        permission: permissionInfo(session, details),
      });
    }),

    MoveParticipant: defineMethod(MoveParticipantRequest, async (token, { room, identity, destinationRoom }) => {
      const { row, ref } = requireAdminRoom(token, room);
      const session = requireParticipant(row, identity);
      const { row: to } = await namedRooms.open(token, requireDestination(token, destinationRoom));
      await moderation.move(ref, session.identity, to.id, token.author, token.publicUrl);
      return new MoveParticipantResponse();
    }),

    ForwardParticipant: defineMethod(ForwardParticipantRequest, async (token, { room, identity, destinationRoom }) => {
      const { row } = requireAdminRoom(token, room);
      const session = requireParticipant(row, identity);
      const to = requireDestination(token, destinationRoom);
      if (to === row.name) throw invalidArgument("the destination is the room of the participant");
      const known = rooms.findByName(token.key, to);
      if (known && registry.find(known.id, session.identity))
        throw new TwirpError("already_exists", `a participant with this identity is in the room ${to}`);
      const roomId = await forwards.start(session, token.key, to);
      const { projectId, environment, id: resourceId } = row;
      await write((unit) =>
        bus.publish(unit, "audit", {
          ...token.author,
          action: "participant.forwarded",
          projectId,
          environment,
          resourceId,
          metadata: { to: roomId },
          at: now(),
        }),
      );
      return new ForwardParticipantResponse();
    }),

    PerformRpc: defineMethod(PerformRpcRequest, async (token, request) => {
      const { room, destinationIdentity, method, payload, responseTimeoutMs } = request;
      const session = requireParticipant(requireAdminRoom(token, room).row, destinationIdentity);
      if (method === "") throw invalidArgument("method is required");
      const answer = signaling.serverRequests.request(session, method, payload, responseTimeoutMs);
      return new PerformRpcResponse({ payload: await answer.catch(throwTwirp) });
    }),

    UpdateSubscriptions: defineMethod(UpdateSubscriptionsRequest, async (token, request) => {
      const { room, identity, trackSids, participantTracks, subscribe } = request;
      const session = requireParticipant(requireAdminRoom(token, room).row, identity);
      const client = sessionOf(session.id);
      if (!client) throw new TwirpError("failed_precondition", "only LiveKit's clients are subscribed by the server");
      const value = new UpdateSubscription({ trackSids, participantTracks, subscribe });
      client.handle({ case: "subscription", value });
      return new UpdateSubscriptionsResponse();
    }),

    SendData: defineMethod(SendDataRequest, async (token, request) => {
      const { room, data, topic, destinationIdentities, destinationSids, kind, nonce } = request;
      const { row, ref } = requireAdminRoom(token, room);
      const bySid = destinationSids.map((sid) => registry.session(sessionIdOf(sid) ?? ""));
      const present = bySid.flatMap((session) => (session?.room.id === row.id ? session.identity : []));
      const to = [...destinationIdentities.map((identity) => foreignName(identity) ?? ""), ...present];
      // None of the recipients is in the room, and an empty list would mean all participants.
      if (to.length === 0 && destinationSids.length > 0) return new SendDataResponse();
      await moderation.sendBytes(ref, data, {
        lossy: kind === DataPacket_Kind.LOSSY,
        nonce,
        ...(topic !== undefined && topic !== "" && { topic }),
        ...(to.length > 0 && { to }),
      });
      return new SendDataResponse();
    }),
  };
}

const RPC_CODES: Record<number, ConstructorParameters<typeof TwirpError>[0]> = {
  1400: "invalid_argument",
  1402: "malformed",
  1404: "unimplemented",
  1500: "internal",
  1501: "canceled",
  1502: "canceled",
  1503: "unavailable",
  1504: "internal",
  1505: "internal",
};

/** The failure of a request to a participant, as LiveKit's server reports it. */
function throwTwirp(error: unknown): never {
  if (!(error instanceof RequestError)) throw error;
  const { code, message, data } = error;
  throw new TwirpError(RPC_CODES[code] ?? "unknown", `RpcError ${code}: ${message}${data ? `: ${data}` : ""}`);
}

/** Permissions that only a token sets. A caller that repeats what it was told may do so. */
function requireUnchanged(
  { hidden, recorder, agent, canSubscribeMetrics, canManageAgentSession }: ParticipantPermission,
  current: ParticipantPermission,
  { kind }: RtcSession,
): void {
  requireNotSet({
    "permission.hidden": hidden !== current.hidden,
    "permission.recorder": recorder !== current.recorder,
    "permission.agent": agent && kind !== "agent",
    "permission.canSubscribeMetrics": canSubscribeMetrics,
    "permission.canManageAgentSession": canManageAgentSession,
  });
}

function permissionsFrom(permission: ParticipantPermission): Partial<Permissions> {
  const { canSubscribe, canPublish, canPublishData, canUpdateMetadata, canPublishSources } = permission;
  return {
    subscribe: canSubscribe,
    ...publishPermissions(canPublish, canPublishSources.length === 0 ? null : canPublishSources.map(sourceOf)),
    publishData: canPublishData,
    updateMetadata: canUpdateMetadata,
  };
}
