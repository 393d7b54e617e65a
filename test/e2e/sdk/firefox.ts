import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import type { Scripted } from "./scripted.ts";

export type FirefoxPage = Scripted & { close(): Promise<void> };
export type Firefox = { page(url: string): Promise<FirefoxPage>; close(): Promise<void> };

type FirefoxOptions = {
  /** A prefix of the command. */
  prefix?: string[];
  /** Maps the address that Firefox listens on to a reachable one. */
  reach?: (url: string) => string | Promise<string>;
  preferences?: Record<string, boolean | number | string>;
  /** The file of a certificate authority to trust. */
  trusts?: string;
};

/** Fake devices without permission prompts, and candidates on loopback. */
const PREFERENCES: Record<string, boolean | number | string> = {
  "media.navigator.streams.fake": true,
  "media.navigator.permission.disabled": true,
  // Otherwise a page cannot list its devices while another one has the focus.
  "media.devices.unfocused.enabled": true,
  // Without access to devices a page gets candidates only for the default route.
  "permissions.default.camera": 1,
  "permissions.default.microphone": 1,
  "media.peerconnection.ice.loopback": true,
  "media.peerconnection.ice.obfuscate_host_addresses": false,
  "media.autoplay.default": 0,
  "media.autoplay.blocking_policy": 0,
  "media.gmp-manager.updateEnabled": false,
  "app.update.disabledForTesting": true,
  "app.normandy.enabled": false,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.page": 0,
  "datareporting.policy.dataSubmissionEnabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "services.settings.server": "data:,",
  "toolkit.telemetry.server": "data:,",
};

/** The running Firefox that files without options share; it ends with this process. */
let running: Promise<Started> | null = null;

/** Firefox for one test file: its process is shared by the files of a folder, and `close` ends what this file has opened. */
export async function openFirefox(): Promise<Firefox> {
  running ??= start({});
  const { bidi } = await running;
  const { userContext } = await bidi<{ userContext: string }>("browser.createUserContext", {});
  return {
    page: (url) => openPage(bidi, url, { userContext }),
    close: async () => void (await bidi("browser.removeUserContext", { userContext })),
  };
}

/** Launches a Firefox of the file's own. */
export async function launchFirefox(options: FirefoxOptions): Promise<Firefox> {
  const { bidi, end } = await start(options);
  return { page: (url) => openPage(bidi, url), close: end };
}

type Started = { bidi: Bidi; end(): Promise<void> };

/**
 * Ends the command and removes its profile when this process closes the pipe or ends: tests get no event when Bun's runner
 * exits.
 */
const UNTIL_CLOSED = '"$@" & cat > /dev/null; kill -KILL $!; wait; rm -rf "$HOME"';

/** Starts the distribution's Firefox, which is driven with WebDriver BiDi. */
async function start({
  prefix = [],
  reach = (url) => url,
  preferences = {},
  trusts,
}: FirefoxOptions): Promise<Started> {
  const profile = mkdtempSync(join(tmpdir(), "stoa-firefox-"));
  const lines = Object.entries({ ...PREFERENCES, ...preferences }).map(
    ([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});`,
  );
  writeFileSync(join(profile, "user.js"), lines.join("\n"));
  if (trusts !== undefined) {
    await $`certutil -N -d sql:${profile} --empty-password`.quiet();
    await $`certutil -A -d sql:${profile} -n test -t CT,, -i ${trusts}`.quiet();
  }
  const command = [
    ...prefix,
    "firefox-esr",
    "--headless",
    "--no-remote",
    "--profile",
    profile,
    "--remote-debugging-port",
    "0",
  ];
  const child = Bun.spawn(["sh", "-c", UNTIL_CLOSED, "sh", ...command], {
    env: { ...process.env, HOME: profile },
    stdin: "pipe",
    stdout: "ignore",
    stderr: "pipe",
  });
  const bidi = await openBidi(await address(child.stderr), reach);
  await bidi("session.new", { capabilities: {} });

  const end = async () => {
    await child.stdin.end();
    await child.exited;
  };
  return { bidi, end };
}

async function openPage(bidi: Bidi, url: string, within: { userContext?: string } = {}): Promise<FirefoxPage> {
  const { context } = await bidi<{ context: string }>("browsingContext.create", { type: "window", ...within });
  await bidi("browsingContext.navigate", { context, url, wait: "complete" });
  const close = async () => void (await bidi("browsingContext.close", { context }));
  return { ...scripted(bidi, context), close };
}

type Bidi = <Result>(method: string, params: object) => Promise<Result>;
type Answer = { id?: number; result?: unknown; error?: string; message?: string };
type Evaluated =
  | { type: "success"; result: { value?: string } }
  | { type: "exception"; exceptionDetails: { text: string } };

function scripted(bidi: Bidi, context: string): Scripted {
  // Values are passed as JSON, which is simpler than the value format of BiDi.
  const evaluate: Scripted["evaluate"] = async (run, argument) => {
    const evaluated = await bidi<Evaluated>("script.callFunction", {
      functionDeclaration: `async (text) => JSON.stringify({ value: await (${run})(JSON.parse(text).argument) })`,
      arguments: [{ type: "string", value: JSON.stringify({ argument }) }],
      target: { context },
      awaitPromise: true,
    });
    if (evaluated.type === "exception") throw new Error(evaluated.exceptionDetails.text);
    return JSON.parse(evaluated.result.value ?? "{}").value;
  };
  return {
    evaluate,
    async waitForFunction(holds, argument, { timeout = 30_000, polling = 100 } = {}) {
      const deadline = Date.now() + timeout;
      while (!(await evaluate(holds, argument))) {
        if (Date.now() > deadline) throw new Error(`not fulfilled within ${timeout} ms: ${holds}`);
        await Bun.sleep(polling);
      }
    },
  };
}

/** Firefox accepts only connections with its own host name in the Host header. */
async function openBidi(own: string, reach: NonNullable<FirefoxOptions["reach"]>): Promise<Bidi> {
  const url = await reach(own);
  const options = { headers: { host: new URL(own).host } };
  // In Bun the second argument may be options.
  const socket = new WebSocket(`${url}/session`, options as Bun.WebSocketOptions as never);
  const pending = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  socket.addEventListener("message", ({ data }) => {
    const { id = 0, result, error, message } = JSON.parse(String(data)) as Answer;
    if (error === undefined) pending.get(id)?.resolve(result);
    else pending.get(id)?.reject(new Error(`${error}: ${message}`));
    pending.delete(id);
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error(`no response from ${url}`)));
  });
  return <Result>(method: string, params: object) => {
    const answer = Promise.withResolvers<unknown>();
    pending.set(++lastId, answer);
    socket.send(JSON.stringify({ id: lastId, method, params }));
    return answer.promise as Promise<Result>;
  };
}

/** Reads the address that Firefox prints, and discards the rest of its output. */
function address(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Promise((resolve, reject) => {
    const decoder = new TextDecoder();
    let text = "";
    const read = async () => {
      for await (const chunk of stream) {
        text = (text + decoder.decode(chunk, { stream: true })).slice(-4000);
        const url = /WebDriver BiDi listening on (ws:\S+)/.exec(text)?.[1];
        if (url) resolve(url);
      }
      reject(new Error(`Firefox ended: ${text}`));
    };
    void read();
  });
}
