/** @jsxImportSource react */
import { type ComponentProps, useEffect, useRef } from "react";
import type { LocalTrack, RemoteTrack } from "../sdk/index.ts";

export type VideoTileProps = Omit<ComponentProps<"video">, "ref" | "src"> & { track: LocalTrack | RemoteTrack };

/** A `<video>` that plays a track. The server sends the layer that fits its size; the local camera is mirrored. */
export function VideoTile({ track, ...props }: VideoTileProps) {
  const element = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const video = element.current;
    if (!video) return;
    track.attach(video);
    return () => {
      track.detach(video);
    };
  }, [track]);
  const mirrored = "delivered" in track ? undefined : track.source === "camera" || undefined;
  return <video ref={element} autoPlay playsInline muted data-mirrored={mirrored} {...props} />;
}
