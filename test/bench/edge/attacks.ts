/** Ten thousand half-open connections, requests without an end and a flood of allocations, beside a call. */
import { join } from "node:path";
import type { Measured } from "../harness/report.ts";
import { openRelayedCall } from "./relayed-call.ts";
import { mint, ownRelay } from "./relayed-room.ts";
import { startEdgeServer } from "./server.ts";

/** Attackers have machines of their own; on this one they get what the server leaves. */
const ELSEWHERE = ["nice", "-n", "15"];

export async function underAttack(seconds: number): Promise<Measured[]> {
  const server = await startEdgeServer();
  try {
    const quiet = await openRelayedCall(server);
    await Bun.sleep(5_000);
    const before = await quiet.end();
    const room = await server.api("POST", "/v1/rooms", { name: "attacker" });
    const { username, credential } = ownRelay(server, await mint(server, room.id, "mallory"));
    const call = await openRelayedCall(server);
    const script = [process.execPath, join(import.meta.dir, "attacker.ts")];
    const given = [String(server.edgePort), String(seconds), username, credential];
    const attacker = Bun.spawn([...ELSEWHERE, ...script, ...given], { stdout: "pipe", stderr: "inherit" });
    console.log(`attacker: ${(await new Response(attacker.stdout).text()).trim()}`);
    const during = await call.end();
    return [
      { what: "a call without attackers: longest gap", value: before.longestGapMs, unit: "ms" },
      { what: "under attack: longest gap", value: during.longestGapMs, unit: "ms", goal: { atMost: 1_000 } },
      {
        what: "under attack: connections of the call closed",
        value: Number(during.isClosed),
        unit: "",
        goal: { atMost: 0 },
      },
    ];
  } finally {
    await server.stop();
  }
}
