/** Clients of an older SDK, which send JSON frames, beside those that send packets. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { DataRoom } from "./data-room.ts";

let room: DataRoom;
beforeEach(() => {
  room = new DataRoom();
});
afterEach(() => room.close());

test("text passes in both directions with each client's numbers, and bytes and streams do not disturb an older client", async () => {
  const [ann, old] = [room.join("ann"), room.joinWithFrames("old")];
  await Bun.sleep(0);
  old.send({ payload: "from frames", topic: "t", stream: "s", seq: 1 });
  while (ann.messages.length < 1) await Bun.sleep(1);
  expect(ann.messages[0]).toMatchObject({ from: "old", topic: "t", payload: "from frames" });
  await ann.data.sendData(Uint8Array.of(0xff), {});
  await ann.data.sendText("a stream", { topic: "t" });
  await ann.data.sendData("from packets", { topic: "t", to: ["old"] });
  const deliveries = () => old.received.filter((frame) => "payload" in frame);
  while (deliveries().length < 1) await Bun.sleep(1);
  expect(deliveries()).toEqual([{ seq: 1, from: "ann", topic: "t", payload: "from packets" }]);
  expect(old.received.filter((frame) => "heard" in frame).at(-1)).toEqual({ heard: 1 });
  // The bytes and the three parts of the stream were dropped, which their sender is told.
  expect(["ann", "old"].map((who) => room.room.find(who)?.data.refused)).toEqual([4, 0]);
});
