import { expect, test } from "bun:test";
import { join } from "node:path";

/**
 * Files of `src` that one of each goes through, at most. What goes through more than that asks something of a feature that
 * nobody uses here, or passes on what could be asked where it is known; who finds a shorter way lowers the figure.
 */
const AT_MOST = { message: 31, request: 11, event: 22, join: 49, packet: 28 };
/** None of them gets past these: they show that entering is noticed at all. */
const SURELY = {
  message: "chat/message.service.ts",
  request: "kernel/http/guards.ts",
  event: "webhooks/deliver.ts",
  join: "signaling/session/join.ts",
  packet: "sfu/tracks/publication.ts",
};
type Walk = keyof typeof AT_MOST;
const WALKS = Object.keys(AT_MOST) as Walk[];

test("a message, a request, an event, a join and a packet go through few files", async () => {
  const here = (name: string) => join(import.meta.dir, name);
  const { STOA_TEST_LOG: _, MEDIA_FAN_OUT: __, ...env } = process.env;
  const walk = Bun.spawn([process.execPath, "--preload", here("tracer.ts"), here("walk.ts")], {
    ...{ env, stdout: "pipe", stderr: "inherit" },
  });
  const walked = JSON.parse(await new Response(walk.stdout).text()) as Record<Walk, string[]>;
  for (const name of WALKS) {
    expect(walked[name]).toContain(SURELY[name]);
    const files = walked[name].length > AT_MOST[name] ? walked[name] : [];
    expect({ walk: name, files }).toEqual({ walk: name, files: [] });
  }
}, 180_000);
