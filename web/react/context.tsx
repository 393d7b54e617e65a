/** @jsxImportSource react */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { type ConnectionState, connect, type Room, type RoomOptions, type StoaError } from "../sdk/index.ts";
import { toStoaError } from "./to-stoa-error.ts";

export type RoomStatus = {
  /** Null until the room is joined, and after the connection has failed. */
  room: Room | null;
  state: ConnectionState;
  /** Whether the participant waits in the room's lobby. */
  isInLobby: boolean;
  error: StoaError | null;
};

const IDLE: RoomStatus = { room: null, state: "CONNECTING", isInLobby: false, error: null };
const RoomContext = createContext<RoomStatus>(IDLE);

export type StoaRoomProps = {
  /** The endpoint and the token come from your backend: `rtc.endpoint` and `rtc.token` of `mintJoin`. */
  endpoint: string;
  token: string;
  /** Whether to open the microphone on joining; `"music"` sends stereo without voice processing. */
  audio?: boolean | "music";
  /** Whether to open the camera on joining. */
  video?: boolean;
  /** The room's options, read once on joining. */
  options?: RoomOptions;
  onError?: (error: StoaError) => void;
  children?: ReactNode;
};

/** Joins a room while it is mounted and provides it to the hooks of its children. */
export function StoaRoom({ endpoint, token, audio, video, options, onError, children }: StoaRoomProps) {
  const status = useConnection(endpoint, token, options);
  const { room, error } = status;
  useEffect(() => {
    if (error) onError?.(error);
  }, [error, onError]);
  useEffect(() => {
    return room?.on("error", (failure) => onError?.(failure));
  }, [room, onError]);
  useEffect(() => {
    const music = audio === "music";
    if (room && audio)
      room.localParticipant.enableMicrophone({ music }).catch((failure) => onError?.(toStoaError(failure)));
  }, [room, audio, onError]);
  useEffect(() => {
    if (room && video) room.localParticipant.enableCamera().catch((failure) => onError?.(toStoaError(failure)));
  }, [room, video, onError]);
  return <RoomContext.Provider value={status}>{children}</RoomContext.Provider>;
}

function useConnection(endpoint: string, token: string, options: RoomOptions | undefined): RoomStatus {
  const [status, setStatus] = useState(IDLE);
  useEffect(() => {
    let isUnmounted = false;
    const attempt = new AbortController();
    const abandon = () => attempt.abort();
    options?.signal?.addEventListener("abort", abandon);
    const onLobby = () => {
      setStatus({ ...IDLE, isInLobby: true });
      options?.onLobby?.();
    };
    const start = async () => {
      try {
        const room = await connect(endpoint, token, { ...options, onLobby, signal: attempt.signal });
        if (isUnmounted) return;
        room.on("connectionStateChanged", (state, error) =>
          setStatus({ ...IDLE, room: state === "FAILED" || state === "DISCONNECTED" ? null : room, state, error }),
        );
        setStatus({ ...IDLE, room, state: room.state });
      } catch (error) {
        if (!isUnmounted) setStatus({ ...IDLE, state: "FAILED", error: toStoaError(error) });
      }
    };
    // Strict mode mounts twice in a row; the delay makes sure that only the second mount joins.
    const timer = setTimeout(start, 0);
    return () => {
      isUnmounted = true;
      clearTimeout(timer);
      options?.signal?.removeEventListener("abort", abandon);
      abandon();
      setStatus(IDLE);
    };
  }, [endpoint, token]);
  return useMemo(() => status, [status]);
}

/** The room of the nearest `<StoaRoom>`, its connection state and the last error. */
export function useRoom(): RoomStatus {
  return useContext(RoomContext);
}
