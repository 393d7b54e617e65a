import { afterAll, beforeAll, expect, test } from "bun:test";
import { startNative } from "./harness/native-process.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

/** Names as people type them; LiveKit takes any text. */
const ROOM = "Große Halle / 7+";
const ANN = "Ann Ö. 🙂 #1";

test("the native Node SDK joins, exchanges audio, video, data, RPC and attributes, and leaves", async () => {
  const tokens = { ann: await stage.token(ROOM, ANN), ben: await stage.token(ROOM, "ben") };
  const pair = startNative("native-pair.mjs", { packages: stage.packages, url: stage.wsUrl, tokens });
  try {
    await pair.says(`ann is in ${ROOM}`);
    await Promise.all(
      [`ben gets ${ANN} audio`, `ben gets ${ANN} video`, "ann gets ben audio"].map((line) => pair.says(line)),
    );
    await pair.says("ready");
    await pair.says("ann knows that she is heard");
    pair.does("data");
    await Promise.all([pair.says(`ben reads ${ANN} t to all`), pair.says("rpc 42")]);
    pair.does("attributes");
    await pair.says(`ben sees ${ANN} {"team":"red"}`);
    pair.does("unpublish");
    await pair.says(`ben sees ${ANN} unpublish`);
    pair.does("again");
    await pair.says(`ben gets ${ANN} video`, 2);

    // The backend names one participant by its sid, and nobody else gets the message.
    const { sid } = await stage.rooms.getParticipant(ROOM, "ben");
    const text = (words: string) => new TextEncoder().encode(words);
    await stage.rooms.sendData(ROOM, text("for ben"), 0, { destinationSids: [sid], topic: "s" });
    await stage.rooms.sendData(ROOM, text("for nobody"), 0, { destinationSids: ["PA_nobody"], topic: "s" });
    // Bytes that are no text, and more than our own API takes.
    const large = new Uint8Array(30_000).fill(0x78);
    large[0] = 0xff;
    await stage.rooms.sendData(ROOM, large, 0, { destinationIdentities: ["ben"], topic: "large" });
    await pair.says(`ben reads undefined large ${new TextDecoder().decode(large)}`);
    await stage.rooms.sendData(ROOM, text("for both"), 0, { destinationIdentities: [ANN, "ben"], topic: "s" });
    await Promise.all(["ann", "ben"].map((one) => pair.says(`${one} reads undefined s for both`)));
    expect(pair.lines.filter((line) => / s for (ben|nobody)$/.test(line))).toEqual(["ben reads undefined s for ben"]);

    const microphone = ((await stage.rooms.getParticipant(ROOM, ANN)).tracks as { sid: string; type: number }[]).find(
      ({ type }) => type === 0,
    );
    await stage.rooms.mutePublishedTrack(ROOM, ANN, microphone?.sid, true);
    await pair.says(`ben sees ${ANN} muted`);
    // One each on record, with the SDK that it says it is.
    const live = await stage.stoa.rooms.list();
    expect(live.find(({ name }) => name === ROOM)?.participantCount).toBe(2);
    const records = await stage.stoa.connections.list();
    expect(records.map(({ participantIdentity }) => participantIdentity).sort()).toEqual([ANN, "ben"]);
    for (const { sdk } of records) expect(sdk).toMatch(/^livekit-(node|rust)\/\d/);
    pair.does("leave");
    await pair.says(`ben sees ${ANN} leave`);
    expect(pair.lines.filter((line) => line.includes("to all"))).toEqual([`ben reads ${ANN} t to all`]);
  } finally {
    await pair.end();
  }
}, 180_000);
