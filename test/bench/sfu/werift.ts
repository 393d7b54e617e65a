import type { Contestant } from "./contestant.ts";
import { startLineServer } from "./line-server.ts";

export async function werift(): Promise<Contestant> {
  const { pid, negotiate, stop } = startLineServer([process.execPath, `${import.meta.dir}/werift-server.ts`]);
  return {
    name: "werift",
    pid,
    negotiate,
    admit: () => Promise.resolve(),
    published: () => Promise.resolve([]),
    stop,
  };
}
