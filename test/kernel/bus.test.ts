import { beforeEach, expect, test } from "bun:test";
import { type Bus, createBus } from "../../src/kernel/bus.ts";
import { openDatabase } from "../../src/kernel/db/open.ts";
import { createWriter, type Writer } from "../../src/kernel/db/writer.ts";

type Typed = { type: "joined"; identity: string } | { type: "left"; reason: string };
type TestEvents = { stored: { n: number }; seen: { n: number }; typedStored: Typed; typedSeen: Typed };

let calls: string[];
let bus: Bus<TestEvents, "stored" | "typedStored">;
let writer: Writer;

beforeEach(() => {
  calls = [];
  bus = createBus<TestEvents, "stored" | "typedStored">((error) => calls.push(String(error)));
  writer = createWriter(openDatabase(":memory:").$client, (error) => calls.push(String(error)));
});

test("inTransaction listeners get the publishing unit of work, on listeners run after its commit", async () => {
  bus.inTransaction("stored", (unit, { n }) => {
    calls.push(`in transaction ${n}`);
    unit.afterCommit(() => calls.push("listener's afterCommit"));
  });
  bus.on("stored", ({ n }) => calls.push(`on ${n}`));
  await writer.write((unit) => {
    bus.publish(unit, "stored", { n: 1 });
    calls.push("published");
  });
  expect(calls).toEqual(["in transaction 1", "published", "listener's afterCommit", "on 1"]);
});

test("an inTransaction listener that throws fails the unit of work, and on listeners never see its event", async () => {
  bus.on("stored", () => calls.push("on"));
  const stop = bus.inTransaction("stored", () => {
    throw new Error("refused");
  });
  await expect(writer.write((unit) => bus.publish(unit, "stored", { n: 1 }))).rejects.toThrow("refused");
  expect(calls).toEqual([]);
  stop();
  await writer.write((unit) => bus.publish(unit, "stored", { n: 2 }));
  expect(calls).toEqual(["on"]);
});

test("emit calls listeners at once, and a listener that throws does not keep the event from the next", () => {
  bus.on("seen", () => {
    throw new Error("broken");
  });
  bus.on("seen", ({ n }) => calls.push(`on ${n}`));
  bus.emit("seen", { n: 3 });
  expect(calls).toEqual(["Error: broken", "on 3"]);
});

test("an event cannot be published with a unit of work that is over", async () => {
  const over = await writer.write((unit) => ({ unit }));
  expect(() => bus.publish(over.unit, "stored", { n: 1 })).toThrow("this unit of work is over");
});

test("an inTransaction listener with types gets those types only, after the listeners of all types", async () => {
  const stop = bus.inTransaction("typedStored", ["left"], (_unit, { reason }) => calls.push(`left: ${reason}`));
  bus.inTransaction("typedStored", (_unit, { type }) => calls.push(type));
  await writer.write((unit) => {
    bus.publish(unit, "typedStored", { type: "joined", identity: "ann" });
    bus.publish(unit, "typedStored", { type: "left", reason: "late" });
  });
  expect(calls).toEqual(["joined", "left", "left: late"]);
  stop();
  await writer.write((unit) => bus.publish(unit, "typedStored", { type: "left", reason: "again" }));
  expect(calls).toEqual(["joined", "left", "left: late", "left"]);
});

test("an on listener with types gets those types only, for published and emitted events", async () => {
  const stop = bus.on("typedStored", ["left"], ({ reason }) => calls.push(`published: ${reason}`));
  bus.on("typedSeen", ["left"], ({ reason }) => calls.push(`emitted: ${reason}`));
  bus.on("typedStored", ({ type }) => calls.push(type));
  await writer.write((unit) => {
    bus.publish(unit, "typedStored", { type: "joined", identity: "ann" });
    bus.publish(unit, "typedStored", { type: "left", reason: "late" });
    expect(calls).toEqual([]);
  });
  bus.emit("typedSeen", { type: "joined", identity: "bob" });
  bus.emit("typedSeen", { type: "left", reason: "early" });
  expect(calls).toEqual(["joined", "left", "published: late", "emitted: early"]);
  stop();
  await writer.write((unit) => bus.publish(unit, "typedStored", { type: "left", reason: "again" }));
  expect(calls).toEqual(["joined", "left", "published: late", "emitted: early", "left"]);
});
