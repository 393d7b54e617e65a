import { useEffect, useRef } from "preact/hooks";
import type { LocalTrack, RemoteTrack } from "../sdk/index.ts";
import { Icon } from "./icon.tsx";

export type TileProps = {
  name: string;
  picture: LocalTrack | RemoteTrack | undefined;
  muted: boolean;
  speaking: boolean;
  quality: string | null;
  mirrored?: boolean;
  /** Shown whole, where a person's picture may be cut at the edges to fill the tile. */
  screen?: boolean;
};

/** One person or one screen. The SDK asks the server for no more than the tile shows. */
export function Tile({ name, picture, muted, speaking, quality, mirrored, screen }: TileProps) {
  const element = useRef<HTMLVideoElement>(null);
  const shown = picture?.muted ? undefined : picture;
  useEffect(() => {
    const { current } = element;
    if (!current || !shown) return;
    shown.attach(current);
    return () => shown.detach(current);
  }, [shown]);
  return (
    <figure class={`tile ${speaking ? "speaking" : ""} ${screen ? "whole" : ""}`} data-identity={name}>
      {shown ? (
        <video muted ref={element} class={mirrored ? "mirrored" : ""} aria-label={`Picture of ${name}`} />
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
      </figcaption>
    </figure>
  );
}
