import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import { type Installed, installPackage } from "./installed.ts";

const NODE = "node@22.23.3";
const DENO = "deno@2.9.5";
const PNPM = "pnpm@12.18.0";
const YARN = "yarn@1.22.22";

let installed: Installed;
let server: RunningStoa;
beforeAll(async () => {
  installed = await installPackage();
  // They have their own folder, because npm removes packages that it did not install, even through links.
  const install = await installed.run([
    "npm",
    "install",
    "--no-audit",
    "--no-fund",
    "--prefix",
    "programs",
    NODE,
    DENO,
    PNPM,
    YARN,
  ]);
  if (install.code !== 0) throw new Error(install.output);
  server = await startStoa();
}, 600_000);
afterAll(async () => {
  installed.close();
  await server.stop();
});

/** A backend that mints tokens, a bot that publishes audio and one that receives it. */
const CALL = `
import { connectChat } from "stoa/client";
import { join, tone, WebSocket } from "stoa/participant";
import { Stoa } from "stoa/server";
import process from "node:process";

for (const entry of ["stoa", "stoa/client"]) await import(entry);
const stoa = new Stoa({ url: process.env.STOA_URL, apiKey: process.env.STOA_API_KEY });
const enter = async (user) => {
  const { rtc, chat } = await stoa.mintJoin({ room: process.argv[2], user });
  const words = await connectChat(chat.endpoint, chat.token, { WebSocket });
  return Object.assign(await join(rtc.endpoint, rtc.token), { words, talk: await words.join(process.argv[2]) });
};
const [anna, ben] = [await enter("anna"), await enter("ben")];
const heard = new Promise((resolve) => ben.on("audio", ({ identity, samples }) => samples.some(Boolean) && resolve(identity)));
await anna.publishAudio(tone({ hz: 440 }));
console.log("heard", await heard);
const read = new Promise((resolve) => ben.talk.on("message", resolve));
await anna.talk.sendFile(new Blob(["0123456789"], { type: "text/plain" }), { filename: "ten.txt", text: "hello" });
const { senderId, text, attachment } = await read;
console.log(senderId, text, attachment.filename, attachment.size);
for (const { words } of [anna, ben]) words.close();
for (const one of [anna, ben]) await one.close();
const rooms = [];
for await (const { name } of stoa.rooms.list()) rooms.push(name);
console.log(rooms.includes(process.argv[2]));
process.exit(0);
`;

test.each([
  ["the installed Node", ["node"]],
  ["Node 22", ["programs/node_modules/.bin/node"]],
  ["Deno", ["programs/node_modules/.bin/deno", "run", "--allow-all", "--quiet"]],
  ["Bun", [process.execPath]],
])(
  "[21] a backend and two bots work on %s",
  async (name, command) => {
    writeFileSync(join(installed.folder, "call.mjs"), CALL);
    const room = name.replaceAll(/\W+/g, "-").toLowerCase();
    const { output, code } = await installed.run([...command, "call.mjs", room], {
      STOA_URL: server.url,
      STOA_API_KEY: server.apiKey,
    });
    expect([output, code]).toEqual(["heard anna\nanna hello ten.txt 10\ntrue\n", 0]);
  },
  120_000,
);

test.each([
  ["pnpm", ["programs/node_modules/.bin/pnpm", "add"]],
  ["yarn", ["programs/node_modules/.bin/yarn", "add", "--no-lockfile"]],
  ["Bun", [process.execPath, "add"]],
])(
  "[21] %s installs the package by its address without dependencies",
  async (name, command) => {
    const folder = join(installed.folder, `by-${name}`);
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), '{ "name": "somebody", "version": "1.0.0", "type": "module" }');
    writeFileSync(join(folder, "use.mjs"), 'console.log(typeof (await import("stoa/server")).Stoa);');
    const [program = "", ...words] = command;
    const path = program.startsWith("/") ? program : join(installed.folder, program);
    const { code, output } = await installed.run([path, ...words, installed.url], {}, folder);
    expect([output, code]).toEqual([output, 0]);
    expect(await installed.run(["node", "use.mjs"], {}, folder)).toEqual({ code: 0, output: "function\n" });
    const others = readdirSync(join(folder, "node_modules")).filter((entry) => !entry.startsWith("."));
    expect(others).toEqual(["stoa"]);
  },
  120_000,
);
