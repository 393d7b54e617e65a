import { useCallback, useEffect, useRef, useState } from "react";
import type { DataMessage } from "../../sdk/index.ts";
import { useRoom } from "../context.tsx";
import { useData } from "../room-hooks.ts";

const HAND = "stoa.hand";
const REACTION = "stoa.reaction";
const REACTION_MS = 4_000;
export const EMOJIS = ["👍", "👏", "❤️", "😂", "😮", "🎉"] as const;

export type Reaction = { id: number; identity: string; emoji: string };

/**
 * Raised hands and reactions, sent as data messages. The server stores none of them: a participant with a raised hand
 * sends it again to each participant that joins later.
 */
export function useSignals() {
  const { room } = useRoom();
  const [hands, setHands] = useState<readonly string[]>([]);
  const [reactions, setReactions] = useState<readonly Reaction[]>([]);
  const [raised, setRaised] = useState(false);
  const nextId = useRef(1);

  const showHand = useCallback((identity: string, up: boolean) => {
    setHands((known) =>
      up ? [...known.filter((one) => one !== identity), identity] : known.filter((one) => one !== identity),
    );
  }, []);
  const showReaction = useCallback((identity: string, emoji: string) => {
    const id = nextId.current++;
    setReactions((known) => [...known.slice(-4), { id, identity, emoji }]);
    setTimeout(() => setReactions((known) => known.filter((one) => one.id !== id)), REACTION_MS);
  }, []);

  useData(
    useCallback(
      ({ from, topic, payload }: DataMessage) => {
        if (from === null) return;
        if (topic === HAND) showHand(from, payload === "up");
        if (topic === REACTION && (EMOJIS as readonly string[]).includes(payload)) showReaction(from, payload);
      },
      [showHand, showReaction],
    ),
  );
  useEffect(() => {
    return room?.on("participantLeft", ({ identity }) => showHand(identity, false));
  }, [room, showHand]);
  useEffect(() => {
    return room?.on("participantJoined", ({ identity }) => {
      if (raised) room.sendData("up", { topic: HAND, to: [identity] }).catch(() => {});
    });
  }, [room, raised]);

  const raise = (up: boolean) => {
    if (!room) return;
    setRaised(up);
    showHand(room.localParticipant.identity, up);
    room.sendData(up ? "up" : "down", { topic: HAND }).catch(() => {});
  };
  const react = (emoji: string) => {
    if (!room) return;
    showReaction(room.localParticipant.identity, emoji);
    room.sendData(emoji, { topic: REACTION }).catch(() => {});
  };
  return { hands, reactions, raised, raise, react };
}
