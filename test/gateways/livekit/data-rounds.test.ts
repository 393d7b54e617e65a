// suite: soak
/** Whether data of LiveKit's clients is lost, round by round: on joining, after a full reconnect and during one. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anything, enter, prepare } from "./harness/rooms-in-page.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

const ROUNDS = Number(process.env.ROUNDS ?? 20);

declare global {
  interface Window {
    /** What each participant has received. */
    got: Record<string, string[]>;
  }
}

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

const CLIENTS: { client: string; script: LivekitPackage; room: object }[] = [
  { client: "2.23 on one connection", script: "livekit-client", room: { singlePeerConnection: true } },
  { client: "2.23 on two connections", script: "livekit-client", room: { singlePeerConnection: false } },
  { client: "2.15", script: "livekit-client-two-connections", room: {} },
];

/** What one participant sends to the other: data around and between streams, so that it could overtake them. */
const SENT = ["data 0", "text 40000", "data 1", "file 60000", "data 2", "bytes 30000", "data 3"];

test.each(CLIENTS)(
  "livekit-client $client: every reliable packet and stream arrives, once",
  async ({ client, script, room: options }) => {
    const page = await stage.page(script);
    await prepare(page);
    const send = (from: string, when: string) =>
      page.evaluate(
        async ({ from, when }) => {
          const { localParticipant: me } = window.rooms[from];
          const data = (text: string) =>
            me.publishData(new TextEncoder().encode(`${when} ${text}`), { reliable: true, topic: "data" });
          const attributes = { when };
          await data("data 0");
          await me.sendText("x".repeat(40_000), { topic: "text", attributes });
          await data("data 1");
          // It has no attributes, but a name.
          await me.sendFile(new File([crypto.getRandomValues(new Uint8Array(60_000))], when), { topic: "file" });
          await data("data 2");
          const bytes = await me.streamBytes({ name: when, topic: "bytes" });
          await bytes.write(crypto.getRandomValues(new Uint8Array(30_000)));
          await bytes.close();
          await data("data 3");
          for (let n = 0; n < 10; n++)
            await me.publishData(new TextEncoder().encode(when), { reliable: false, topic: "lossy" });
        },
        { from, when },
      );
    /** What has arrived at `to` since, and how many of the ten lossy packets. */
    const arrives = async (to: string, when: string) => {
      const wanted = SENT.map((one) => `${when} ${one}`);
      const read = () =>
        page.evaluate(({ to, when }) => window.got[to]?.filter((one) => one.startsWith(when)) ?? [], {
          to,
          when,
        });
      const deadline = Date.now() + 20_000;
      let got = await read();
      while (got.filter((one) => one !== when).length < wanted.length && Date.now() < deadline) {
        await Bun.sleep(50);
        got = await read();
      }
      expect({ to, when, got: got.filter((one) => one !== when).sort() }).toEqual({ to, when, got: wanted.sort() });
      lossy.got += got.filter((one) => one === when).length;
      lossy.sent += 10;
    };
    const lossy = { sent: 0, got: 0 };
    let duringLost = 0;
    // On two connections, what is sent meanwhile makes the SDK reconnect once more.
    const sendsMeanwhile = client.endsWith("one connection");

    for (let round = 0; round < ROUNDS; round++) {
      const room = `rounds ${client} ${round}`;
      await page.evaluate(() => {
        window.got = { ann: [], ben: [] };
        window.prepareRoom = (identity, room) => {
          const got = window.got[identity] as string[];
          room
            .on("dataReceived", (payload: Uint8Array) => got.push(new TextDecoder().decode(payload)))
            .registerTextStreamHandler("text", async (reader: Anything) => {
              got.push(`${reader.info.attributes.when} text ${(await reader.readAll()).length}`);
            });
          for (const topic of ["file", "bytes"]) {
            room.registerByteStreamHandler(topic, async (reader: Anything) => {
              const parts: Uint8Array[] = await reader.readAll();
              got.push(`${reader.info.name} ${topic} ${parts.reduce((sum, { length }) => sum + length, 0)}`);
            });
          }
        };
      }, undefined);
      await enter(page, "ben", stage.wsUrl, await stage.token(room, "ben"), { room: options });
      await enter(page, "ann", stage.wsUrl, await stage.token(room, "ann"), { room: options });
      await page.waitForFunction(() => window.rooms.ben.remoteParticipants.has("ann"), undefined, { timeout: WAIT_MS });
      await Promise.all([send("ann", "joined"), send("ben", "joined")]);
      await Promise.all([arrives("ben", "joined"), arrives("ann", "joined")]);

      const outcome = await page.evaluate(async (sends) => {
        const { ann } = window.rooms;
        const back = new Promise((resolve) => ann.once("reconnected", resolve));
        await ann.simulateScenario("full-reconnect");
        await new Promise((resolve) => setTimeout(resolve, 100));
        const data = { reliable: true, topic: "data" };
        const sent: Promise<string> = !sends
          ? Promise.resolve("not sent")
          : ann.localParticipant.publishData(new TextEncoder().encode("during data"), data).then(
              () => "sent",
              () => "refused",
            );
        await back;
        return sent;
      }, sendsMeanwhile);
      await page.waitForFunction(() => window.rooms.ben.remoteParticipants.has("ann"), undefined, { timeout: WAIT_MS });
      await Promise.all([send("ann", "again"), send("ben", "again")]);
      await Promise.all([arrives("ben", "again"), arrives("ann", "again")]);
      const during = await page.evaluate(() => window.got.ben?.includes("during data"), undefined);
      if (outcome === "sent" && !during) duringLost += 1;
      await page.evaluate(() => Promise.all(["ann", "ben"].map((one) => window.rooms[one].disconnect())), undefined);
    }
    console.log(`${client}: lossy ${lossy.got} of ${lossy.sent}; lost while reconnecting ${duringLost} of ${ROUNDS}`);
    expect(lossy.got).toBeGreaterThan(lossy.sent * 0.9);
    await page.context().close();
  },
  ROUNDS * 30_000,
);
