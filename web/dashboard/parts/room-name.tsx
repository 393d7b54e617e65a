import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../api.ts";
import { useProject } from "../project.ts";

/** Titles of live streams by id; null while one is loading or when the stream is gone. */
const titles = signal<ReadonlyMap<string, string | null>>(new Map());
const MAX_TITLES = 1_000;

/** The room and the conversation of a live stream are named after its id. */
const isStreamId = (name: string) => /^stream_[0-9A-Za-z]{24}$/.test(name);

/** The name of a room or conversation; of a live stream, its title. */
export function useRoomTitle(name: string): string {
  const { at, environment } = useProject();
  const isStream = isStreamId(name);
  useEffect(() => {
    if (!isStream || titles.value.has(name)) return;
    const set = (title: string | null) => {
      const kept = [...titles.value].filter(([id]) => id !== name).slice(1 - MAX_TITLES);
      titles.value = new Map([...kept, [name, title]]);
    };
    set(null);
    request(at["live-streams"]({ streamId: name }).get({ query: { environment } })).then(
      ({ title }) => set(title),
      () => {},
    );
  }, [name, isStream]);
  return (isStream && titles.value.get(name)) || name;
}

export function RoomName({ name }: { name: string }) {
  const title = useRoomTitle(name);
  return <span title={title === name ? undefined : name}>{title}</span>;
}
