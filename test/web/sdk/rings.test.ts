import { afterAll, expect, test } from "bun:test";
import { connectChat } from "../../../web/sdk/chat/chat.ts";
import type { Ring } from "../../../web/sdk/chat/ring.ts";
import { chatWorld } from "../../features/chat/world.ts";
import { openPage } from "./page.ts";

const page = openPage();
Object.assign(globalThis, { location: new URL("http://127.0.0.1/") });
const world = await chatWorld();
afterAll(async () => {
  page.close();
  Reflect.deleteProperty(globalThis, "location");
  await world.close();
});

const endpoint = `${world.server.url.replace("http", "ws")}/v1/chat/ws`;
const connect = async (userId: string) => connectChat(endpoint, await world.token(userId));
const once = <Args extends unknown[]>(on: (listener: (...args: Args) => void) => unknown): Promise<Args> =>
  new Promise((resolve) => on((...args) => resolve(args)));

test("a ring reaches all devices of a user, and one answer ends it on all of them and for the caller", async () => {
  const roomId = (await world.call("POST", "/v1/rooms", world.key, { name: "family" })).body.id;
  await world.room("family-chat", ["ada", "grace"], { roomId });
  const [ada, phone, laptop] = [await connect("ada"), await connect("grace"), await connect("grace")];
  const incoming = [phone, laptop].map((device) => once<[Ring]>((listener) => device.on("ringing", listener)));
  const ring = await ada.ring("family-chat", { metadata: { video: true } });
  const [[atPhone], [atLaptop]] = (await Promise.all(incoming)) as [[Ring], [Ring]];
  expect(atPhone.record).toMatchObject({ id: ring.id, callerId: "ada", metadata: { video: true } });

  const ended = [ring, atLaptop].map((one) => once((listener) => one.on("over", listener)));
  await atPhone.answer();
  expect((await Promise.all(ended)).map(([record]) => (record as Ring["record"]).status)).toEqual([
    "ANSWERED",
    "ANSWERED",
  ]);
  expect([ada.rings, laptop.rings]).toEqual([[], []]);

  const again = once<[Ring]>((listener) => phone.on("ringing", listener));
  const second = await ada.ring("family-chat");
  await again;
  // A device that connects during the ring receives it too, and the caller cancels it.
  const late = await connect("grace");
  const [received] = late.rings.length > 0 ? [late.rings[0]] : await once<[Ring]>((on) => late.on("ringing", on));
  expect(received?.id).toBe(second.id);
  const over = once((listener) => (received as Ring).on("over", listener));
  await second.cancel();
  expect((await over)[0]).toMatchObject({ status: "CANCELLED" });
  for (const chat of [ada, phone, laptop, late]) chat.close();
});
