import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Installed, installPackage } from "./installed.ts";

let installed: Installed;
beforeAll(async () => {
  installed = await installPackage();
}, 120_000);
afterAll(() => installed.close());

const BACKEND = `
import { type Room, Stoa, StoaApiError, verifyWebhook } from "stoa/server";

const stoa = new Stoa({ url: "https://rtc.example.com", apiKey: "svk_dev_x.y" });
export async function join(user: string): Promise<{ endpoint: string; token: string }> {
  const { rtc, chat, conversation } = await stoa.mintJoin({ room: "standup", user, permissions: { publish: true } });
  console.log(chat.token.length, conversation.memberCount.toFixed());
  return rtc;
}
const names: string[] = [];
for await (const room of stoa.rooms.list({ limit: 50 })) names.push((room satisfies Room).name);
const [first] = await stoa.liveStreams.list({ status: "LIVE" });
console.log(first?.viewerCount);
for await (const { text } of stoa.messages.history("lobby")) console.log(text?.length);
const made = await stoa.conversations.create({ name: "lobby", members: [{ userId: "anna", role: "ADMIN" }] }, { idempotencyKey: "k" });
await stoa.messages.send(made.id, { text: "hi", senderId: "anna" });
try {
  await stoa.rooms.get("nope");
} catch (error) {
  if (error instanceof StoaApiError && error.code === "SVC_ROOM_NOT_FOUND") console.log(error.requestId);
}
const event = await verifyWebhook("{}", new Headers(), "whsec_x");
console.log(event.type satisfies string);
`;

const PAGE = `
import { connect, connectChat, type LocalMessage, type RemoteTrack, StoaError } from "stoa/client";

const room = await connect("wss://rtc.example.com/v1/rtc", "token", { tokenProvider: async () => "fresh" });
room.on("trackSubscribed", (track: RemoteTrack, { identity }) => document.body.append(track.attach(), identity));
await room.localParticipant.enableCamera({ height: 720 });
const conversation = await (await connectChat("wss://rtc.example.com/v1/chat/ws", "token")).join("lobby");
const messages: readonly LocalMessage[] = conversation.messages;
await conversation.send(String(messages.length)).catch((error) => error instanceof StoaError && error.reason);
`;

const REACT = `
import { Conference, StoaRoom, useChat, useConversation, useLiveStream, useParticipants, useTracks, VideoTile } from "stoa/react";
import { connect, type Room } from "stoa/client";
import { useRoom } from "stoa/react";

function People() {
  const room: Room | null = useRoom().room;
  const tokenProvider = async () => "fresh";
  const chat = useChat("wss://rtc.example.com/v1/chat/ws", "token", { tokenProvider });
  const { messages, send } = useConversation(chat, room?.id);
  const names = useParticipants().map(({ identity }) => identity);
  return <>{useTracks(["camera"]).map(({ id, track }) => <VideoTile key={id} track={track} width={320} />)}
    <button onClick={() => void send("hi")}>{messages.length + names.length}</button></>;
}
export const App = () => <><StoaRoom endpoint="e" token="t" audio video><People /></StoaRoom><Conference endpoint="e" token="t" chat={{ endpoint: "c", token: "t", tokenProvider: async () => "fresh" }} /></>;
console.log(connect, useLiveStream);
`;

const BOT = `
import { startStoa } from "stoa";
import { type AudioEvent, bars, join, tone } from "stoa/participant";

const server = await startStoa({ env: { LOG_LEVEL: "info" } });
const bot = await join(server.url, "token", { network: { loss: 0.05, seed: 7 } });
bot.on("audio", ({ samples, sampleRate, channels }: AudioEvent) => console.log(samples.length / sampleRate / channels));
bot.on("video", ({ codec, data, keyframe }) => console.log(codec, data.length, keyframe));
const track = await bot.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
await bot.publishVideo(bars());
await track.done;
await bot.close();
await server.stop();
`;

describe.each(["typescript", "typescript-5.4"] as const)("types under %s, with skipLibCheck off", (compiler) => {
  const bundler = "--module esnext --moduleResolution bundler --types node";
  const node = "--module nodenext --moduleResolution nodenext --types node";
  const browser = "--lib es2022,dom,dom.iterable,dom.asynciterable,esnext.disposable";

  test("a backend and a bot compile without a browser's types", async () => {
    expect(await installed.compile(compiler, [BACKEND, BOT], `${node} --lib es2022,esnext.disposable`)).toBe("");
  }, 180_000);

  test("a page, components and hooks compile by a bundler's resolution", async () => {
    expect(await installed.compile(compiler, [PAGE, REACT], `${bundler} ${browser} --jsx react-jsx`)).toBe("");
  }, 180_000);

  test("a page compiles by Node's resolution", async () => {
    expect(await installed.compile(compiler, [PAGE], `${node} ${browser}`)).toBe("");
  }, 180_000);

  test("unknown fields and methods are rejected", async () => {
    const wrong = `
import { Stoa } from "stoa/server";
const stoa = new Stoa({ url: "", apiKey: "" });
await stoa.rooms.create({ nam: "x" });
await stoa.rooms.lst();
for await (const { titel } of stoa.liveStreams.list()) console.log(titel);
`;
    const output = await installed.compile(compiler, [wrong], `${node} --lib es2022,dom --skipLibCheck`);
    for (const name of ["nam", "lst", "titel"]) expect(output).toContain(name);
  }, 180_000);
});

test("every entry can be imported without a window, as in server-side rendering", async () => {
  const { exports } = JSON.parse(readFileSync(join(installed.folder, "node_modules/stoa/package.json"), "utf8"));
  const entries = Object.keys(exports).filter((name) => name !== "./package.json");
  expect(entries.length).toBeGreaterThan(1);
  const script = `for (const name of ${JSON.stringify(entries)}) {
    const found = Object.keys(await import("stoa" + name.slice(1)));
    if (found.length === 0) throw new Error(name);
  }
  console.log("all");`;
  expect((await installed.run(["node", "--input-type=module", "-e", script])).output.trim()).toBe("all");
  expect((await installed.run([process.execPath, "-e", script])).output.trim()).toBe("all");
}, 180_000);

test("a page with a call renders on a server without joining", async () => {
  const script = `
    import { createElement } from "react";
    import { renderToString } from "react-dom/server";
    import { Conference, StoaRoom } from "stoa/react";
    console.log(renderToString(createElement(StoaRoom, { endpoint: "e", token: "t" }, createElement(Conference, { endpoint: "e", token: "t" }))));`;
  expect((await installed.run(["node", "--input-type=module", "-e", script])).output).toContain("Joining…");
}, 180_000);

test("the bundled libraries are listed with their licences", () => {
  const text = readFileSync(join(installed.folder, "node_modules/stoa/THIRD-PARTY-LICENSES"), "utf8");
  for (const name of ["werift: MIT", "ws: MIT", "libopus-wasm: MIT"]) expect(text).toContain(name);
  expect(text).not.toContain("see its repository");
});

test("under Node, startStoa's stop() resolves after the end, and a program that does not call it still exits", async () => {
  const binary = join(import.meta.dir, "../../../bin/stoa");
  const start = `import { startStoa } from "stoa"; const server = await startStoa({ binary: ${JSON.stringify(binary)} });`;
  const run = async (script: string) => installed.run(["node", "--input-type=module", "-e", start + script]);
  expect(await run('await server.stop(); console.log("stopped");')).toEqual({ code: 0, output: "stopped\n" });
  expect((await run("console.log(server.url);")).code).toBe(0);
}, 180_000);

test("the package has no dependencies, a source map for every module, and no foreign types", () => {
  const lock = JSON.parse(readFileSync(join(installed.folder, "package-lock.json"), "utf8"));
  expect(Object.keys(lock.packages).filter(Boolean)).toEqual(["node_modules/stoa"]);
  const dist = join(installed.folder, "node_modules/stoa/dist");
  const files = readdirSync(dist, { recursive: true }).map(String);
  const scripts = files.filter((file) => file.endsWith(".js") && !file.endsWith("participant.js"));
  for (const script of scripts) expect(files).toContain(`${script}.map`);
  const foreign = files
    .filter((name) => name.endsWith(".d.ts"))
    .filter((name) => /typebox|elysia|\.ts"|from "bun/.test(readFileSync(join(dist, name), "utf8")));
  expect(foreign).toEqual([]);
});
