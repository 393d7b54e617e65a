import type { RoomRow } from "../../features/rooms/room.table.ts";
import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import type { Author } from "../../kernel/author.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { CLOSE_CODES } from "../../protocol/close-codes.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Knock, Permissions } from "../../protocol/room-records.ts";
import type { Membership } from "./membership.ts";
import { Refusal } from "./refusal.ts";
import type { RtcSession, SessionRegistry } from "./rtc-session.ts";

/** What a waiting client learns. */
type Outcome = "admitted" | "denied" | "closed" | "replaced" | "revoked";
type Waiting = { knock: Knock; tokenId: string; end: (outcome: Outcome) => void; cancelExpiry: () => void };

const MAX_WAITING = 100;
const MAX_WAIT_MS = 10 * 60_000;

export type Lobby = ReturnType<typeof createLobby>;

/**
 * The participants who wait to be admitted to rooms with a lobby. They have no session, so they get neither media nor data nor the
 * list of participants.
 */
export function createLobby(
  { bus, log, now, timers, write }: Runtime,
  deps: { registry: SessionRegistry; membership: Membership; rtcTokens: RtcTokenService },
) {
  const { registry, membership, rtcTokens } = deps;
  const rooms = new Map<string, Map<string, Waiting>>();

  const list = (roomId: string): Knock[] => [...(rooms.get(roomId)?.values() ?? [])].map(({ knock }) => knock);

  function notifyHosts(roomId: string): void {
    const hosts = [...(registry.room(roomId)?.sessions.values() ?? [])].filter(({ permissions }) => permissions.host);
    membership.pushToMany(hosts, { type: "lobby.changed", waiting: list(roomId) });
  }

  function remove(roomId: string, identity: string): Waiting | undefined {
    const waiting = rooms.get(roomId);
    const found = waiting?.get(identity);
    if (!waiting || !found) return undefined;
    found.cancelExpiry();
    waiting.delete(identity);
    if (waiting.size === 0) rooms.delete(roomId);
    notifyHosts(roomId);
    return found;
  }

  function endWait(roomId: string, identity: string, outcome: Outcome): boolean {
    const found = remove(roomId, identity);
    found?.end(outcome);
    return found !== undefined;
  }

  function knock({ participantIdentity: identity, tokenId, profile: { name } }: RtcTokenCaller, row: RoomRow): void {
    const { id: roomId, name: roomName, projectId, environment } = row;
    const waiting = rooms.get(roomId) ?? new Map<string, Waiting>();
    if (waiting.has(identity)) return;
    if (waiting.size >= MAX_WAITING) {
      throw new Refusal("LOBBY_FULL", `At most ${MAX_WAITING} participants wait in a lobby.`, CLOSE_CODES.roomFull);
    }
    const at = iso(now());
    const cancelExpiry = timers.after(MAX_WAIT_MS, () => endWait(roomId, identity, "denied"));
    waiting.set(identity, { knock: { identity, name, since: at }, tokenId, end: () => {}, cancelExpiry });
    rooms.set(roomId, waiting);
    notifyHosts(roomId);
    const data = { roomId, roomName, identity, name, at };
    write((unit) =>
      bus.publish(unit, "webhook", { type: "lobby.knocked", projectId, environment, at: now(), data }),
    ).catch((err) => log.error({ err, roomId }, "signaling: webhook of a lobby not saved"));
  }

  bus.on("roomClosed", ({ roomId }) => {
    for (const { identity } of list(roomId)) endWait(roomId, identity, "closed");
  });

  bus.on("participantRemoved", ({ roomId, identity }) => endWait(roomId, identity, "revoked"));
  bus.on("rtcTokenRevoked", ({ roomId, tokenId }) => {
    for (const [identity, one] of [...(rooms.get(roomId) ?? [])])
      if (one.tokenId === tokenId) endWait(roomId, identity, "revoked");
  });

  function audit(action: "participant.admitted" | "participant.denied", row: RoomRow, author: Author) {
    const { id: resourceId, projectId, environment } = row;
    return { ...author, action, projectId, environment, resourceId, metadata: {}, at: now() };
  }

  return {
    list,
    isWaiting: (roomId: string, identity: string): boolean => rooms.get(roomId)?.has(identity) ?? false,

    /** Throws for a participant that may not join now: a room with a lobby lets it wait, a locked room does not. */
    check(caller: RtcTokenCaller, row: RoomRow, { host, admit }: Permissions): void {
      const { participantIdentity: identity, hidden, profile } = caller;
      // Hidden participants and agents come from the backend, so they need no admission.
      const isAdmitted = host || admit || hidden || profile.kind === "agent";
      if (isAdmitted || registry.find(row.id, identity)) return;
      if (row.locked) throw new Refusal("ROOM_LOCKED", "A host has locked the room.", CLOSE_CODES.forbidden);
      if (!row.lobby) return;
      knock(caller, row);
      throw new Refusal("IN_LOBBY", "Wait until a host admits you, then join again.", CLOSE_CODES.forbidden);
    },

    /** Calls `end` once the wait is over. Returns a function that gives up the wait. */
    wait(roomId: string, identity: string, end: (outcome: Outcome) => void): () => void {
      const waiting = rooms.get(roomId)?.get(identity);
      if (!waiting) return () => {};
      const previous = waiting.end;
      waiting.end = end;
      // A second wait of the same participant replaces the first, so that waiting sockets cannot pile up.
      if (previous !== end) previous("replaced");
      return () => {
        // The participant may wait on another socket by now.
        if (rooms.get(roomId)?.get(identity)?.end === end) remove(roomId, identity);
      };
    },

    async admit(row: RoomRow, identity: string, author: Author): Promise<void> {
      await write((unit) => {
        rtcTokens.changePermissions(unit, row.id, identity, { admit: true });
        bus.publish(unit, "audit", audit("participant.admitted", row, author));
      });
      endWait(row.id, identity, "admitted");
    },

    async deny(row: RoomRow, identity: string, author: Author): Promise<void> {
      if (!endWait(row.id, identity, "denied")) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
      await write((unit) => bus.publish(unit, "audit", audit("participant.denied", row, author)));
    },

    /** Called when the room has no lobby any more. */
    open(roomId: string): void {
      for (const { identity } of list(roomId)) endWait(roomId, identity, "admitted");
    },

    /** The waiting participants that a host is told about when it joins. */
    visibleTo: ({ room, permissions }: RtcSession): Knock[] | undefined =>
      permissions.host ? list(room.id) : undefined,
  };
}
