import { useCallback, useEffect, useState } from "react";
import {
  type Caption,
  type DataMessage,
  type Decryption,
  type DeviceKind,
  type Knock,
  type LocalTrack,
  listDevices,
  onDevicesChanged,
  type ParticipantPage,
  type ParticipantRecord,
  type RemoteParticipant,
  type RemoteTrack,
  type RequestHandler,
  type Room,
  type RoomEvents,
  type RoomState,
  type Speaker,
  type StreamHandler,
  type TrackSource,
} from "../sdk/index.ts";
import { useRoom } from "./context.tsx";
import { useSnapshot } from "./external-store.ts";

const listenTo =
  (...events: (keyof RoomEvents)[]) =>
  (room: Room | null) =>
  (changed: () => void) => {
    const offs = events.map((event) => room?.on(event, changed));
    return () => {
      for (const off of offs) off?.();
    };
  };

const onParticipants = listenTo("participantJoined", "participantLeft", "participantUpdated", "connectionStateChanged");
export const onProfiles = listenTo(
  ...(["participantJoined", "participantLeft", "participantUpdated", "localParticipantUpdated"] as const),
);
const onTracks = listenTo(
  ...(["participantJoined", "participantLeft", "connectionStateChanged", "subscriptionChanged"] as const),
  ...([
    "trackPublished",
    "trackUnpublished",
    "trackSubscribed",
    "trackUnsubscribed",
    "trackMuted",
    "trackUnmuted",
    "decryptionChanged",
  ] as const),
  ...(["localTrackPublished", "localTrackUnpublished", "localTrackMuted", "localTrackUnmuted"] as const),
);
const onSpeakers = listenTo("activeSpeakersChanged");
const onLobby = listenTo("lobbyChanged", "connectionStateChanged");
const onRoomState = listenTo("roomStateChanged", "connectionStateChanged");
const onSafetyNumber = listenTo("safetyNumberChanged", "connectionStateChanged");
const onRecording = listenTo("recordingChanged", "connectionStateChanged");

/** Whether the room is being recorded; show this to every participant. */
export function useRecording(): boolean {
  return useSnapshot(useRoom().room, onRecording, (room) => room?.recording ?? false);
}

/** For hosts: the participants who wait in the lobby; let them in with `room.admit(identity)`. */
export function useLobby(): readonly Knock[] {
  return useSnapshot(useRoom().room, onLobby, (room) => room?.lobby ?? []);
}

/** What hosts and your backend have decided about the room; null before the join. */
export function useRoomState(): RoomState | null {
  return useSnapshot(useRoom().room, onRoomState, (room) => room?.roomState ?? null);
}

/** The safety number of an encrypted call whose participants agree on keys; show it, so that they can compare it. */
export function useSafetyNumber(): string | null {
  return useSnapshot(useRoom().room, onSafetyNumber, (room) => room?.safetyNumber ?? null);
}

/** The remote participants of `room.participants`, in the order in which they joined. */
export function useParticipants(): readonly RemoteParticipant[] {
  return useSnapshot(useRoom().room, onParticipants, (room) => [...(room?.participants.values() ?? [])]);
}

/** How many participants are in the room, this one included; see `room.participantCount`. */
export function useParticipantCount(): number {
  return useSnapshot(useRoom().room, onParticipants, (room) => room?.participantCount ?? 0);
}

/** The pages of `useAllParticipants`. */
export type AllParticipants = {
  participants: readonly ParticipantRecord[];
  /** The number of participants in the whole room when the last page was read. */
  count: number;
  hasMore: boolean;
  /** Reads the next page. */
  loadMore(): Promise<void>;
  /** Reads the first page again. */
  reload(): Promise<void>;
};

/**
 * All participants of a room, however large, in pages of `limit` (at most 200): those who only watch, too, whom
 * `useParticipants` leaves out in a large room. The first page is read when the component appears.
 */
export function useAllParticipants(limit = 50): AllParticipants {
  const { room } = useRoom();
  const [page, setPage] = useState<ParticipantPage>(NO_PAGE);
  const read = useCallback(
    async (before: ParticipantPage) => {
      if (!room) return;
      const after = before.next ?? undefined;
      const { participants, participantCount, next } = await room.listParticipants({ limit, after });
      setPage({ participants: [...before.participants, ...participants], participantCount, next });
    },
    [room, limit],
  );
  useEffect(() => {
    read(NO_PAGE).catch(() => {});
  }, [read]);
  return {
    participants: page.participants,
    count: page.participantCount,
    hasMore: page.next !== null,
    loadMore: () => (page.next === null ? Promise.resolve() : read(page)),
    reload: () => read(NO_PAGE),
  };
}

const NO_PAGE: ParticipantPage = { participants: [], participantCount: 0, next: null };

/** A local or remote track with its publisher and state. */
export type TrackReference = {
  id: string;
  identity: string;
  kind: "audio" | "video";
  source: TrackSource;
  muted: boolean;
  isLocal: boolean;
  /** Whether this page can decrypt the track; `ok` for one that is not encrypted. */
  decryption: Decryption;
  track: LocalTrack | RemoteTrack;
};

const ALL: readonly TrackSource[] = ["camera", "screenShare", "microphone", "screenShareAudio", "other"];

/** The tracks of the given sources in the room, local tracks first. */
export function useTracks(sources: readonly TrackSource[] = ALL): readonly TrackReference[] {
  const all = useSnapshot(useRoom().room, onTracks, tracksOf);
  return useFiltered(all, sources);
}

function tracksOf(room: Room | null): readonly TrackReference[] {
  if (!room) return [];
  const own = [...room.localParticipant.tracks].map((track, index) =>
    reference(track.id || `local-${index}-${track.source}`, room.localParticipant.identity, true, track),
  );
  const others = [...room.participants.values()].flatMap(({ identity, tracks }) =>
    [...tracks.values()].map((track) => reference(track.id, identity, false, track)),
  );
  return [...own, ...others];
}

function reference(id: string, identity: string, isLocal: boolean, track: LocalTrack | RemoteTrack): TrackReference {
  const { kind, source, muted } = track;
  return {
    id,
    identity,
    isLocal,
    track,
    kind,
    source,
    muted,
    decryption: "decryption" in track ? track.decryption : "ok",
  };
}

/** Returns the same list while the tracks and the sources are equal, even if `sources` is a new array on every render. */
function useFiltered(all: readonly TrackReference[], sources: readonly TrackSource[]): readonly TrackReference[] {
  const sourceKey = sources.join();
  const [cached, setCached] = useState(() => ({
    all,
    sourceKey,
    list: all.filter(({ source }) => sources.includes(source)),
  }));
  if (cached.all === all && cached.sourceKey === sourceKey) return cached.list;
  const fresh = { all, sourceKey, list: all.filter(({ source }) => sources.includes(source)) };
  setCached(fresh);
  return fresh.list;
}

/** The active speakers, loudest first. */
export function useSpeakers(): readonly Speaker[] {
  return useSnapshot(useRoom().room, onSpeakers, (room) => room?.activeSpeakers ?? NO_SPEAKERS);
}

const NO_SPEAKERS: readonly Speaker[] = [];

/** Calls `listener` for each data message; pass a stable function. */
export function useData(listener: (message: DataMessage) => void): void {
  const { room } = useRoom();
  useEffect(() => {
    return room?.on("dataReceived", listener);
  }, [room, listener]);
}

/** The captions that have changed within the last `keepMs`, in the order in which their segments have begun. */
export function useCaptions(keepMs = 8_000): readonly Caption[] {
  const { room } = useRoom();
  const [captions, setCaptions] = useState<readonly Caption[]>([]);
  useEffect(() => {
    const timers = new Map<string, ReturnType<typeof setTimeout>>();
    const off = room?.on("caption", (caption) => {
      // Another sender must not be able to replace the segment.
      const key = captionKey(caption);
      const others = (known: readonly Caption[]) => known.filter((one) => captionKey(one) !== key);
      clearTimeout(timers.get(key));
      const forget = () => {
        timers.delete(key);
        setCaptions(others);
      };
      timers.set(key, setTimeout(forget, keepMs));
      setCaptions((known) => {
        const isKnown = known.some((one) => captionKey(one) === key);
        return isKnown ? known.map((one) => (captionKey(one) === key ? caption : one)) : [...known, caption];
      });
    });
    return () => {
      off?.();
      for (const timer of timers.values()) clearTimeout(timer);
      setCaptions([]);
    };
  }, [room, keepMs]);
  return captions;
}

export const captionKey = ({ id, from }: Caption) => `${id}\n${from}`;

/** Handles the streams and files of a topic; pass a stable function. */
export function useStream(topic: string, handler: StreamHandler): void {
  const { room } = useRoom();
  useEffect(() => {
    return room?.onStream(topic, handler);
  }, [room, topic, handler]);
}

/** Answers the requests of a method; pass a stable function. */
export function useRequest(method: string, handler: RequestHandler): void {
  const { room } = useRoom();
  useEffect(() => {
    return room?.onRequest(method, handler);
  }, [room, method, handler]);
}

/** The connected cameras, microphones or speakers; updates when a device is plugged in or removed. */
export function useDevices(kind: DeviceKind): readonly MediaDeviceInfo[] {
  const [devices, setDevices] = useState<readonly MediaDeviceInfo[]>([]);
  const { room } = useRoom();
  useEffect(() => {
    let isMounted = true;
    const refresh = () => {
      listDevices(kind).then(
        (found) => isMounted && setDevices(found),
        () => {},
      );
    };
    refresh();
    // Browsers reveal device names only after the user has granted access.
    const off = room?.on("localTrackPublished", refresh);
    const stop = typeof navigator !== "undefined" && navigator.mediaDevices ? onDevicesChanged(refresh) : undefined;
    return () => {
      isMounted = false;
      off?.();
      stop?.();
    };
  }, [kind, room]);
  return devices;
}
