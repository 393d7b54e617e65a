/** @jsxImportSource react */
import type { Room } from "../../sdk/index.ts";
import { useRoom } from "../context.tsx";
import { type TrackReference, useParticipants, useSpeakers, useTracks } from "../room-hooks.ts";
import { VideoTile } from "../video-tile.tsx";
import { Icon } from "./icon.tsx";

export type View = "grid" | "speaker";
type TileState = {
  key: string;
  identity: string;
  name: string;
  isLocal: boolean;
  source: string;
  video: TrackReference | null;
  micMuted: boolean;
  /** What is wrong with the key of the participant's tracks; null if they can be decrypted. */
  keyProblem: KeyProblem | null;
};

const MAX_TILES = 25;

/** Shows all participants in a grid, or the active speaker large and the others in a strip. */
export function Stage({ view, hands }: { view: View; hands: readonly string[] }) {
  const tiles = useTiles().slice(0, MAX_TILES);
  const [loudest] = useSpeakers();
  const renderTile = (tile: TileState) => (
    <Tile
      key={tile.key}
      tile={tile}
      speaking={tile.identity === loudest?.identity}
      hand={hands.indexOf(tile.identity)}
    />
  );
  const screen = tiles.find(({ source }) => source === "screenShare");
  if (view === "grid" && !screen) {
    return (
      <div className="stoa-stage" data-view="grid" data-columns={columnsFor(tiles.length)} data-count={tiles.length}>
        {tiles.map(renderTile)}
      </div>
    );
  }
  const others = tiles.filter(({ isLocal }) => !isLocal);
  const focus = screen ?? others.find(({ identity }) => identity === loudest?.identity) ?? others[0] ?? tiles[0];
  const rest = tiles.filter((tile) => tile !== focus);
  return (
    <div className="stoa-stage" data-view="speaker" data-strip={rest.length > 0 ? "" : undefined}>
      {focus && renderTile(focus)}
      {rest.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        <section className="stoa-strip" aria-label="Other participants" tabIndex={0}>
          {rest.map(renderTile)}
        </section>
      )}
    </div>
  );
}

function useTiles(): TileState[] {
  const { room } = useRoom();
  const participants = useParticipants();
  const tracks = useTracks();
  const localIdentity = room?.localParticipant.identity ?? "";
  const identities = [localIdentity, ...participants.map(({ identity }) => identity)].filter(
    (identity) => identity !== "",
  );
  const screens = tracks.filter(({ source }) => source === "screenShare");
  const tileOf = (identity: string, source: string, video: TrackReference | null): TileState => {
    const microphone = tracks.find((track) => track.identity === identity && track.source === "microphone");
    return {
      key: `${identity} ${source}`,
      identity,
      name: displayName(room, identity),
      isLocal: identity === localIdentity,
      source,
      video,
      micMuted: !microphone || microphone.muted,
      keyProblem: keyProblemOf(tracks.filter((track) => track.identity === identity)),
    };
  };
  return [
    ...screens.map((screen) => tileOf(screen.identity, "screenShare", screen)),
    ...identities.map((identity) => {
      const camera = tracks.find((track) => track.identity === identity && track.source === "camera" && !track.muted);
      return tileOf(identity, "camera", camera ?? null);
    }),
  ];
}

type KeyProblem = Exclude<TrackReference["decryption"], "ok">;

const KEY_PROBLEMS: Record<KeyProblem, string> = {
  "missing-key": "Encrypted; its key is missing",
  failed: "Encrypted with another key",
};

function keyProblemOf(tracks: readonly TrackReference[]): KeyProblem | null {
  for (const { decryption } of tracks) if (decryption !== "ok") return decryption;
  return null;
}

function Tile({ tile, speaking, hand }: { tile: TileState; speaking: boolean; hand: number }) {
  const { isLocal, source, video, micMuted, keyProblem } = tile;
  const name = isLocal ? `${tile.name} (you)` : tile.name;
  return (
    <figure
      className="stoa-tile"
      part="tile"
      data-source={source}
      data-speaking={speaking && source === "camera" ? "" : undefined}
    >
      {video && !keyProblem ? (
        <VideoTile track={video.track} aria-hidden />
      ) : (
        <span className="stoa-initials" aria-hidden="true">
          {initials(tile.name)}
        </span>
      )}
      {keyProblem && (
        <span className="stoa-no-key">
          <Icon name="lock" />
          {KEY_PROBLEMS[keyProblem]}
        </span>
      )}
      {hand >= 0 && source === "camera" && <span className="stoa-hand">✋ {hand + 1}</span>}
      <figcaption className="stoa-name">
        <span>{source === "screenShare" ? `${name}: screen` : name}</span>
        {micMuted && source === "camera" && (
          <>
            <Icon name="microphoneOff" />
            <span className="stoa-hidden">, microphone off</span>
          </>
        )}
      </figcaption>
    </figure>
  );
}

/** What to call a participant: the name from the token, or else the identity. */
export function displayName(room: Room | null, identity: string): string {
  const local = room?.localParticipant;
  const participant = identity === local?.identity ? local : room?.participants.get(identity);
  return participant?.name ?? identity;
}

export function columnsFor(count: number): number {
  if (count <= 1) return 1;
  if (count <= 4) return 2;
  return count <= 9 ? 3 : 4;
}

export function initials(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const [first = "?", second] = words;
  return ((first[0] ?? "?") + (second?.[0] ?? first[1] ?? "")).toUpperCase();
}
