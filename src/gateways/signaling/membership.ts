import type { Moved } from "../../features/rooms/live-rooms.ts";
import type { RtcConnectionChange } from "../../features/sessions/events.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Socket } from "../../kernel/socket/sockets.ts";
import type { Placements } from "../../nodes/placement.ts";
import { CLOSE_CODES, type CloseCode } from "../../protocol/close-codes.ts";
import type { LeaveReason, PushBody } from "../../protocol/signaling.ts";
import { createRosters } from "./rosters.ts";
import { type LiveRoom, type RtcSession, type SessionRegistry, visibleWhileWaiting } from "./rtc-session.ts";
import { addToNode } from "./session-record.ts";

export const RESUME_WINDOW_SECONDS = 20;
/** A participant without media is announced after this time. */
const ANNOUNCE_AFTER_MS = 5_000;
/** A socket with more unsent bytes is closed; its client reconnects and resumes. */
const SLOW_READER_BYTES = 1024 * 1024;

/**
 * Close codes of a client that ended its socket itself, as a browser does for a page that is closed. A participant that
 * does not reconnect after one of these has left; after any other close the network may have failed.
 */
const GOODBYES: ReadonlySet<number> = new Set([1000, 1001, 1005]);

type DismissReason = Exclude<LeaveReason, "left" | "timeout" | "failed">;

export const ENDINGS: Record<DismissReason, { closeCode: CloseCode; action: "stop" | "rejoin" }> = {
  replaced: { closeCode: CLOSE_CODES.replaced, action: "stop" },
  removed: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
  revoked: { closeCode: CLOSE_CODES.unauthorized, action: "stop" },
  room_closed: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
  stream_ended: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
  node_lost: { closeCode: CLOSE_CODES.restart, action: "rejoin" },
  restart: { closeCode: CLOSE_CODES.restart, action: "rejoin" },
  moved: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
};
/** Clients would otherwise rejoin at once and exceed the rate limit of their IP address. */
const REJOIN_SPREAD_MS = 2_000;

export type Membership = ReturnType<typeof createMembership>;

/** The life of a session in its room: announcing, pushing, resuming and leaving. */
export function createMembership(
  runtime: Runtime,
  { registry, placements }: { registry: SessionRegistry; placements: Pick<Placements, "release"> },
) {
  const { bus, keyring, now, timers, log } = runtime;

  function emitChange(session: RtcSession, event: RtcConnectionChange): void {
    const { room, client } = session;
    bus.emit("rtcConnection", {
      sessionId: session.id,
      connectionId: session.connectionId,
      projectId: room.projectId,
      environment: room.environment,
      roomId: room.id,
      roomName: room.name,
      participantIdentity: session.identity,
      metadata: session.metadata,
      participantName: session.name,
      participantAttributes: session.attributes,
      participantKind: session.kind,
      tokenId: session.tokenId,
      serverName: session.site.serverName,
      sdk: client.sdk,
      userAgent: client.userAgent,
      ipAddress: client.ipAddress,
      startedAt: client.openedAt,
      at: now(),
      ...event,
    });
  }

  function started(session: RtcSession, mode: "new" | "replaced"): void {
    emitChange(session, { type: "started", mode });
    if (session.room.record) bus.emit("recordedRoomEntered", { roomId: session.room.id });
  }

  function deliver(session: RtcSession, body: string): void {
    const frame = session.pushes.add(body);
    const { link } = session;
    if (link.state !== "attached") return;
    link.socket.send(frame);
    if (link.socket.bufferedBytes > SLOW_READER_BYTES) {
      const { socket } = link;
      detach(session, socket);
      socket.close(1013, "too slow");
    }
  }

  const push = (session: RtcSession, body: PushBody) => deliver(session, JSON.stringify(body));

  function pushToMany(sessions: Iterable<RtcSession>, body: PushBody): void {
    const text = JSON.stringify(body);
    for (const session of sessions) deliver(session, text);
  }

  function broadcast(room: LiveRoom, body: PushBody, reaches: (viewer: RtcSession) => boolean = () => true): void {
    let text: string | undefined;
    let waitingText: string | null | undefined;
    for (const session of room.sessions.values()) {
      if (!reaches(session)) continue;
      text ??= JSON.stringify(body);
      if (session.waiting && waitingText === undefined) {
        const part = visibleWhileWaiting(body);
        waitingText = part && JSON.stringify(part);
      }
      const visible = session.waiting ? (waitingText ?? null) : text;
      if (visible !== null) deliver(session, visible);
    }
  }

  const rosters = createRosters(runtime, broadcast);

  function announce(session: RtcSession): void {
    session.cancelAnnouncement();
    if (session.announced || session.hidden || session.link.state === "left") return;
    session.announced = true;
    rosters.joined(session);
  }

  function update(session: RtcSession): void {
    saveToNode(session);
    bus.emit("participantUpdated", { sessionId: session.id });
    if (!session.announced || session.link.state === "left") return;
    rosters.updated(session);
  }

  /** A remote node keeps the session's record, from which a restarted process restores the session. */
  function saveToNode(session: RtcSession): void {
    const { link, room, site } = session;
    if (link.state === "left" || !site.node.remote) return;
    addToNode(keyring, session).catch((err) => {
      log.warn({ err, roomId: room.id }, "signaling: media node did not save the participant");
    });
  }

  function awaitResume(session: RtcSession, reason: "left" | "timeout" = "timeout"): void {
    const cancelExpiry = timers.after(RESUME_WINDOW_SECONDS * 1000, () => leave(session, reason));
    session.link = { state: "detached", cancelExpiry };
  }

  function detach(session: RtcSession, socket: Socket, closeCode?: number): void {
    if (session.link.state !== "attached" || session.link.socket !== socket) return;
    awaitResume(session, closeCode !== undefined && GOODBYES.has(closeCode) ? "left" : "timeout");
    emitChange(session, { type: "reconnecting", path: "signaling", reason: "socket_closed" });
  }

  /**
   * Ends a session. With `quietly` the room is not notified, because all participants leave or another session replaces
   * this one. With `keepMedia` this process stops, and the next one finds the call on its node.
   */
  function leave(session: RtcSession, cause: LeaveReason, { quietly = false, keepMedia = false } = {}): void {
    const { link, room, site } = session;
    if (link.state === "left") return;
    const reason = session.moved && cause === "left" ? "moved" : cause;
    if (link.state === "detached") link.cancelExpiry();
    session.cancelAnnouncement();
    session.link = { state: "left", reason };
    session.resumeToken = "";
    registry.remove(session);
    emitChange(session, { type: "left", reason, ...(keepMedia ? { mediaKept: true } : {}) });
    if (keepMedia) return;
    site.node.removeParticipant({ roomId: room.id, participantId: session.id }).catch((err) => {
      log.warn({ err, roomId: room.id }, "signaling: media node did not remove the participant");
    });
    if (session.announced && !quietly) rosters.left(session, reason);
    releaseIfEmpty(room);
  }

  /** Releases a room without participants on all of its nodes, and a room with some on the nodes that have none of them. */
  function releaseIfEmpty(room: LiveRoom): void {
    const isEmpty = registry.removeRoomIfEmpty(room);
    if (!isEmpty && (room.sites.size < 2 || room.pending > 0)) return;
    const sessions = [...room.sessions.values()];
    for (const site of [...room.sites.values()])
      if (!sessions.some((session) => session.site.serverName === site.serverName)) placements.release(room, site);
  }

  /** Sends the client the reason and whether to reconnect, ends the session and closes the socket. */
  function dismiss(
    session: RtcSession,
    reason: DismissReason,
    options?: { quietly: boolean; keepMedia?: boolean },
  ): void {
    const { link } = session;
    const { closeCode, action: usual } = ENDINGS[reason];
    const action = options?.keepMedia ? "resume" : usual;
    const retryAfterMs = action !== "stop" ? Math.floor(Math.random() * REJOIN_SPREAD_MS) : undefined;
    push(session, { type: "bye", reason, action, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
    leave(session, reason, options);
    if (link.state === "attached") link.socket.close(closeCode, reason);
  }

  async function release(session: RtcSession): Promise<void> {
    const { room, permissions } = session;
    try {
      await session.site.node.setPermissions({ roomId: room.id, participantId: session.id, permissions });
    } catch (err) {
      log.warn({ err, roomId: room.id }, "signaling: media node did not let a viewer subscribe");
    }
    session.waiting = false;
    for (const { identity, tracks } of room.sessions.values()) {
      if (identity === session.identity) continue;
      for (const track of tracks.values()) push(session, { type: "track.published", identity, track });
    }
  }

  /** A client that does not follow in time is dismissed, because its backend wants it out of this room. */
  function move(session: RtcSession, to: Moved): void {
    session.moved = true;
    push(session, { type: "room.moved", ...to });
    timers.after(RESUME_WINDOW_SECONDS * 1000, () => {
      if (session.link.state !== "left") dismiss(session, "moved");
    });
  }

  return {
    since: (at: number) => now() - at,
    emitChange,
    started,
    push,
    pushToMany,
    broadcast,
    announce,
    publishes: rosters.publishes,
    update,
    awaitResume,
    saveToNode,
    detach,
    leave,
    dismiss,
    move,
    releaseIfEmpty,

    /** With `keepMedia`, the media node of this process outlives its signaling, as a remote node does. */
    dismissAll(room: LiveRoom, reason: DismissReason, { keepMedia: keepsOwn = false } = {}): void {
      for (const session of [...room.sessions.values()]) {
        const keepMedia = reason === "restart" && (keepsOwn || session.site.node.remote !== undefined);
        dismiss(session, reason, { quietly: true, keepMedia });
      }
    },

    /** Makes the participants on that node join again on another one. */
    moveAway(roomId: string, serverName: string): void {
      for (const session of [...(registry.room(roomId)?.sessions.values() ?? [])])
        if (session.site.serverName === serverName) dismiss(session, "node_lost");
    },

    /** Pushes go to this socket from now on; an older socket of the session is closed. */
    attach(session: RtcSession, socket: Socket): void {
      const { link } = session;
      if (link.state === "detached") link.cancelExpiry();
      session.link = { state: "attached", socket };
      if (link.state === "attached") link.socket.close(CLOSE_CODES.replaced, "replaced");
    },

    /** The live stream starts: its waiting viewers are notified of the tracks as if they were published now. */
    releaseWaiting(room: LiveRoom): void {
      for (const session of room.sessions.values()) if (session.waiting) void release(session);
    },

    /** Announces a participant that sends no offer in time; others are announced when their media connects. */
    awaitAnnouncement(session: RtcSession): void {
      session.cancelAnnouncement = timers.after(ANNOUNCE_AFTER_MS, () => {
        if (!session.wantsMedia) announce(session);
      });
    },
  };
}
