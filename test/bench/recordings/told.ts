/** What a server reports about a recording: to webhooks when it begins and ends, and in its timeline. */
import type { Recording } from "../../../src/protocol/recordings.ts";
import type { Stoa } from "../../../web/sdk/server.ts";
import { ok, startReceiver } from "../../features/webhooks/receiver.ts";
import { LOAD_ADDRESS } from "../harness/own-network.ts";

const TOLD_WITHIN_MS = 30_000;
/** Events about speakers and quality depend on the machine, so only these are counted. */
const COUNTED = ["participant.joined", "participant.left"];
const isCounted = (type: string) => COUNTED.includes(type) || type.startsWith("track.");

/** The events of each participant who joins and sends. */
export const CAME = ["participant.joined", "track.published", "track.published"];

export async function listen(stoa: Stoa) {
  const receiver = startReceiver(ok, LOAD_ADDRESS);
  const events = ["recording.started" as const, "recording.ready" as const, "recording.failed" as const];
  await stoa.webhooks.create({ url: receiver.url, events });
  const recordingsIn = (id: string) =>
    receiver.received.flatMap(({ event }) => {
      const recording = event.data.recording as Recording;
      return recording.id === id ? [{ type: event.type, recording }] : [];
    });

  return {
    /** Returns what was not reported as it should have been; `happened` has the counted events of each participant. */
    async complaints(stopped: Recording, happened: Record<string, readonly string[]>): Promise<string[]> {
      const deadline = Date.now() + TOLD_WITHIN_MS;
      while (recordingsIn(stopped.id).length < 2 && Date.now() < deadline) await Bun.sleep(50);
      const hooks = recordingsIn(stopped.id).sort((a, b) => b.type.localeCompare(a.type));
      const complaints: string[] = [];
      const types = hooks.map(({ type }) => type).join(", ");
      if (types !== "recording.started, recording.ready") complaints.push(`webhooks: ${types || "none"}`);
      const ready = hooks.find(({ type }) => type === "recording.ready")?.recording;
      if (ready && JSON.stringify(ready) !== JSON.stringify(stopped))
        complaints.push(`recording.ready has ${JSON.stringify(ready)}, the API ${JSON.stringify(stopped)}`);

      const timeline = await stoa.recordings.timeline(stopped.id);
      for (const [identity, expected] of Object.entries(happened)) {
        const found = timeline.filter((entry) => entry.identity === identity && isCounted(entry.type));
        const [had, wanted] = [found.map(({ type }) => type).sort(), [...expected].sort()].map((list) =>
          list.join(", "),
        );
        if (had !== wanted) complaints.push(`timeline of ${identity}: ${had} instead of ${wanted}`);
      }
      if (timeline.some(({ atMs }, i) => atMs < (timeline[i - 1]?.atMs ?? 0))) complaints.push("timeline out of order");
      return complaints;
    },
    close: () => receiver.close(),
  };
}
