import { type Signal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Ring } from "../sdk/index.ts";
import { Icon } from "./icon.tsx";
import { attempt, changes, type Session } from "./session.ts";

/** The ring that awaits this user's answer. */
export const incoming = signal<Ring | null>(null);

/** The last ring that this user has missed. */
export const missed = signal<Ring | null>(null);

/** Shows incoming rings until they are over. */
export function listenForRings(chat: NonNullable<Session["chat"]>): void {
  chat.on("ringing", (ring) => {
    incoming.value = ring;
    missed.value = null;
    ring.on("over", ({ members }) => {
      if (incoming.value === ring) incoming.value = null;
      if (members.find(({ userId }) => userId === chat.userId)?.status === "MISSED") missed.value = ring;
    });
  });
}

type IncomingProps = { room: string; onAnswer: () => Promise<void> };

export function IncomingRing({ room, onAnswer }: IncomingProps) {
  const ring = incoming.value;
  if (!ring) return missed.value && <MissedRing ring={missed.value} room={room} onJoin={onAnswer} />;
  return (
    <div class="incoming" role="alertdialog" aria-label="Incoming call">
      <p>
        <strong>{ring.record.callerId ?? "The server"}</strong> is calling you to {room}.
      </p>
      <button type="button" class="button primary" onClick={attempt(() => ring.answer().then(onAnswer))}>
        Answer
      </button>
      <button type="button" class="button" onClick={attempt(() => ring.decline())}>
        Decline
      </button>
    </div>
  );
}

type MissedProps = { ring: Ring; room: string; onJoin: () => Promise<void> };

function MissedRing({ ring, room, onJoin }: MissedProps) {
  const dismiss = () => {
    missed.value = null;
  };
  return (
    <div class="incoming missed" role="status" aria-label="Missed">
      <p>
        <strong>{ring.record.callerId ?? "The server"}</strong> called you to {room}.
      </p>
      <button type="button" class="button primary" onClick={attempt(onJoin)}>
        Join now
      </button>
      <button type="button" class="button" onClick={dismiss}>
        Dismiss
      </button>
    </div>
  );
}

const MENU = "ring";

/** Rings members who are not in the call, one at a time, and shows their response. */
export function RingMenu({ session }: { session: Session }) {
  const { conversation } = session;
  const members = useSignal<string[]>([]);
  const ring = useSignal<Ring | null>(null);
  if (!conversation) return null;
  const loadMembers = async () => {
    members.value = (await conversation.members()).filter(({ status }) => status === "ACTIVE").map((one) => one.userId);
  };
  return (
    <>
      <button type="button" class="button control" popovertarget={MENU} title="Ring" onClick={attempt(loadMembers)}>
        <Icon name="ring" />
        <span class="label">Ring</span>
      </button>
      <div id={MENU} class="settings" popover="auto">
        <h2>Ring</h2>
        <AbsentMembers session={session} members={members.value} ring={ring} />
      </div>
    </>
  );
}

type AbsentMembersProps = { session: Session; members: string[]; ring: Signal<Ring | null> };

function AbsentMembers({ session: { room, chat, conversation }, members, ring }: AbsentMembersProps) {
  const present = new Set(changes.value >= 0 ? [room.localParticipant.identity, ...room.participants.keys()] : []);
  const online = new Set(conversation?.presence.map(({ userId }) => userId));
  // A member who was rung stays in the list with the response.
  const responses = new Map(ring.value?.record.members.map(({ userId, status }) => [userId, status]));
  const absent = members.filter((userId) => !present.has(userId) || responses.has(userId));
  const activeRing = ring.value?.status === "RINGING" ? ring.value : null;
  useEffect(() => {
    return ring.value?.on("changed", () => (changes.value += 1));
  }, [ring.value]);
  const start = async (userId: string) => {
    if (chat && conversation) ring.value = await chat.ring(conversation.id, { userIds: [userId] });
  };
  if (absent.length === 0) return <p class="quiet">All members are in the call. You can ring those who leave.</p>;
  return (
    <ul class="away">
      {absent.map((userId) => (
        <li key={userId}>
          <span>
            {userId}
            <small class="quiet" role="status">
              {RESPONSE_TEXTS[responses.get(userId) ?? (online.has(userId) ? "ONLINE" : "OFFLINE")]}
            </small>
          </span>
          {activeRing && responses.get(userId) === "RINGING" ? (
            <button type="button" class="button" onClick={attempt(() => activeRing.cancel())}>
              Cancel
            </button>
          ) : (
            !present.has(userId) && (
              <button
                type="button"
                class="button"
                disabled={activeRing !== null}
                aria-label={`Ring ${userId}`}
                onClick={attempt(() => start(userId))}
              >
                Ring
              </button>
            )
          )}
        </li>
      ))}
    </ul>
  );
}

const RESPONSE_TEXTS = {
  RINGING: "ringing …",
  ANSWERED: "answered",
  DECLINED: "declined",
  MISSED: "did not answer",
  ONLINE: "online",
  OFFLINE: "offline",
};
