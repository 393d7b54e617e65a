import { ICE_CREDENTIAL_MS } from "../../features/rooms/ice-servers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Edge } from "../../network/tls/edge.ts";

/** A relay ends with the session or the token that it was for. */
export function endRelays({ bus, now }: Runtime, edge: Edge): void {
  const end = (id: string) => edge.end(id, now() + ICE_CREDENTIAL_MS);
  bus.on("rtcTokenRevoked", ({ tokenId }) => end(tokenId));
  bus.on("rtcConnection", ["left"], ({ sessionId, mediaKept }) => {
    if (mediaKept === undefined) end(sessionId);
  });
}
