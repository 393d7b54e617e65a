import { useCallback, useRef, useState } from "react";
import type { DataMessage, Room } from "../../sdk/index.ts";
import { useRoom } from "../context.tsx";
import { useSnapshot } from "../external-store.ts";
import { onProfiles, useData } from "../room-hooks.ts";

const HAND = "stoa.hand";
const REACTION = "stoa.reaction";
const REACTION_MS = 4_000;
export const EMOJIS = ["👍", "👏", "❤️", "😂", "😮", "🎉"] as const;

export type Reaction = { id: number; identity: string; emoji: string };

/** The identities of those who have raised a hand, in the order of the server's times, which is the same for everyone. */
export function raisedHands(
  participants: Iterable<{ identity: string; attributes: Readonly<Record<string, string>> }>,
): readonly string[] {
  return [...participants]
    .flatMap(({ identity, attributes }) => (attributes[HAND] ? [{ identity, at: Number(attributes[HAND]) }] : []))
    .sort((one, other) => one.at - other.at)
    .map(({ identity }) => identity);
}

const handsOf = (room: Room | null) =>
  room ? raisedHands([room.localParticipant, ...room.participants.values()]) : [];

/** Raised hands, which the server keeps for those who join later, and reactions, which are data messages. */
export function useSignals() {
  const { room } = useRoom();
  const hands = useSnapshot(room, onProfiles, handsOf);
  const [reactions, setReactions] = useState<readonly Reaction[]>([]);
  const nextId = useRef(1);

  const showReaction = useCallback((identity: string, emoji: string) => {
    const id = nextId.current++;
    setReactions((known) => [...known.slice(-4), { id, identity, emoji }]);
    setTimeout(() => setReactions((known) => known.filter((one) => one.id !== id)), REACTION_MS);
  }, []);

  useData(
    useCallback(
      ({ from, topic, payload }: DataMessage) => {
        if (from === null) return;
        if (topic === REACTION && (EMOJIS as readonly string[]).includes(payload)) showReaction(from, payload);
      },
      [showReaction],
    ),
  );

  const raise = (up: boolean) => {
    room?.localParticipant.setAttributes({ [HAND]: up ? "up" : "" }).catch(() => {});
  };
  const react = (emoji: string) => {
    if (!room) return;
    showReaction(room.localParticipant.identity, emoji);
    room.sendData(emoji, { topic: REACTION }).catch(() => {});
  };
  return { hands, reactions, raised: room !== null && hands.includes(room.localParticipant.identity), raise, react };
}
