import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSdkTypes } from "../../../bin/build-sdk-types.ts";
import { ON_DEMAND } from "../../../bin/on-demand.ts";

const ROOT = join(import.meta.dir, "../../..");
const MAX_GZIPPED_BYTES = 30 * 1024;

const folder = mkdtempSync(join(tmpdir(), "stoa-sdk-"));
beforeAll(() => buildSdkTypes(ROOT, join(folder, "sdk.d.ts")), 60_000);
afterAll(() => rmSync(folder, { recursive: true }));

/** Compiles code against `sdk.d.ts` alone and returns the compiler's output. */
async function compile(source: string): Promise<string> {
  writeFileSync(join(folder, "app.ts"), source);
  const flags = "--ignoreConfig --noEmit --strict --target esnext --module esnext --moduleResolution bundler --types";
  const child = Bun.spawn([join(ROOT, "node_modules/.bin/tsc"), "app.ts", ...flags.split(" "), ""], {
    cwd: folder,
    stdout: "pipe",
  });
  const output = await new Response(child.stdout).text();
  await child.exited;
  return output;
}

const APP = `
import { connect, connectChat, type RemoteTrack, RequestError, type Room, StoaError, type StreamReader } from "./sdk.js";

const room: Room = await connect("wss://rtc.example.com/v1/rtc", "token", { tokenProvider: async () => "fresh" });
room.on("trackSubscribed", (track: RemoteTrack, participant) => {
  const element: HTMLMediaElement = track.attach();
  element.title = participant.identity;
});
room.on("connectionStateChanged", (state, error) => console.log(state satisfies string, error?.reason));
room.on("participantJoined", ({ identity, metadata }) => console.log(identity, metadata));
const camera = await room.localParticipant.enableCamera({ height: 1080 });
await room.localParticipant.mute(camera);
await room.sendData("hello", { reliable: false, topic: "greeting" });
await room.sendFile(new Blob(["x"]), { to: ["ben"], onProgress: (fraction) => console.log(fraction.toFixed()) });
room.onStream("files", async (reader: StreamReader, from) => console.log(from, reader.name, (await reader.blob()).size));
room.onRequest("add", (payload) => {
  if (payload === "") throw new RequestError(10, "nothing to add");
  return String(Number(payload) + 1);
});
const answer: string = await room.request("ben", "add", "41", { timeoutMs: 5_000 });
for (const { kind, height } of (await room.getStats())?.tracks ?? []) console.log(kind, height);

const chat = await connectChat("wss://rtc.example.com/v1/chat/ws", "token");
const conversation = await chat.join("lobby");
conversation.on("message", (message) => console.log(message.text?.length, message.status));
conversation.on("reactionAdded", ({ emoji, userId }) => console.log(emoji, userId));
try {
  const { seq } = await conversation.send("hi");
  await conversation.react(conversation.messages[0]!.id, "👋");
  console.log(seq.toFixed());
} catch (error) {
  if (error instanceof StoaError && error.reason === "rate-limited") console.log(error.retryAfterSeconds);
}
`;

test("an app compiles strictly against sdk.d.ts alone", async () => {
  expect(await compile(APP)).toBe("");
}, 60_000);

test("the types reject unknown events and options", async () => {
  const output = await compile(`
import { connect } from "./sdk.js";
const room = await connect("a", "b");
room.on("trackSubscribd", () => {});
room.localParticipant.enableCamera({ heigth: 1 });
`);
  expect(output).toContain("trackSubscribd");
  expect(output).toContain("heigth");
}, 60_000);

test("the types expose no internals", () => {
  const types = readFileSync(join(folder, "sdk.d.ts"), "utf8");
  expect(types).not.toMatch(/typebox|from "|require\(/);
  expect(types).not.toMatch(/resumeToken|removeAllListeners|clientTrackId/);
  const classes = [...types.matchAll(/^export (?:abstract )?class (\w+)/gm)].map(([, name]) => name).sort();
  expect(classes).toEqual([
    "Chat",
    "Conversation",
    "ConversationArchive",
    "Emitter",
    "KeyProvider",
    "LocalParticipant",
    "LocalTrack",
    "RemoteParticipant",
    "RemoteTrack",
    "RequestError",
    "Ring",
    "Room",
    "StoaError",
    "StreamReader",
    "StreamWriter",
  ]);
});

test("every exported symbol and every class member has a doc comment", () => {
  const lines = readFileSync(join(folder, "sdk.d.ts"), "utf8").split("\n");
  // Records are generated from the server's schemas, which the API reference documents.
  const own = lines.slice(lines.findIndex((line) => line.startsWith("declare namespace web_sdk_")));
  const undocumented = own.filter((line, at) => {
    const before = own[at - 1] ?? "";
    if (!/^export (declare |abstract )*(class|type|function|const) /.test(line) && !isMember(own, at)) return false;
    return !before.trimEnd().endsWith("*/");
  });
  expect(undocumented).toEqual([]);
});

/** Whether the line starts a class member. */
function isMember(lines: string[], at: number): boolean {
  const line = lines[at] ?? "";
  if (!/^ {4}[a-z]/.test(line) || line.startsWith("    constructor")) return false;
  const head = lines.slice(0, at).findLast((one) => /^\S/.test(one) && !one.startsWith("import"));
  return /^export (abstract )?class /.test(head ?? "");
}

test("the whole SDK stays under 30 KB gzipped", async () => {
  const { outputs } = await Bun.build({
    entrypoints: [join(ROOT, "web/sdk/index.ts")],
    target: "browser",
    format: "esm",
    minify: true,
    define: { STOA_VERSION: JSON.stringify("1.2.3") },
    plugins: [ON_DEMAND],
  });
  const bytes = Bun.gzipSync((await outputs[0]?.arrayBuffer()) ?? new ArrayBuffer()).byteLength;
  console.log(`      sdk.js: ${bytes} bytes gzipped`);
  expect(bytes).toBeLessThan(MAX_GZIPPED_BYTES);
  expect(bytes).toBeGreaterThan(1000);
});
