import { useEffect, useRef } from "preact/hooks";
import type { LocalTrack, RemoteTrack } from "../sdk/index.ts";
import { Icon } from "./icon.tsx";

export type TileProps = {
  /** The identity of the participant, or of the participant whose screen it is. */
  identity: string;
  /** The display name. */
  name: string;
  track: LocalTrack | RemoteTrack | undefined;
  muted: boolean;
  speaking: boolean;
  quality: string | null;
  mirrored?: boolean;
  /** Whether this page lacks the key of the participant's tracks. */
  missingKey?: boolean;
  /** Whether the video is a screen, which is shown whole; a camera is cropped to fill the tile. */
  screen?: boolean;
};

/** The tile of a participant or a screen. The SDK requests the layer that fits its size. */
export function Tile({ identity, name, track, muted, speaking, quality, mirrored, missingKey, screen }: TileProps) {
  const element = useRef<HTMLVideoElement>(null);
  const visibleTrack = track?.muted ? undefined : track;
  useEffect(() => {
    const { current } = element;
    if (!current || !visibleTrack) return;
    visibleTrack.attach(current);
    return () => visibleTrack.detach(current);
  }, [visibleTrack]);
  return (
    <figure class={`tile ${speaking ? "speaking" : ""} ${screen ? "whole" : ""}`} data-identity={identity}>
      {visibleTrack ? (
        <video muted ref={element} class={mirrored ? "mirrored" : ""} aria-label={`Video of ${name}`} />
      ) : (
        <span class="initial" aria-hidden="true">
          {name.slice(0, 1).toUpperCase()}
        </span>
      )}
      <figcaption>
        {quality && <span class={`quality ${quality}`} title={`Connection: ${quality}`} />}
        {muted && (
          <span class="muted" title="muted">
            <Icon name="microphoneOff" />
          </span>
        )}
        {name}
        {missingKey && " · encrypted, without its key here"}
      </figcaption>
    </figure>
  );
}
