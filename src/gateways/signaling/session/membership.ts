import type { RtcConnectionChange } from "../../../features/sessions/events.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Socket } from "../../../kernel/socket/sockets.ts";
import type { Placements } from "../../../nodes/placement.ts";
import { CLOSE_CODES, type CloseCode } from "../../../protocol/close-codes.ts";
import type { LeaveReason, PushBody } from "../../../protocol/signaling.ts";
import type { Registry } from "./registry.ts";
import { type LiveRoom, participantOf, type RtcSession } from "./rtc-session.ts";
import { addToNode } from "./session-record.ts";
import { shownWhileWaiting } from "./waiting-viewer.ts";

export const RESUME_WINDOW_SECONDS = 20;
/** A participant who wants no media counts as joined after this. */
const ANNOUNCE_AFTER_MS = 5_000;
/** A reader further behind than this is cut off; it comes back and resumes. */
const SLOW_READER_BYTES = 1024 * 1024;

/** Reasons for which the server itself ends a session. */
type DismissReason = Exclude<LeaveReason, "left" | "timeout" | "failed">;

export const ENDINGS: Record<DismissReason, { closeCode: CloseCode; action: "stop" | "rejoin" }> = {
  replaced: { closeCode: CLOSE_CODES.replaced, action: "stop" },
  removed: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
  revoked: { closeCode: CLOSE_CODES.unauthorized, action: "stop" },
  room_closed: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
  stream_ended: { closeCode: CLOSE_CODES.roomClosed, action: "stop" },
  node_lost: { closeCode: CLOSE_CODES.restart, action: "rejoin" },
  restart: { closeCode: CLOSE_CODES.restart, action: "rejoin" },
};
/** Everyone rejoins at once otherwise, and the budget per address is small. */
const REJOIN_SPREAD_MS = 2_000;

export type Membership = ReturnType<typeof createMembership>;

/** Being in a room: who hears of whom, who is kept for how long, and how it ends. */
export function createMembership(
  { bus, keyring, now, timers, log }: Runtime,
  { registry, placements }: { registry: Registry; placements: Placements },
) {
  function tell(session: RtcSession, event: RtcConnectionChange): void {
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
      serverName: room.placed?.serverName ?? null,
      sdk: client.sdk,
      userAgent: client.userAgent,
      ipAddress: client.ipAddress,
      startedAt: client.openedAt,
      at: now(),
      ...event,
    });
  }

  /** In the room from now on. */
  function started(session: RtcSession, mode: "new" | "replaced"): void {
    tell(session, { type: "started", mode });
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

  /** The same for some: written out once. */
  function pushToSome(sessions: Iterable<RtcSession>, body: PushBody): void {
    const text = JSON.stringify(body);
    for (const session of sessions) deliver(session, text);
  }

  function broadcast(room: LiveRoom, body: PushBody, except?: RtcSession): void {
    const text = JSON.stringify(body);
    let waitingText: string | null | undefined;
    for (const session of room.sessions.values()) {
      if (session === except) continue;
      if (session.waiting && waitingText === undefined) {
        const part = shownWhileWaiting(body);
        waitingText = part && JSON.stringify(part);
      }
      const heard = session.waiting ? (waitingText ?? null) : text;
      if (heard !== null) deliver(session, heard);
    }
  }

  function announce(session: RtcSession): void {
    session.cancelAnnouncement();
    if (session.announced || session.hidden || session.link.state === "left") return;
    session.announced = true;
    broadcast(session.room, { type: "participant.joined", participant: participantOf(session) }, session);
  }

  /** What others see of a participant has changed. */
  function update(session: RtcSession): void {
    remember(session);
    if (!session.announced || session.link.state === "left") return;
    broadcast(session.room, { type: "participant.updated", participant: participantOf(session) });
  }

  /** A node on another machine knows who is there for the day that this process starts anew. */
  function remember(session: RtcSession): void {
    const { link, room } = session;
    if (link.state === "left" || !room.placed?.node.remote) return;
    addToNode(keyring, session, room.placed).catch((err) => {
      log.warn({ err, roomId: room.id }, "media node did not note the participant");
    });
  }

  function awaitReturn(session: RtcSession): void {
    const cancelExpiry = timers.after(RESUME_WINDOW_SECONDS * 1000, () => leave(session, "timeout"));
    session.link = { state: "detached", cancelExpiry };
  }

  function detach(session: RtcSession, socket: Socket): void {
    if (session.link.state !== "attached" || session.link.socket !== socket) return;
    awaitReturn(session);
    tell(session, { type: "reconnecting", path: "signaling", reason: "socket_closed" });
  }

  /**
   * The end of a session. `quietly`: nobody is told, because everyone goes, or because another takes its place.
   * `keepMedia`: it is this process that goes; the next one finds the call where it is.
   */
  function leave(session: RtcSession, reason: LeaveReason, { quietly = false, keepMedia = false } = {}): void {
    const { link, room } = session;
    if (link.state === "left") return;
    if (link.state === "detached") link.cancelExpiry();
    session.cancelAnnouncement();
    session.link = { state: "left", reason };
    session.resumeToken = "";
    registry.remove(session);
    tell(session, { type: "left", reason, ...(keepMedia ? { mediaKept: true } : {}) });
    if (keepMedia) return;
    room.placed?.node.removeParticipant({ roomId: room.id, participantId: session.id }).catch((err) => {
      log.warn({ err, roomId: room.id }, "media node did not remove the participant");
    });
    if (session.announced && !quietly) {
      broadcast(room, { type: "participant.left", identity: session.identity, reason });
    }
    abandonIfEmpty(room);
  }

  function abandonIfEmpty(room: LiveRoom): void {
    if (registry.removeRoomIfEmpty(room) && room.placed) placements.release(room.id, room.placed);
  }

  /** Tells the client why and what to do, ends the session, and closes the socket. */
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

  return {
    since: (at: number) => now() - at,
    tell,
    started,
    push,
    pushToSome,
    broadcast,
    announce,
    update,
    awaitReturn,
    remember,
    detach,
    leave,
    dismiss,
    abandonIfEmpty,

    dismissAll(room: LiveRoom, reason: DismissReason): void {
      const keepMedia = reason === "restart" && room.placed?.node.remote !== undefined;
      for (const session of [...room.sessions.values()]) dismiss(session, reason, { quietly: true, keepMedia });
    },

    /** From here on pushes go to this socket; an older one of the same session is closed. */
    attach(session: RtcSession, socket: Socket): void {
      const { link } = session;
      if (link.state === "detached") link.cancelExpiry();
      session.link = { state: "attached", socket };
      if (link.state === "attached") link.socket.close(CLOSE_CODES.replaced, "replaced");
    },

    /** Counts as joined once media flows, or when none was wanted for a while. */
    awaitAnnouncement(session: RtcSession): void {
      session.cancelAnnouncement = timers.after(ANNOUNCE_AFTER_MS, () => {
        if (!session.wantsMedia) announce(session);
      });
    },
  };
}
