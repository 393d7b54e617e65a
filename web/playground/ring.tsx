import { type Signal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Ring } from "../sdk/index.ts";
import { Icon } from "./icon.tsx";
import { attempt, changes, type Session } from "./session.ts";

/** Somebody asks this page into a call. */
export const incoming = signal<Ring | null>(null);

/** Somebody rang, and nobody was at this page. */
export const missed = signal<Ring | null>(null);

/** From now on whoever rings is shown, until they give up or it is answered. */
export function hearRings(chat: NonNullable<Session["chat"]>): void {
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
    <div class="incoming" role="alertdialog" aria-label="Somebody rings">
      <p>
        <strong>{ring.record.callerId ?? "The server"}</strong> rings you into {room}.
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
        <strong>{ring.record.callerId ?? "The server"}</strong> rang you into {room}.
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

/** Rings members who are not in the call, one at a time, and shows what they say. */
export function RingMenu({ session }: { session: Session }) {
  const { conversation } = session;
  const members = useSignal<string[]>([]);
  const ring = useSignal<Ring | null>(null);
  if (!conversation) return null;
  const look = async () => {
    members.value = (await conversation.members()).filter(({ status }) => status === "ACTIVE").map((one) => one.userId);
  };
  return (
    <>
      <button type="button" class="button control" popovertarget={MENU} title="Ring" onClick={attempt(look)}>
        <Icon name="ring" />
        <span class="label">Ring</span>
      </button>
      <div id={MENU} class="settings" popover="auto">
        <h2>Ring</h2>
        <Away session={session} members={members.value} ring={ring} />
      </div>
    </>
  );
}

type AwayProps = { session: Session; members: string[]; ring: Signal<Ring | null> };

function Away({ session: { room, chat, conversation }, members, ring }: AwayProps) {
  const here = new Set(changes.value >= 0 ? [room.localParticipant.identity, ...room.participants.keys()] : []);
  const online = new Set(conversation?.presence.map(({ userId }) => userId));
  // Who was rung stays in the list, with what they said.
  const said = new Map(ring.value?.record.members.map(({ userId, status }) => [userId, status]));
  const away = members.filter((userId) => !here.has(userId) || said.has(userId));
  const going = ring.value?.status === "RINGING" ? ring.value : null;
  useEffect(() => {
    return ring.value?.on("changed", () => (changes.value += 1));
  }, [ring.value]);
  const begin = async (userId: string) => {
    if (chat && conversation) ring.value = await chat.ring(conversation.id, { userIds: [userId] });
  };
  if (away.length === 0)
    return <p class="quiet">Everybody who has been here is in the call. Whoever leaves can be rung.</p>;
  return (
    <ul class="away">
      {away.map((userId) => (
        <li key={userId}>
          <span>
            {userId}
            <small class="quiet" role="status">
              {SAID[said.get(userId) ?? (online.has(userId) ? "ONLINE" : "OFFLINE")]}
            </small>
          </span>
          {going && said.get(userId) === "RINGING" ? (
            <button type="button" class="button" onClick={attempt(() => going.cancel())}>
              Cancel
            </button>
          ) : (
            !here.has(userId) && (
              <button
                type="button"
                class="button"
                disabled={going !== null}
                aria-label={`Ring ${userId}`}
                onClick={attempt(() => begin(userId))}
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

const SAID = {
  RINGING: "ringing …",
  ANSWERED: "answered",
  DECLINED: "declined",
  MISSED: "did not answer",
  ONLINE: "online",
  OFFLINE: "offline",
};
