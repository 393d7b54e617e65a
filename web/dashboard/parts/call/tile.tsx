import { useEffect, useRef } from "preact/hooks";
import type { Room } from "../../../sdk/index.ts";

type VideoTrack = { attach: (element: HTMLVideoElement) => void; detach: (element: HTMLVideoElement) => void };
export type TileProps = { id: string; name: string; own: boolean; silent: boolean; video: VideoTrack | null };

/** The tiles of a room: the local video first, then the others' videos and audio-only participants. */
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
      video: track.muted ? null : localVideo(track.mediaStreamTrack),
    }));
  const others = [...room.participants.values()].flatMap((participant): TileProps[] => {
    const videos = [...participant.tracks.values()].filter(({ kind }) => kind === "video");
    const silent = participant.track("microphone")?.muted ?? true;
    const base = { name: participant.identity, own: false, silent };
    if (videos.length === 0) return [{ ...base, id: participant.identity, video: null }];
    return videos.map((track) => ({ ...base, id: track.id, video: track.muted ? null : track }));
  });
  return [...mine, ...others];
}

function localVideo(track: MediaStreamTrack): VideoTrack {
  return {
    attach: (element) => {
      element.srcObject = new MediaStream([track]);
    },
    detach: (element) => {
      element.srcObject = null;
    },
  };
}

export function Tile({ id, name, own, silent, video }: TileProps) {
  const element = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const { current } = element;
    if (!current || !video) return;
    video.attach(current);
    return () => video.detach(current);
  }, [id, video !== null]);
  return (
    <li class={own ? "own" : ""}>
      {video ? (
        <video ref={element} muted autoPlay playsInline aria-label={`Video of ${name}`} />
      ) : (
        <div class="initial" aria-hidden="true">
          {name.charAt(0).toUpperCase()}
        </div>
      )}
      <span>
        {name}
        {silent && <span class="quiet"> · muted</span>}
      </span>
    </li>
  );
}
