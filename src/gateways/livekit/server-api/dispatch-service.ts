import {
  type AgentDispatch,
  CreateAgentDispatchRequest,
  DeleteAgentDispatchRequest,
  ListAgentDispatchRequest,
  ListAgentDispatchResponse,
} from "@livekit/protocol";
import type { RoomService } from "../../../features/rooms/room.service.ts";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { foreignName } from "../../../protocol/ids.ts";
import type { Agents } from "../agents/agents.ts";
import { type Dispatch, type DispatchRequest, dispatchProblem, presentDispatch } from "../agents/dispatch.ts";
import { roomOptionsOf } from "../room-options.ts";
import type { LivekitToken } from "../tokens.ts";
import {
  defineMethod,
  invalidArgument,
  type Method,
  requireName,
  requireRoomAdmin,
  type ServerCall,
  TwirpError,
} from "./twirp.ts";

export async function dispatchInto(
  agents: Agents,
  room: RoomRow,
  wanted: DispatchRequest,
  options?: { alone: boolean },
): Promise<Dispatch> {
  const why = dispatchProblem(wanted);
  if (why !== null) throw invalidArgument(why);
  const dispatch = await agents.dispatch(room, wanted, options);
  if (!dispatch) throw new TwirpError("resource_exhausted", "the room has as many dispatches as it may have");
  return dispatch;
}

export function createDispatchService(
  { bus, now, write }: Runtime,
  { rooms, agents }: { rooms: RoomService; agents: Agents },
): Record<string, Method> {
  function find(token: LivekitToken, name: string): RoomRow {
    requireRoomAdmin(token, name);
    const row = rooms.findByName(token.key, foreignName(name) ?? "");
    if (!row) throw new TwirpError("not_found", "requested room does not exist");
    return row;
  }

  const audit = (
    { author }: ServerCall,
    action: "room.agent_dispatched" | "room.agent_withdrawn",
    { id: resourceId, projectId, environment }: RoomRow,
    { id: dispatchId, agentName }: Dispatch,
  ): Promise<void> => {
    const entry = { action, projectId, environment, resourceId, metadata: { dispatchId, agentName }, at: now() };
    return write((unit) => bus.publish(unit, "audit", { ...author, ...entry }));
  };

  return {
    CreateDispatch: defineMethod(CreateAgentDispatchRequest, async (token, request): Promise<AgentDispatch> => {
      const { room: name, agentName, metadata, attributes } = request;
      requireRoomAdmin(token, name);
      const roomName = requireName(name);
      const known = rooms.findByName(token.key, roomName);
      const room =
        known ?? (await write((unit) => rooms.create(unit, token.key, { name: roomName, ...roomOptionsOf({}) })));
      const dispatch = await dispatchInto(agents, room, { agentName, metadata, attributes });
      await audit(token, "room.agent_dispatched", room, dispatch);
      return presentDispatch(dispatch, name);
    }),

    DeleteDispatch: defineMethod(DeleteAgentDispatchRequest, async (token, { room, dispatchId }) => {
      const row = find(token, room);
      const dispatch = agents.withdraw(row.id, dispatchId);
      if (!dispatch) throw new TwirpError("not_found", "dispatch ID not found");
      await audit(token, "room.agent_withdrawn", row, dispatch);
      return presentDispatch(dispatch, room);
    }),

    ListDispatch: defineMethod(ListAgentDispatchRequest, async (token, { room, dispatchId }) => {
      const all = agents.dispatchesIn(find(token, room));
      const wanted = all.filter(({ id }) => dispatchId === "" || id === dispatchId);
      return new ListAgentDispatchResponse({ agentDispatches: wanted.map((one) => presentDispatch(one, room)) });
    }),
  };
}
