/** @jsxImportSource react */
import { useRoom } from "../context.tsx";
import { type TrackReference, useParticipants, useSpeakers, useTracks } from "../room-hooks.ts";
import { VideoTile } from "../video-tile.tsx";
import { Icon } from "./icon.tsx";

export type View = "grid" | "speaker";
type Seat = {
  key: string;
  identity: string;
  isLocal: boolean;
  source: string;
  video: TrackReference | null;
  silent: boolean;
};

const MOST_TILES = 25;

/** Everybody in a grid, or the one who speaks large and the others in a strip. */
export function Stage({ view, hands }: { view: View; hands: readonly string[] }) {
  const seats = useSeats().slice(0, MOST_TILES);
  const [loudest] = useSpeakers();
  const tile = (seat: Seat) => (
    <Tile
      key={seat.key}
      seat={seat}
      speaking={seat.identity === loudest?.identity}
      hand={hands.indexOf(seat.identity)}
    />
  );
  const screen = seats.find(({ source }) => source === "screenShare");
  if (view === "grid" && !screen) {
    return (
      <div className="stoa-stage" data-view="grid" data-columns={columnsFor(seats.length)} data-count={seats.length}>
        {seats.map(tile)}
      </div>
    );
  }
  const others = seats.filter(({ isLocal }) => !isLocal);
  const focus = screen ?? others.find(({ identity }) => identity === loudest?.identity) ?? others[0] ?? seats[0];
  const rest = seats.filter((seat) => seat !== focus);
  return (
    <div className="stoa-stage" data-view="speaker" data-strip={rest.length > 0 ? "" : undefined}>
      {focus && tile(focus)}
      {rest.length > 0 && <div className="stoa-strip">{rest.map(tile)}</div>}
    </div>
  );
}

function useSeats(): Seat[] {
  const { room } = useRoom();
  const participants = useParticipants();
  const tracks = useTracks();
  const own = room?.localParticipant.identity ?? "";
  const people = [own, ...participants.map(({ identity }) => identity)].filter((identity) => identity !== "");
  const screens = tracks.filter(({ source }) => source === "screenShare");
  const seatOf = (identity: string, source: string, video: TrackReference | null): Seat => {
    const voice = tracks.find((track) => track.identity === identity && track.source === "microphone");
    return {
      key: `${identity} ${source}`,
      identity,
      isLocal: identity === own,
      source,
      video,
      silent: !voice || voice.muted,
    };
  };
  return [
    ...screens.map((screen) => seatOf(screen.identity, "screenShare", screen)),
    ...people.map((identity) => {
      const camera = tracks.find((track) => track.identity === identity && track.source === "camera" && !track.muted);
      return seatOf(identity, "camera", camera ?? null);
    }),
  ];
}

function Tile({ seat, speaking, hand }: { seat: Seat; speaking: boolean; hand: number }) {
  const { identity, isLocal, source, video, silent } = seat;
  const name = isLocal ? `${identity} (you)` : identity;
  return (
    <figure
      className="stoa-tile"
      part="tile"
      data-source={source}
      data-speaking={speaking && source === "camera" ? "" : undefined}
    >
      {video ? (
        <VideoTile track={video.track} aria-hidden />
      ) : (
        <span className="stoa-initials" aria-hidden="true">
          {initials(identity)}
        </span>
      )}
      {hand >= 0 && source === "camera" && <span className="stoa-hand">✋ {hand + 1}</span>}
      <figcaption className="stoa-name">
        <span>{source === "screenShare" ? `${name}: screen` : name}</span>
        {silent && source === "camera" && (
          <>
            <Icon name="microphoneOff" />
            <span className="stoa-hidden">, microphone off</span>
          </>
        )}
      </figcaption>
    </figure>
  );
}

export function columnsFor(count: number): number {
  if (count <= 1) return 1;
  if (count <= 4) return 2;
  return count <= 9 ? 3 : 4;
}

export function initials(identity: string): string {
  const words = identity.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const [first = "?", second] = words;
  return ((first[0] ?? "?") + (second?.[0] ?? first[1] ?? "")).toUpperCase();
}
