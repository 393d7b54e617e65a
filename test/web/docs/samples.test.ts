// suite: all
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf, GUIDES, ROOT } from "./blocks.ts";

/** Within the checkout, so that the samples find the types of React. */
const folder = join(ROOT, ".cache", `samples-${process.pid}`);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COMPILER_OPTIONS = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  target: "esnext",
  module: "esnext",
  moduleResolution: "bundler",
  jsx: "react-jsx",
  jsxImportSource: "react",
  lib: ["esnext", "dom", "dom.iterable"],
  types: ["bun"],
  paths: {
    stoa: ["../../src/cli/start/start-stoa.ts"],
    "stoa/client": ["../../web/sdk/index.ts"],
    "stoa/server": ["../../web/sdk/server.ts"],
    "stoa/react": ["../../web/react/index.ts"],
    "stoa/participant": ["../../src/rtc-client/participant/participant.ts"],
  },
};

/** Declarations that the text around a sample has introduced. */
const CONTEXT: Record<string, string> = {
  rtc: 'import("stoa/server").RtcToken',
  chat: 'import("stoa/server").ChatToken',
  join: 'import("stoa/server").Join',
};

function withContext(code: string): string {
  const missing = Object.entries(CONTEXT).filter(([name]) => {
    const introduced = new RegExp(`(import|const|\\() ?\\{[^}]*\\b${name}\\b[^}]*\\}|const ${name}\\b`);
    return new RegExp(`\\b${name}\\.`).test(code) && !introduced.test(code);
  });
  return `${missing.map(([name, type]) => `declare const ${name}: ${type};\n`).join("")}${code}\nexport {};\n`;
}

async function compile(files: Record<string, string>): Promise<string> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [name, code] of Object.entries(files)) writeFileSync(join(folder, name), code);
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: COMPILER_OPTIONS, include: ["*"] }));
  const tsc = Bun.spawn([join(ROOT, "node_modules/.bin/tsc"), "-p", folder], { stdout: "pipe" });
  return new Response(tsc.stdout).text();
}

const samples = [...GUIDES, "web/package-readme.md"].flatMap((guide) =>
  blocksOf(guide).filter(({ language }) => ["ts", "tsx"].includes(language)),
);

/** A narrowed event has typed data, a record has its fields, and nothing else has. */
const TYPES = `
import type { Call, CallDetail, Delivery, Recording, RecordingFile, TimelineEntry, Webhook, WebhookEvent, WebhookEventOf } from "stoa/server";
export const left = (event: WebhookEvent): string | null => {
  if (event.type === "call.participant_left") return event.data.reason satisfies "left" | "timeout" | string;
  if (event.type === "live_stream.created") return event.data.visibility satisfies "PUBLIC" | "PRIVATE" | "AUTHENTICATED";
  if (event.type === "webhook.test") return event.data.webhookId;
  // @ts-expect-error: other events have no reason
  return event.data.reason;
};
export const ended = ({ data }: WebhookEventOf<"call.ended">): number => data.durationMs;
export const words = (entry: TimelineEntry): string | undefined => entry.text;
export const verdicts = (call: CallDetail) => call.participants.map(({ verdict }) => verdict?.sentence);
export const widths = (recording: Recording) => recording.files.map((file: RecordingFile) => file.width);
export const room = (call: Call, hook: Webhook, delivery: Delivery) => [call.roomName, hook.url, delivery.status];
`;

test("[21] every TypeScript sample compiles under strict, and every record and event has a type", async () => {
  expect(samples.length).toBeGreaterThan(6);
  const files = samples.map(({ guide, line, language, code }) => [
    `${guide.replaceAll(/\W/g, "-")}-${line}.${language}`,
    withContext(code),
  ]);
  expect(await compile({ ...Object.fromEntries(files), "types.ts": TYPES })).toBe("");
}, 240_000);
