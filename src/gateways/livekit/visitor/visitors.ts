import type { TrackInfo } from "@livekit/protocol";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Foreign } from "../records.ts";
import type { Visitor } from "./visitor.ts";

export type Visitors = ReturnType<typeof createVisitors>;

/** LiveKit's clients that are in rooms now, and what they say of themselves and of their tracks. */
export function createVisitors({ bus }: Runtime) {
  const visitors = new Map<string, Visitor>();
  const tracks = new Map<string, TrackInfo>();
  bus.on("rtcConnection", ["trackPublished", "trackUnpublished", "left"], (fact) => {
    const visitor = visitors.get(fact.sessionId);
    if (!visitor) return;
    if (fact.type === "trackPublished") {
      const info = visitor.publishing.find(fact.track.id)?.info;
      if (info) tracks.set(fact.track.id, info);
    } else if (fact.type === "trackUnpublished") tracks.delete(fact.trackId);
    else {
      visitors.delete(fact.sessionId);
      for (const trackId of visitor.session.tracks.keys()) tracks.delete(trackId);
    }
  });
  const foreign: Foreign = {
    client: (sessionId) => visitors.get(sessionId)?.client,
    track: (trackId) => tracks.get(trackId),
  };
  return {
    foreign,
    of: (sessionId: string): Visitor | undefined => visitors.get(sessionId),
    add: (visitor: Visitor): void => void visitors.set(visitor.session.id, visitor),
  };
}
