import { expect, test } from "bun:test";
import { RoomSites } from "../../src/nodes/room-sites.ts";

const worker = (name: string, isBusy = false) => ({ name, isBusy });
const fill = (room: RoomSites<ReturnType<typeof worker>>, from: number, count: number) => {
  for (let i = from; i < from + count; i++) room.place(`p${i}`, `identity-${i}`);
};

test("a room stays on its main worker until that is full, and then fills the next one", () => {
  const [main, second] = [worker("main"), worker("second")];
  const room = new RoomSites({ roomId: "r" }, main, 10);
  fill(room, 0, 9);
  expect(room.isFull).toBe(false);
  expect(room.place("p9", "identity-9")).toBe(main);
  expect(room.isFull).toBe(true);
  // Until another worker has opened the room, all participants go to the main one.
  expect(room.place("p10", "identity-10")).toBe(main);
  room.add(second);
  expect(room.isFull).toBe(false);
  expect(room.place("p11", "identity-11")).toBe(second);
  expect(room.place("p0", "identity-0")).toBe(main);
  expect(room.workerOf("p11")).toBe(second);
  expect(room.workerOfIdentity("identity-11")).toBe(second);
  expect(room.workerOf("stranger")).toBe(main);
  expect(room.size).toBe(12);
});

test("a full room on all workers grows where it has the fewest participants", () => {
  const [main, second] = [worker("main"), worker("second")];
  const room = new RoomSites({ roomId: "r" }, main, 2);
  fill(room, 0, 4);
  room.add(second);
  expect([room.place("a", "a"), room.place("b", "b")]).toEqual([second, second]);
  expect([room.place("c", "c"), room.place("d", "d")]).toEqual([second, second]);
  expect(room.place("e", "e")).toBe(main);
});

test("a busy worker is full with a fifth of the participants", () => {
  const room = new RoomSites({ roomId: "r" }, worker("main", true), 100);
  fill(room, 0, 19);
  expect(room.isFull).toBe(false);
  fill(room, 19, 1);
  expect(room.isFull).toBe(true);
});

test("when its last participant leaves, a worker loses the room, unless it is the main one or is just being added", () => {
  const [main, second] = [worker("main"), worker("second")];
  const room = new RoomSites({ roomId: "r" }, main, 1);
  fill(room, 0, 1);
  room.add(second);
  room.place("far", "far");
  room.isGrowing = true;
  expect(room.remove("far")).toBeNull();
  room.isGrowing = false;
  room.place("again", "again");
  expect(room.remove("p0")).toBeNull();
  expect(room.remove("again")).toBe(second);
  expect(room.remove("again")).toBeNull();
  expect(room.workers).toEqual([main]);
});

test("when the main worker dies, the one with the most participants takes its place", () => {
  const [main, second, third] = [worker("main"), worker("second"), worker("third")];
  const room = new RoomSites({ roomId: "r" }, main, 2);
  fill(room, 0, 2);
  room.add(second);
  room.place("a", "a");
  room.add(third);
  room.place("b", "b");
  room.place("c", "c");
  expect(room.lose(worker("other"))).toBeNull();
  expect(room.lose(main)).toEqual({ participantIds: ["p0", "p1"], remains: true, wasMain: true });
  expect(room.main).toBe(second);
  expect(room.lose(third)).toEqual({ participantIds: ["c"], remains: true, wasMain: false });
  expect(room.lose(second)).toEqual({ participantIds: ["a", "b"], remains: false, wasMain: true });
});
