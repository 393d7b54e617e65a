import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ChatPanel } from "./chat-panel.tsx";
import { Controls } from "./controls.tsx";
import { ReceivedFiles } from "./files.tsx";
import { type Layout, layoutFor } from "./layout.ts";
import { audioBlocked, changes, type Session, streamStatus, viewers } from "./session.ts";
import { StatsPanel } from "./stats-panel.tsx";
import { Tile, type TileProps } from "./tile.tsx";

/** The CSS variable `--gap-2`, around and between the tiles. */
const GAP_PX = 8;

type CallProps = { session: Session; dev: boolean; onLeave: () => Promise<void> };

export function Call({ session, dev, onLeave }: CallProps) {
  const { room, conversation, credentials } = session;
  const showChat = useSignal(conversation !== null && innerWidth >= 900);
  const showStats = useSignal(false);
  const layout = useSignal<Layout>({ columns: 1, tileWidth: 320 });
  const grid = useRef<HTMLDivElement>(null);
  const { screens, people } = changes.value >= 0 ? tilesOf(session) : NO_TILES;

  useEffect(() => {
    const { current } = grid;
    if (!current) return;
    const observer = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = current;
      layout.value = layoutFor(people.length, clientWidth - 2 * GAP_PX, clientHeight - 2 * GAP_PX, GAP_PX);
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, [people.length]);

  return (
    <div class={`call ${showChat.value ? "with-chat" : ""}`}>
      <header>
        <strong>{room.name.startsWith("stream_") ? "Live stream" : room.name}</strong>
        <span class={`state ${room.state.toLowerCase()}`}>{STATES[room.state]}</span>
        {room.recording && (
          <span class="recording" role="status">
            Recording
          </span>
        )}
        {credentials.encryption && (
          <span class="quiet" title="Video and audio are end-to-end encrypted.">
            Encrypted
          </span>
        )}
        {room.safetyNumber !== null && (
          <span class="quiet" title="Read this number to the others: it is the same for all if nobody listens in.">
            Safety number {room.safetyNumber}
          </span>
        )}
        {isMuted(session) && <span class="quiet">Your microphone is muted</span>}
        {streamStatus.value && (
          <span class="live">
            {streamStatus.value}
            {viewers.value !== null && ` · ${viewers.value} watching`}
          </span>
        )}
      </header>
      <main class="grid-area" ref={grid}>
        {people.length + screens.length === 0 && (
          <p class="quiet empty">
            {credentials.mode === "viewer" ? "Waiting for the host to go live." : "You are the first one here."}
          </p>
        )}
        {screens.length > 0 ? (
          <div class="focus">
            <Tiles class="stage" tiles={screens} />
            <Tiles class="strip" tiles={people} />
          </div>
        ) : (
          <Tiles class="grid" tiles={people} layout={layout.value} />
        )}
        {audioBlocked.value && (
          <button
            type="button"
            class="button primary sound"
            onClick={() => {
              audioBlocked.value = false;
              void room.startAudio();
            }}
          >
            Turn on sound
          </button>
        )}
        <ReceivedFiles />
        {showStats.value && <StatsPanel room={room} />}
      </main>
      {showChat.value && conversation && <ChatPanel conversation={conversation} me={room.localParticipant.identity} />}
      <Controls session={session} dev={dev} showChat={showChat} showStats={showStats} onLeave={onLeave} />
    </div>
  );
}

function isMuted({ room: { localParticipant: me } }: Session): boolean {
  const microphone = me.track("microphone");
  return me.permissions?.publish === true && (microphone === undefined || microphone.muted);
}

type TilesProps = { class: string; tiles: KeyedTile[]; layout?: Layout };

function Tiles({ class: name, tiles, layout }: TilesProps) {
  const style = layout && {
    "--tile": `${layout.tileWidth}px`,
    maxWidth: `${layout.columns * (layout.tileWidth + GAP_PX) - GAP_PX}px`,
  };
  return (
    <div class={name} style={style}>
      {tiles.map(({ key, ...tile }) => (
        <Tile key={key} {...tile} />
      ))}
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

type KeyedTile = TileProps & { key: string };
const NO_TILES: { screens: KeyedTile[]; people: KeyedTile[] } = { screens: [], people: [] };

/** The tiles in the order of joining; viewers of a stream publish nothing and have no tile. */
function tilesOf({ room, credentials }: Session): typeof NO_TILES {
  const { localParticipant: me, participants, activeSpeakers } = room;
  const speaking = new Set(activeSpeakers.map(({ identity }) => identity));
  const people: KeyedTile[] = [];
  const screens: KeyedTile[] = [];
  if (credentials.mode !== "viewer") {
    const microphone = me.track("microphone");
    people.push({
      key: "me",
      identity: me.identity,
      name: me.name ?? me.identity,
      track: me.track("camera"),
      muted: microphone === undefined || microphone.muted,
      speaking: speaking.has(me.identity),
      quality: null,
      mirrored: true,
    });
  }
  for (const participant of participants.values()) {
    const { identity, quality, tracks } = participant;
    const name = participant.name ?? identity;
    const common = { speaking: speaking.has(identity), quality };
    const screen = participant.track("screenShare");
    if (screen?.mediaStreamTrack) {
      const shared = { identity: `${identity} · screen`, name: `${name} · screen` };
      screens.push({
        key: shared.identity,
        ...shared,
        track: screen,
        muted: false,
        screen: true,
        ...common,
        speaking: false,
      });
    }
    if (credentials.mode !== "call" && tracks.size === 0) continue;
    const microphone = participant.track("microphone");
    const muted = microphone === undefined || microphone.muted;
    const missingKey = [...tracks.values()].some(({ decryption }) => decryption !== "ok");
    people.push({ key: identity, identity, name, track: participant.track("camera"), muted, missingKey, ...common });
  }
  return { screens, people };
}
