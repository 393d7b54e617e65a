/** Which participants each client is told about. In a large room, only those who publish are announced to everyone and at once. */
import type { Runtime } from "../../kernel/runtime.ts";
import type { Participant } from "../../protocol/room-records.ts";
import { LARGE_ROOM_ABOVE, type LeaveReason, type PushBody, type Roster } from "../../protocol/signaling.ts";
import { type LiveRoom, presentParticipant, type RtcSession } from "./rtc-session.ts";

/** A larger room gives the roster `publishers` to clients that ask for `all`: its list alone would have megabytes. */
const MAX_FULL_ROSTER = 1_000;
const CHANGES_EVERY_MS = 500;
/** The changes in one push; the rest follow in the next. */
const MAX_CHANGES = 200;
/** The approximate characters of the participants in one message: their attributes may have 16 KB each. */
export const ROSTER_CHARACTERS = 65_536;

const isLarge = ({ sessions }: LiveRoom): boolean => sessions.size > LARGE_ROOM_ABOVE;

/** The roster for a participant with whom the room has `size` participants; `asked` is undefined if the client has not chosen one. */
export function rosterFor(asked: Roster | undefined, size: number, isViewer: boolean): Roster {
  const usual = isViewer ? "none" : size > LARGE_ROOM_ABOVE ? "publishers" : "all";
  const roster = asked ?? usual;
  return roster === "all" && size > MAX_FULL_ROSTER ? "publishers" : roster;
}

const knows = (viewer: RtcSession, other: RtcSession): boolean =>
  viewer === other || other.listed || viewer.roster === "all";

/** In a large room, the quality of participants who publish nothing is not sent to others. */
export const learnsQuality = (viewer: RtcSession, of: RtcSession): boolean =>
  viewer === of || (viewer.roster !== "none" && knows(viewer, of) && (of.listed || !isLarge(of.room)));

export const learnsSpeakers = ({ roster, room }: RtcSession): boolean => roster !== "none" || !isLarge(room);

/** The other participants that this one is told about. */
export function othersFor(viewer: RtcSession): RtcSession[] {
  const others: RtcSession[] = [];
  for (const other of viewer.room.sessions.values()) {
    if (other !== viewer && other.announced && knows(viewer, other)) others.push(other);
  }
  return others;
}

/** The participants of a room without hidden ones; `self` counts before it is announced. */
export function participantCount({ sessions }: LiveRoom, self?: RtcSession): number {
  let count = 0;
  for (const session of sessions.values()) if (session.announced || (session === self && !session.hidden)) count += 1;
  return count;
}

type Broadcast = (room: LiveRoom, body: PushBody, reaches: (viewer: RtcSession) => boolean) => void;
/** The changes of participants who publish nothing, by identity, which the next push will contain. */
type Pending = { changed: Map<string, "joined" | "updated">; left: Map<string, LeaveReason> };

export function createRosters({ timers }: Pick<Runtime, "timers">, broadcast: Broadcast) {
  const pendingOf = new Map<LiveRoom, Pending>();

  function pendingFor(room: LiveRoom): Pending {
    const known = pendingOf.get(room);
    if (known) return known;
    const pending: Pending = { changed: new Map(), left: new Map() };
    pendingOf.set(room, pending);
    timers.after(CHANGES_EVERY_MS, () => flush(room, pending));
    return pending;
  }

  /** While changes of a room are pending, later ones queue behind them, even if the room is no longer large. */
  const waits = ({ listed, room }: RtcSession): boolean => !listed && (isLarge(room) || pendingOf.has(room));

  /** A push that is sent at once supersedes what is pending. */
  function supersede({ room, identity }: RtcSession): void {
    const pending = pendingOf.get(room);
    pending?.changed.delete(identity);
    pending?.left.delete(identity);
  }

  function flush(room: LiveRoom, pending: Pending): void {
    const changes = take(room, pending);
    if (pending.changed.size + pending.left.size === 0) pendingOf.delete(room);
    else timers.after(CHANGES_EVERY_MS, () => flush(room, pending));
    if (Object.values(changes).every((list) => list.length === 0)) return;
    const body = { type: "participants.changed" as const, ...changes, count: participantCount(room) };
    broadcast(room, body, ({ roster }) => roster === "all");
  }

  return {
    joined(session: RtcSession): void {
      session.listed ||= session.tracks.size > 0;
      if (waits(session)) return void pendingFor(session.room).changed.set(session.identity, "joined");
      supersede(session);
      const body = { type: "participant.joined" as const, participant: presentParticipant(session) };
      broadcast(session.room, body, (viewer) => viewer !== session && knows(viewer, session));
    },

    updated(session: RtcSession): void {
      const { room, identity } = session;
      if (waits(session)) {
        const { changed } = pendingFor(room);
        changed.set(identity, changed.get(identity) ?? "updated");
        return;
      }
      supersede(session);
      const body = { type: "participant.updated" as const, participant: presentParticipant(session) };
      broadcast(room, body, (viewer) => knows(viewer, session));
    },

    left(session: RtcSession, reason: LeaveReason): void {
      const { room, identity } = session;
      if (waits(session)) {
        const { changed, left } = pendingFor(room);
        changed.delete(identity);
        left.set(identity, reason);
        return;
      }
      supersede(session);
      broadcast(room, { type: "participant.left", identity, reason }, (viewer) => knows(viewer, session));
    },

    /** Before its first track is announced, a participant is announced to those who do not know it. */
    publishes(session: RtcSession): void {
      session.publishes = true;
      if (session.listed || !session.announced) return;
      const wasPending = pendingOf.get(session.room)?.changed.has(session.identity) ?? false;
      const strangers = (viewer: RtcSession) => viewer !== session && (wasPending || !knows(viewer, session));
      supersede(session);
      const body = { type: "participant.joined" as const, participant: presentParticipant(session) };
      broadcast(session.room, body, strangers);
      session.listed = true;
    },
  };
}

/** Removes the oldest changes from `pending`, as many as one push may contain. */
function take({ sessions }: LiveRoom, { changed, left }: Pending) {
  const gone = [...left].slice(0, MAX_CHANGES).map(([identity, reason]) => ({ identity, reason }));
  for (const { identity } of gone) left.delete(identity);
  const records = { joined: [] as Participant[], updated: [] as Participant[] };
  let places = MAX_CHANGES - gone.length;
  let characters = 0;
  // A participant that came back must not be announced before its departure.
  for (const [identity, change] of left.size > 0 ? [] : changed) {
    if (places-- <= 0 || characters > ROSTER_CHARACTERS) break;
    changed.delete(identity);
    const session = sessions.get(identity);
    if (!session?.announced) continue;
    const participant = presentParticipant(session);
    characters += JSON.stringify(participant).length;
    records[change].push(participant);
  }
  return { ...records, left: gone };
}
