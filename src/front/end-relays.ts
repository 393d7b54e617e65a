import type { Edge } from "../edge/edge.ts";
import { ICE_CREDENTIAL_MS } from "../rooms/ice-servers.ts";
import type { Runtime } from "../runtime.ts";

/** A relay ends with the session or the token that it was for. */
export function endRelays({ bus, now }: Runtime, edge: Edge): void {
  const end = (id: string) => edge.end(id, now() + ICE_CREDENTIAL_MS);
  bus.on("rtcTokenRevoked", ({ tokenId }) => end(tokenId));
  bus.onOf("rtcConnection", ["left"], ({ sessionId, mediaKept }) => {
    if (mediaKept === undefined) end(sessionId);
  });
}
