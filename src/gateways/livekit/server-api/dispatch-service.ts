import {
  type AgentDispatch,
  CreateAgentDispatchRequest,
  DeleteAgentDispatchRequest,
  ListAgentDispatchRequest,
  ListAgentDispatchResponse,
  type RoomAgentDispatch,
} from "@livekit/protocol";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Agents } from "../agents/agents.ts";
import { type Dispatch, type DispatchRequest, dispatchProblem, presentDispatch } from "../agents/dispatch.ts";
import type { LivekitToken } from "../tokens.ts";
import type { NamedRooms } from "./named-rooms.ts";
import {
  defineMethod,
  invalidArgument,
  type Method,
  requireNotSet,
  requireRoomAdmin,
  type ServerCall,
  TwirpError,
} from "./twirp.ts";

/** The restart policy is ignored: a job that has failed is never started again. */
export function requestedDispatch(request: CreateAgentDispatchRequest | RoomAgentDispatch): DispatchRequest {
  const { agentName, metadata, attributes, deployment } = request;
  requireNotSet({ deployment });
  const wanted = { agentName, metadata, attributes };
  const why = dispatchProblem(wanted);
  if (why !== null) throw invalidArgument(why);
  return wanted;
}

export async function dispatchInto(
  agents: Agents,
  room: RoomRow,
  wanted: DispatchRequest,
  options?: { alone: boolean },
): Promise<Dispatch> {
  const dispatch = await agents.dispatch(room, wanted, options);
  if (!dispatch) throw new TwirpError("resource_exhausted", "the room has as many dispatches as it may have");
  return dispatch;
}

export function createDispatchService(
  { bus, now, write }: Runtime,
  { namedRooms, agents }: { namedRooms: NamedRooms; agents: Agents },
): Record<string, Method> {
  function find(token: LivekitToken, name: string): RoomRow {
    requireRoomAdmin(token, name);
    return namedRooms.require(token, name);
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
      const { room: name } = request;
      requireRoomAdmin(token, name);
      const wanted = requestedDispatch(request);
      const { row: room } = await namedRooms.open(token, name);
      const dispatch = await dispatchInto(agents, room, wanted);
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
