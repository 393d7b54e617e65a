import { afterAll, beforeAll, expect, test } from "bun:test";
import { stoa } from "../cli/stoa.ts";
import { Upgradable } from "./upgradable.ts";

const host = new Upgradable();
beforeAll(() => host.prepare());
afterAll(async () => {
  await host.end();
  host.remove();
});

test("stoa drain sends a node no more rooms, waits until it has none, and takes that back", async () => {
  await host.start();
  const drain = (...args: string[]) => stoa(["drain", ...args, "--data-dir", host.dataDir]);
  const { roomId, ada, ben } = await host.call();
  expect(await drain("nowhere")).toMatchObject({ code: 1, out: "", err: "stoa: There is no such media server.\n" });
  expect(await drain("local")).toMatchObject({ code: 0, out: "local gets no new rooms.\n" });
  const { body: other } = await host.server.call("POST", "/v1/rooms", { name: "other" });
  await expect(host.member(other.id, "cyd")).rejects.toThrow("NO_RTC_CAPACITY");
  await ben.receives();
  expect(ben.of("bye")).toEqual([]);
  expect((await host.server.call("GET", `/v1/rooms/${roomId}`)).body.participantCount).toBe(2);

  let isEmpty = false;
  const waiting = drain("local", "--wait").finally(() => {
    isEmpty = true;
  });
  await ben.receives();
  expect(isEmpty).toBe(false);
  for (const one of [ada, ben]) await one.client.leave();
  expect(await waiting).toMatchObject({ code: 0, err: "", out: "local has no rooms and gets no new ones.\n" });
  expect(await drain("local", "--undo")).toMatchObject({ code: 0, out: "local gets new rooms again.\n" });
  await host.member(other.id, "cyd");
});
