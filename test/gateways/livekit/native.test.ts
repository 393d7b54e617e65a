import { afterAll, beforeAll, expect, test } from "bun:test";
import { startNative } from "./harness/native-process.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

test("the native Node SDK joins, exchanges audio, video, data, RPC and attributes, and leaves", async () => {
  const tokens = { ann: await stage.token("native", "ann"), ben: await stage.token("native", "ben") };
  const pair = startNative("native-pair.mjs", { packages: stage.packages, url: stage.wsUrl, tokens });
  try {
    await pair.says("ann is in native");
    await Promise.all(
      ["ben gets ann audio", "ben gets ann video", "ann gets ben audio"].map((line) => pair.says(line)),
    );
    await pair.says("ready");
    pair.does("data");
    await Promise.all([pair.says("ben reads ann t to all"), pair.says("rpc 42")]);
    pair.does("attributes");
    await pair.says('ben sees ann {"team":"red"}');
    pair.does("unpublish");
    await pair.says("ben sees ann unpublish");
    pair.does("again");
    await pair.says("ben gets ann video", 2);

    const microphone = (
      (await stage.rooms.getParticipant("native", "ann")).tracks as { sid: string; type: number }[]
    ).find(({ type }) => type === 0);
    await stage.rooms.mutePublishedTrack("native", "ann", microphone?.sid, true);
    await pair.says("ben sees ann muted");
    // One each on record, with the SDK that it says it is.
    const live = await stage.stoa.rooms.list();
    expect(live.find(({ name }) => name === "native")?.participantCount).toBe(2);
    const records = await stage.stoa.connections.list();
    expect(records.map(({ participantIdentity }) => participantIdentity).sort()).toEqual(["ann", "ben"]);
    for (const { sdk } of records) expect(sdk).toMatch(/^livekit-(node|rust)\/\d/);
    pair.does("leave");
    await pair.says("ben sees ann leave");
    expect(pair.lines.filter((line) => line.includes("to all"))).toEqual(["ben reads ann t to all"]);
  } finally {
    await pair.end();
  }
}, 180_000);
