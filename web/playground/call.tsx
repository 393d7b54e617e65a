import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ChatPanel } from "./chat-panel.tsx";
import { Controls } from "./controls.tsx";
import { type Layout, layoutFor } from "./layout.ts";
import { changes, needsClick, type Session, streamStatus, viewers } from "./session.ts";
import { StatsPanel } from "./stats-panel.tsx";
import { Tile, type TileProps } from "./tile.tsx";

/** `--gap-2`, around and between the tiles. */
const GAP_PX = 8;

type CallProps = { session: Session; dev: boolean; onLeave: () => Promise<void> };

export function Call({ session, dev, onLeave }: CallProps) {
  const { room, conversation, credentials } = session;
  const showChat = useSignal(conversation !== null && innerWidth >= 900);
  const showStats = useSignal(false);
  const layout = useSignal<Layout>({ columns: 1, tileWidth: 320 });
  const grid = useRef<HTMLDivElement>(null);
  const tiles = changes.value >= 0 ? tilesOf(session) : [];

  useEffect(() => {
    const { current } = grid;
    if (!current) return;
    const observer = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = current;
      layout.value = layoutFor(tiles.length, clientWidth - 2 * GAP_PX, clientHeight - 2 * GAP_PX, GAP_PX);
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, [tiles.length]);

  return (
    <div class={`call ${showChat.value ? "with-chat" : ""}`}>
      <header>
        <strong>{room.name.startsWith("stream_") ? "Live stream" : room.name}</strong>
        <span class={`state ${room.state.toLowerCase()}`}>{STATES[room.state]}</span>
        {streamStatus.value && (
          <span class="live">
            {streamStatus.value}
            {viewers.value !== null && ` · ${viewers.value} watching`}
          </span>
        )}
      </header>
      <main class="grid-area" ref={grid}>
        {tiles.length === 0 ? (
          <p class="quiet empty">
            {credentials.mode === "viewer" ? "Waiting for the host to go live." : "Nobody is here yet."}
          </p>
        ) : (
          <div
            class="grid"
            style={{ gridTemplateColumns: `repeat(${layout.value.columns}, ${layout.value.tileWidth}px)` }}
          >
            {tiles.map(({ key, ...tile }) => (
              <Tile key={key} {...tile} />
            ))}
          </div>
        )}
        {needsClick.value && (
          <button
            type="button"
            class="button primary sound"
            onClick={() => {
              needsClick.value = false;
              void room.startAudio();
            }}
          >
            Turn the sound on
          </button>
        )}
        {showStats.value && <StatsPanel room={room} />}
      </main>
      {showChat.value && conversation && <ChatPanel conversation={conversation} me={room.localParticipant.identity} />}
      <Controls session={session} dev={dev} showChat={showChat} showStats={showStats} onLeave={onLeave} />
    </div>
  );
}

const STATES = {
  CONNECTING: "connecting",
  CONNECTED: "connected",
  RECONNECTING: "reconnecting …",
  DISCONNECTED: "disconnected",
  FAILED: "failed",
};

/** Screens first, then everyone in the order they came; viewers of a stream, who send nothing, take no tile. */
function tilesOf({ room, credentials }: Session): (TileProps & { key: string })[] {
  const { localParticipant: me, participants, activeSpeakers } = room;
  const speaking = new Set(activeSpeakers.map(({ identity }) => identity));
  const people: (TileProps & { key: string })[] = [];
  if (credentials.mode !== "viewer") {
    const microphone = me.track("microphone");
    people.push({
      key: "me",
      name: me.identity,
      picture: me.track("camera"),
      muted: microphone === undefined || microphone.muted,
      speaking: speaking.has(me.identity),
      quality: null,
      mirrored: true,
    });
  }
  const screens: typeof people = [];
  for (const participant of participants.values()) {
    const { identity, quality } = participant;
    const microphone = participant.track("microphone");
    const screen = participant.track("screenShare");
    const common = { speaking: speaking.has(identity), quality };
    if (screen?.mediaStreamTrack)
      screens.push({
        key: `${identity}-screen`,
        name: `${identity} · screen`,
        picture: screen,
        muted: false,
        ...common,
      });
    if (credentials.mode !== "call" && participant.tracks.size === 0) continue;
    people.push({
      key: identity,
      name: identity,
      picture: participant.track("camera"),
      muted: microphone === undefined || microphone.muted,
      ...common,
    });
  }
  return [...screens, ...people];
}
