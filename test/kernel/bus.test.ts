import { beforeEach, expect, test } from "bun:test";
import { type Bus, createBus, ofRooms } from "../../src/kernel/bus.ts";
import { openDatabase } from "../../src/kernel/db/open.ts";
import { createWriter, type Writer } from "../../src/kernel/db/writer.ts";

type Typed = { type: "came"; who: string } | { type: "left"; why: string };
type Facts = { kept: { n: number }; seen: { n: number }; typed: Typed; told: Typed };

let heard: string[];
let bus: Bus<Facts, "kept" | "typed">;
let writer: Writer;

beforeEach(() => {
  heard = [];
  bus = createBus<Facts, "kept" | "typed">((error) => heard.push(String(error)));
  writer = createWriter(openDatabase(":memory:").$client, (error) => heard.push(String(error)));
});

test("within listeners get the unit that made the fact true; on listeners hear of it after the commit", async () => {
  bus.within("kept", (unit, { n }) => {
    heard.push(`within ${n}`);
    unit.afterCommit(() => heard.push("joined"));
  });
  bus.on("kept", ({ n }) => heard.push(`on ${n}`));
  await writer.write((unit) => {
    bus.announce(unit, "kept", { n: 1 });
    heard.push("announced");
  });
  expect(heard).toEqual(["within 1", "announced", "joined", "on 1"]);
});

test("a fact of a unit that fails is told to nobody, and a listener within it can make it fail", async () => {
  bus.on("kept", () => heard.push("on"));
  const stop = bus.within("kept", () => {
    throw new Error("refused");
  });
  await expect(writer.write((unit) => bus.announce(unit, "kept", { n: 1 }))).rejects.toThrow("refused");
  expect(heard).toEqual([]);
  stop();
  await writer.write((unit) => bus.announce(unit, "kept", { n: 2 }));
  expect(heard).toEqual(["on"]);
});

test("what no transaction made true is told at once, and a listener that throws does not silence the next", () => {
  bus.on("seen", () => {
    throw new Error("deaf");
  });
  bus.on("seen", ({ n }) => heard.push(`on ${n}`));
  bus.tell("seen", { n: 3 });
  expect(heard).toEqual(["Error: deaf", "on 3"]);
});

test("a fact cannot be announced with a unit that is over", async () => {
  const over = await writer.write((unit) => ({ unit }));
  expect(() => bus.announce(over.unit, "kept", { n: 1 })).toThrow("this unit of work is over");
});

test("whoever waits for facts of one type is not asked about others, and comes after those who hear of all", async () => {
  const stop = bus.withinOf("typed", ["left"], (_unit, { why }) => heard.push(`left: ${why}`));
  bus.within("typed", (_unit, { type }) => heard.push(type));
  await writer.write((unit) => {
    bus.announce(unit, "typed", { type: "came", who: "ann" });
    bus.announce(unit, "typed", { type: "left", why: "late" });
  });
  expect(heard).toEqual(["came", "left", "left: late"]);
  stop();
  await writer.write((unit) => bus.announce(unit, "typed", { type: "left", why: "again" }));
  expect(heard).toEqual(["came", "left", "left: late", "left"]);
});

test("the same once it is on disk, and for what no transaction made true", async () => {
  const stop = bus.onOf("typed", ["left"], ({ why }) => heard.push(`left: ${why}`));
  bus.onOf("told", ["left"], ({ why }) => heard.push(`told: ${why}`));
  bus.on("typed", ({ type }) => heard.push(type));
  await writer.write((unit) => {
    bus.announce(unit, "typed", { type: "came", who: "ann" });
    bus.announce(unit, "typed", { type: "left", why: "late" });
    expect(heard).toEqual([]);
  });
  bus.tell("told", { type: "came", who: "bob" });
  bus.tell("told", { type: "left", why: "early" });
  expect(heard).toEqual(["came", "left", "left: late", "told: early"]);
  stop();
  await writer.write((unit) => bus.announce(unit, "typed", { type: "left", why: "again" }));
  expect(heard).toEqual(["came", "left", "left: late", "told: early", "left"]);
});

test("whoever waits for some alone is not asked about others, as they are by then", async () => {
  const wanted = new Set(["ann"]);
  const among = { has: (fact: Typed) => fact.type === "came" && wanted.has(fact.who) };
  bus.withinOf("typed", ["came"], (_unit, { who }) => heard.push(`within ${who}`), among);
  const stop = bus.onOf("told", ["came"], ({ who }) => heard.push(`on ${who}`), among);
  await writer.write((unit) => {
    for (const who of ["ann", "ben"]) bus.announce(unit, "typed", { type: "came", who });
  });
  bus.tell("told", { type: "came", who: "ben" });
  wanted.add("ben");
  bus.tell("told", { type: "came", who: "ben" });
  stop();
  bus.tell("told", { type: "came", who: "ann" });
  expect(heard).toEqual(["within ann", "on ben"]);
});

test("facts of some rooms alone", () => {
  const rooms = new Map([["r1", null]]);
  expect(["r1", "r2"].filter((roomId) => ofRooms(rooms).has({ roomId }))).toEqual(["r1"]);
});
