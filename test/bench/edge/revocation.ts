/** How long a relay outlives its token. */
import { within } from "../harness/patience.ts";
import { type Measured, median } from "../harness/report.ts";
import { openDetour } from "./detour.ts";
import { mint, ownRelay } from "./relayed-room.ts";
import { startEdgeServer } from "./server.ts";

const TIMES = 20;

export async function measureRevocation(): Promise<Measured[]> {
  const server = await startEdgeServer();
  try {
    const room = await server.api("POST", "/v1/rooms", { name: "revoked" });
    const times: number[] = [];
    for (let count = 0; count < TIMES; count++) {
      const minted = await mint(server, room.id, `guest-${count}`);
      const relay = await openDetour(ownRelay(server, minted));
      const startedAt = performance.now();
      const revoked = server.api("DELETE", `/v1/rooms/${room.id}/rtc-tokens/${minted.tokenId}`);
      await within("the end of a revoked relay", relay.closed);
      times.push(performance.now() - startedAt);
      await revoked;
    }
    return [
      { what: "from revoking a token to the end of its relay, median", value: median(times), unit: "ms" },
      { what: `the slowest of ${TIMES}`, value: Math.max(...times), unit: "ms", goal: { atMost: 2_000 } },
    ];
  } finally {
    await server.stop();
  }
}
