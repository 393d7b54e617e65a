import { useEffect, useRef, useState } from "preact/hooks";
import { RENDERED_ROOM_EVENTS } from "../../../room-events.ts";
import type { Room } from "../../../sdk/index.ts";
import { loadSdk } from "../../load-sdk.ts";
import { bitsText } from "../numbers.ts";
import { RecordingDot } from "../recording/record-button.tsx";
import { Badge } from "../states.tsx";
import { attempt, toastError } from "../toast.tsx";
import { Tile, tilesOf } from "./tile.tsx";

export type Admission = { endpoint: string; token: string; participantIdentity: string };

type CallProps = {
  title: string;
  /** Mints the token; called once. */
  admit: () => Promise<Admission>;
  /** Whether to publish the camera and the microphone. */
  publish: boolean;
  onLeft: () => void;
};

const STATS_EVERY_MS = 2_000;

/** A call in the page, with the same SDK that applications use. Leaving the page leaves the room. */
export function Call({ title, admit, publish, onLeft }: CallProps) {
  const [room, setRoom] = useState<Room | null>(null);
  const [, draw] = useState(0);
  const left = useRef(onLeft);
  left.current = onLeft;

  useEffect(() => {
    const scene = { gone: false, room: null as Room | null };
    const enter = async () => {
      const [{ connect }, { endpoint, token }] = await Promise.all([loadSdk(), admit()]);
      const joined = await connect(endpoint, token);
      scene.room = joined;
      if (scene.gone) return joined.close();
      for (const event of RENDERED_ROOM_EVENTS) joined.on(event, () => draw((count) => count + 1));
      joined.on("connectionStateChanged", (state, error) => {
        if (state !== "DISCONNECTED" && state !== "FAILED") return;
        if (error) toastError(error);
        left.current();
      });
      joined.on("error", toastError);
      setRoom(joined);
      if (!publish) return;
      const me = joined.localParticipant;
      // A missing or refused device must not prevent the other.
      await attempt(() => me.enableMicrophone());
      await attempt(() => me.enableCamera());
    };
    enter().catch((error) => {
      toastError(error);
      left.current();
    });
    return () => {
      scene.gone = true;
      void scene.room?.close();
    };
  }, []);

  return (
    <section class="card stack call" aria-label={title}>
      <div class="row between">
        <h2>
          {title} <Badge>{room?.state ?? "CONNECTING"}</Badge> {room?.recording && <RecordingDot />}
        </h2>
        <div class="actions">
          {room && publish && <Devices room={room} />}
          <button type="button" class="button danger" onClick={onLeft}>
            Leave
          </button>
        </div>
      </div>
      {room === null ? (
        <div class="loading" role="status" aria-label="Connecting" />
      ) : (
        <>
          <Tiles room={room} />
          <Path room={room} />
        </>
      )}
    </section>
  );
}

function Tiles({ room }: { room: Room }) {
  const tiles = tilesOf(room);
  if (tiles.length === 0) return <div class="empty">No participant sends media yet.</div>;
  return (
    <ul class="video-tiles">
      {tiles.map((tile) => (
        <Tile key={tile.id} {...tile} />
      ))}
    </ul>
  );
}

const DEVICES = [
  ["microphone", "enableMicrophone"],
  ["camera", "enableCamera"],
] as const;

function Devices({ room }: { room: Room }) {
  const me = room.localParticipant;
  return (
    <>
      {DEVICES.map(([source, enable]) => {
        const track = me.track(source);
        const on = track !== undefined && !track.muted;
        const toggle = () => (track && on ? me.mute(track) : me[enable]());
        return (
          <button key={source} type="button" class="button" aria-pressed={on} onClick={() => void attempt(toggle)}>
            {on ? `Mute ${source}` : `Open ${source}`}
          </button>
        );
      })}
    </>
  );
}

/** The transport path, the first thing to check when media stutters. */
function Path({ room }: { room: Room }) {
  const [text, setText] = useState("");
  useEffect(() => {
    const read = async () => {
      const stats = await room.getStats();
      if (!stats?.path) return;
      const { path, rttMs, outBps, inBps } = stats;
      setText(`${path.toUpperCase()} · ${rttMs ?? "–"} ms · ↑ ${bitsText(outBps)} · ↓ ${bitsText(inBps)}`);
    };
    const timer = setInterval(() => void read(), STATS_EVERY_MS);
    return () => clearInterval(timer);
  }, [room]);
  return <p class="small quiet mono">{text}</p>;
}
