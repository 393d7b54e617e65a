import { useEffect, useState } from "react";
import {
  type DataMessage,
  type DeviceKind,
  type LocalTrack,
  listDevices,
  onDevicesChanged,
  type RemoteParticipant,
  type RemoteTrack,
  type Room,
  type RoomEvents,
  type Speaker,
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

const onPeople = listenTo("participantJoined", "participantLeft", "participantUpdated", "connectionStateChanged");
const onTracks = listenTo(
  ...(["participantJoined", "participantLeft", "connectionStateChanged", "subscriptionChanged"] as const),
  ...([
    "trackPublished",
    "trackUnpublished",
    "trackSubscribed",
    "trackUnsubscribed",
    "trackMuted",
    "trackUnmuted",
  ] as const),
  ...(["localTrackPublished", "localTrackUnpublished", "localTrackMuted", "localTrackUnmuted"] as const),
);
const onSpeakers = listenTo("activeSpeakersChanged");
const onRecording = listenTo("recordingChanged", "connectionStateChanged");

/** Whether the room is being recorded; whoever is in it should be able to see that. */
export function useRecording(): boolean {
  return useSnapshot(useRoom().room, onRecording, (room) => room?.recording ?? false);
}

/** Everyone else in the room, in the order in which they came. */
export function useParticipants(): readonly RemoteParticipant[] {
  return useSnapshot(useRoom().room, onPeople, (room) => [...(room?.participants.values() ?? [])]);
}

/** A track as it is shown: whose, of what kind, and whether it is one's own. */
export type TrackReference = {
  id: string;
  identity: string;
  kind: "audio" | "video";
  source: TrackSource;
  muted: boolean;
  isLocal: boolean;
  track: LocalTrack | RemoteTrack;
};

const ALL: readonly TrackSource[] = ["camera", "screenShare", "microphone", "screenShareAudio", "other"];

/** Every track of the room, one's own first; only those of the given sources. */
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
  return { id, identity, isLocal, track, kind: track.kind, source: track.source, muted: track.muted };
}

/** The same list as long as both the tracks and the wish are the same, however often the wish is written anew. */
function useFiltered(all: readonly TrackReference[], sources: readonly TrackSource[]): readonly TrackReference[] {
  const wish = sources.join();
  const [kept, setKept] = useState(() => ({ all, wish, list: all.filter(({ source }) => sources.includes(source)) }));
  if (kept.all === all && kept.wish === wish) return kept.list;
  const fresh = { all, wish, list: all.filter(({ source }) => sources.includes(source)) };
  setKept(fresh);
  return fresh.list;
}

/** Who speaks, loudest first. */
export function useSpeakers(): readonly Speaker[] {
  return useSnapshot(useRoom().room, onSpeakers, (room) => room?.activeSpeakers ?? NOBODY);
}

const NOBODY: readonly Speaker[] = [];

/** Calls `listener` for each message; pass a stable function. */
export function useData(listener: (message: DataMessage) => void): void {
  const { room } = useRoom();
  useEffect(() => {
    return room?.on("dataReceived", listener);
  }, [room, listener]);
}

/** Cameras, microphones or loudspeakers of this machine, as they are plugged in and out. */
export function useDevices(kind: DeviceKind): readonly MediaDeviceInfo[] {
  const [devices, setDevices] = useState<readonly MediaDeviceInfo[]>([]);
  const { room } = useRoom();
  useEffect(() => {
    let current = true;
    const look = () => {
      listDevices(kind).then(
        (found) => current && setDevices(found),
        () => {},
      );
    };
    look();
    // Names are told only once a device may be used.
    const off = room?.on("localTrackPublished", look);
    const stop = typeof navigator !== "undefined" && navigator.mediaDevices ? onDevicesChanged(look) : undefined;
    return () => {
      current = false;
      off?.();
      stop?.();
    };
  }, [kind, room]);
  return devices;
}
