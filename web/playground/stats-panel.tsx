import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Room, RoomStats } from "../sdk/index.ts";

const INTERVAL_MS = 1_000;

/** The connection's statistics, refreshed every second. */
export function StatsPanel({ room }: { room: Room }) {
  const stats = useSignal<RoomStats | null>(null);
  useEffect(() => {
    const read = async () => {
      stats.value = await room.getStats();
    };
    const timer = setInterval(() => void read(), INTERVAL_MS);
    void read();
    return () => clearInterval(timer);
  }, [room]);
  const now = stats.value;
  if (!now) return null;
  const activeTracks = now.tracks.filter(({ bps }) => (bps ?? 0) > 0);
  return (
    <aside class="stats" aria-label="Statistics">
      <p>
        {now.path ?? "no path"}, {now.rttMs ?? "–"} ms, in {kbps(now.inBps)}, out {kbps(now.outBps)}
      </p>
      <table>
        <tbody>
          {activeTracks.map((track) => (
            <tr key={`${track.direction}${track.mid}${track.rid}`}>
              <td>{track.direction === "in" ? "↓" : "↑"}</td>
              <td>
                {track.codec} {track.rid}
              </td>
              <td>{kbps(track.bps)}</td>
              <td>{track.height !== null && `${track.width}×${track.height} ${track.fps ?? 0} fps`}</td>
              <td>{track.direction === "in" && `lost ${track.packetsLost ?? 0}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </aside>
  );
}

const kbps = (bps: number | null) => (bps === null ? "–" : `${Math.round(bps / 1000)} kbit/s`);
