/** @jsxImportSource react */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { type ConnectionState, connect, type Room, type RoomOptions, type StoaError } from "../sdk/index.ts";
import { asError } from "./failure.ts";

export type RoomStatus = {
  /** Null until it is joined, and after it has failed. */
  room: Room | null;
  state: ConnectionState;
  error: StoaError | null;
};

const IDLE: RoomStatus = { room: null, state: "CONNECTING", error: null };
const RoomContext = createContext<RoomStatus>(IDLE);

export type StoaRoomProps = {
  /** Both come from your backend: `rtc.endpoint` and `rtc.token` of `mintJoin`. */
  endpoint: string;
  token: string;
  /** Open the microphone on joining. */
  audio?: boolean;
  /** Open the camera on joining. */
  video?: boolean;
  /** Read once, when the room is joined. */
  options?: RoomOptions;
  onError?: (error: StoaError) => void;
  children?: ReactNode;
};

/** Joins a room for as long as it is mounted, and gives it to every hook below. */
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
    if (room && audio) room.localParticipant.enableMicrophone().catch((failure) => onError?.(asError(failure)));
  }, [room, audio, onError]);
  useEffect(() => {
    if (room && video) room.localParticipant.enableCamera().catch((failure) => onError?.(asError(failure)));
  }, [room, video, onError]);
  return <RoomContext.Provider value={status}>{children}</RoomContext.Provider>;
}

function useConnection(endpoint: string, token: string, options: RoomOptions | undefined): RoomStatus {
  const [status, setStatus] = useState(IDLE);
  useEffect(() => {
    let left = false;
    let joined: Room | null = null;
    const begin = async () => {
      try {
        const room = await connect(endpoint, token, options);
        if (left) return void room.close();
        joined = room;
        room.on("connectionStateChanged", (state, error) =>
          setStatus({ room: state === "FAILED" || state === "DISCONNECTED" ? null : room, state, error }),
        );
        setStatus({ room, state: room.state, error: null });
      } catch (error) {
        if (!left) setStatus({ room: null, state: "FAILED", error: asError(error) });
      }
    };
    // Strict mode mounts, unmounts and mounts again at once: only what stays joins.
    const timer = setTimeout(begin, 0);
    return () => {
      left = true;
      clearTimeout(timer);
      void joined?.close();
      setStatus(IDLE);
    };
  }, [endpoint, token]);
  return useMemo(() => status, [status]);
}

/** The room of the nearest `<StoaRoom>`, how its connection is, and why it failed. */
export function useRoom(): RoomStatus {
  return useContext(RoomContext);
}
