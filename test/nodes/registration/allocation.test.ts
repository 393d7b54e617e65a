import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { allocate, type Candidate } from "../../../src/nodes/registration/allocation.ts";

const node = (name: string, fields: Partial<Candidate> = {}): Candidate => ({
  name,
  region: "eu",
  status: "HEALTHY",
  capacity: null,
  rooms: 0,
  participants: 0,
  cpuPercent: 0,
  memoryPercent: 0,
  ...fields,
});
const order = (nodes: Candidate[], region = "eu") => allocate(nodes, region).map(({ name }) => name);

describe("[2] allocation", () => {
  test.each<[string, Candidate[], string[]]>([
    ["an empty fleet takes nothing", [], []],
    ["a draining node takes nothing new", [node("a", { status: "DRAINING" }), node("b")], ["b"]],
    ["an unhealthy node takes nothing", [node("a", { status: "UNHEALTHY" }), node("b")], ["b"]],
    [
      "capacity is a ceiling: one below it fits, at it nothing does",
      [
        node("full", { capacity: 3, rooms: 3 }),
        node("over", { capacity: 3, rooms: 4 }),
        node("room", { capacity: 3, rooms: 2 }),
      ],
      ["room"],
    ],
    [
      "the region wanted comes first",
      [node("a", { region: "us" }), node("b", { region: "eu", cpuPercent: 50 })],
      ["b", "a"],
    ],
    ["another region serves when the wanted one has none", [node("a", { region: "us" })], ["a"]],
    [
      "an overloaded node of the region is a last resort",
      [node("hot", { cpuPercent: 90 }), node("far", { region: "us", cpuPercent: 89 })],
      ["far", "hot"],
    ],
    [
      "so is one that is out of memory",
      [node("fat", { memoryPercent: 95 }), node("far", { region: "us", memoryPercent: 94 })],
      ["far", "fat"],
    ],
    ["the less loaded comes first", [node("a", { cpuPercent: 60 }), node("b", { cpuPercent: 20 })], ["b", "a"]],
    [
      "a nearly full node counts as loaded, whatever its processor says",
      [node("a", { capacity: 10, rooms: 8 }), node("b", { capacity: 10, rooms: 2, cpuPercent: 40 })],
      ["b", "a"],
    ],
    [
      "at like load, fewer participants decide; noise in the figures does not",
      [node("a", { cpuPercent: 12, participants: 40 }), node("b", { cpuPercent: 17, participants: 3 })],
      ["b", "a"],
    ],
    [
      "a node that has not reported yet counts as idle",
      [node("a", { cpuPercent: 30 }), node("b", { cpuPercent: null, participants: null })],
      ["b", "a"],
    ],
    ["equals are taken by name", [node("b"), node("c"), node("a")], ["a", "b", "c"]],
  ])("%s", (_rule, nodes, expected) => {
    expect(order(nodes)).toEqual(expected);
    expect(order([...nodes].reverse())).toEqual(expected);
  });

  test("for any fleet only healthy nodes below their capacity are returned, each once", () => {
    const candidate = fc.record({
      name: fc.uuid(),
      region: fc.constantFrom("eu", "us"),
      status: fc.constantFrom("HEALTHY" as const, "DRAINING" as const, "UNHEALTHY" as const),
      capacity: fc.option(fc.integer({ min: 1, max: 20 })),
      rooms: fc.nat(25),
      participants: fc.option(fc.nat(500)),
      cpuPercent: fc.option(fc.double({ min: 0, max: 100, noNaN: true })),
      memoryPercent: fc.option(fc.double({ min: 0, max: 100, noNaN: true })),
    });
    fc.assert(
      fc.property(fc.uniqueArray(candidate, { selector: ({ name }) => name, maxLength: 12 }), (nodes) => {
        const chosen = allocate(nodes, "eu");
        const fits = nodes.filter((n) => n.status === "HEALTHY" && (n.capacity === null || n.rooms < n.capacity));
        expect(new Set(chosen)).toEqual(new Set(fits));
        expect(chosen).toHaveLength(fits.length);
      }),
    );
  });
});
