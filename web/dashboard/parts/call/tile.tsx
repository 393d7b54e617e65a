import { useEffect, useRef } from "preact/hooks";
import type { Room } from "../../../sdk/index.ts";

type Picture = { attach: (element: HTMLVideoElement) => void; detach: (element: HTMLVideoElement) => void };
export type TileProps = { id: string; name: string; own: boolean; silent: boolean; picture: Picture | null };

/** Who is seen: oneself first, then every picture of the others, and those who only speak. */
export function tilesOf(room: Room): TileProps[] {
  const me = room.localParticipant;
  const camera = me.track("camera");
  const mine: TileProps[] = [...me.tracks]
    .filter((track) => track.kind === "video")
    .map((track) => ({
      id: `own ${track.source}`,
      name: `${me.identity} (you)`,
      own: track === camera,
      silent: me.track("microphone")?.muted ?? true,
      picture: track.muted ? null : ofStream(track.mediaStreamTrack),
    }));
  const others = [...room.participants.values()].flatMap((participant): TileProps[] => {
    const pictures = [...participant.tracks.values()].filter(({ kind }) => kind === "video");
    const silent = participant.track("microphone")?.muted ?? true;
    const base = { name: participant.identity, own: false, silent };
    if (pictures.length === 0) return [{ ...base, id: participant.identity, picture: null }];
    return pictures.map((track) => ({ ...base, id: track.id, picture: track.muted ? null : track }));
  });
  return [...mine, ...others];
}

function ofStream(track: MediaStreamTrack): Picture {
  return {
    attach: (element) => {
      element.srcObject = new MediaStream([track]);
    },
    detach: (element) => {
      element.srcObject = null;
    },
  };
}

export function Tile({ id, name, own, silent, picture }: TileProps) {
  const element = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const video = element.current;
    if (!video || !picture) return;
    picture.attach(video);
    return () => picture.detach(video);
  }, [id, picture !== null]);
  return (
    <li class={own ? "own" : ""}>
      {picture ? (
        <video ref={element} muted autoPlay playsInline aria-label={`Picture of ${name}`} />
      ) : (
        <div class="initial" aria-hidden="true">
          {name.charAt(0).toUpperCase()}
        </div>
      )}
      <span>
        {name}
        {silent && <span class="quiet"> · no sound</span>}
      </span>
    </li>
  );
}
