import { afterAll, expect, test } from "bun:test";
import { chatWorld } from "../features/chat/world.ts";

const FRAMES = 50;
const world = await chatWorld({ CHAT_FRAME_RATE_LIMIT: FRAMES });
afterAll(world.close);

/** Frames that touch no other budget, so that only that of the socket can stop them. */
const CHEAP = ["room.leave", "ping", "token.refresh", "no.such.frame", "presence.set"];

for (const type of CHEAP) {
  test(`[contract 16] a socket that floods ${type} gets an error, and is closed with 4429 a hundred frames later`, async () => {
    const flooder = await world.client("alice");
    const honest = await world.client("bob");
    for (let i = 0; i < FRAMES + 200; i += 1) flooder.send({ type, id: `f${i}`, room: "nowhere" });
    await flooder.closed();
    expect(flooder.closeCode).toBe(4429);
    const refused = flooder.frames.filter(({ code }) => code === "RATE_LIMITED");
    expect(refused.length).toBe(100);
    expect(refused[0]).toMatchObject({ id: `f${FRAMES}`, retryAfterSeconds: expect.any(Number) });
    expect((await honest.ask("ping")).type).toBe("pong");
  });
}
