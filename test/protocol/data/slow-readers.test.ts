/** A sender that waits for its readers, with the server's queue for one of them in between. */
import { expect, test } from "bun:test";
import { SlowReaders } from "../../../src/protocol/data/slow-readers.ts";
import { DataMessage } from "../../../src/sfu/room/data-message.ts";
import { DataRelay } from "../../../src/sfu/room/data-relay.ts";
import type { DataChannel } from "../../../src/sfu/werift/werift-hooks.ts";

test("170 messages of 60 KB all reach a reader that takes one at a time", async () => {
  const arrived: string[] = [];
  const channel = {
    label: "reliable",
    protocol: "",
    isOpen: true,
    bufferedAmount: 0,
    close: () => expect.unreachable(),
    send(text: string | Buffer) {
      channel.bufferedAmount += text.length;
      arrived.push(JSON.parse(String(text)).payload.slice(0, 3));
    },
  };
  const self = { identity: "ann", participantId: "p1" };
  const owner = { self, isAgent: false, permissions: { publishData: true }, emit() {} };
  const reader = new DataRelay({ relay: () => true }, owner, () => 0);
  reader.opened(channel as DataChannel);
  const slow = new SlowReaders();
  let pushes = 0;
  const sender = {
    readerBehind(identity: string, bytes: number) {
      pushes += 1;
      slow.update(identity, bytes);
    },
    readerLost: () => expect.unreachable(),
  };
  const draining = setInterval(() => {
    channel.bufferedAmount = 0;
    reader.tick();
  }, 0);
  const sent = Array.from({ length: 170 }, (_, n) => String(n).padStart(3, "0"));
  for (const n of sent) {
    await slow.wait(n.endsWith("1") ? undefined : ["ann"]);
    reader.deliver("reliable", DataMessage.ofFrame(null, { payload: n.padEnd(60_000) }), sender);
  }
  while (arrived.length < sent.length) await new Promise((drained) => setTimeout(drained, 0));
  clearInterval(draining);
  expect(arrived).toEqual(sent);
  expect(pushes).toBeGreaterThan(4);
});

test("nobody waits for a reader of other messages, nor for one that has left", async () => {
  const slow = new SlowReaders();
  slow.update("ann", 2_000_000);
  await slow.wait(["ben"]);
  let isSent = false;
  const waiting = slow.wait(undefined).then(() => {
    isSent = true;
  });
  await Promise.resolve();
  expect(isSent).toBe(false);
  slow.update("ann", 0);
  await waiting;
  slow.update("ann", 2_000_000);
  slow.clear();
  await slow.wait(["ann"]);
});
