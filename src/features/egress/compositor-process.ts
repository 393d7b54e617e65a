import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Log } from "../../kernel/log.ts";
import { ownCommandLine } from "../../kernel/own-command.ts";
import { COMPOSITOR_COMMAND, type FromCompositor, type ToCompositor } from "./compositor/messages.ts";

export type CompositorProcess = {
  send(message: ToCompositor): void;
  kill(): void;
};

/** Below calls. Where memory is short, the kernel ends it and its decoders before the server. */
const NICENESS = "5";
const MAX_STDERR_CHARACTERS = 2_000;

/** The compositor gets nothing of this process's environment that it does not need: it holds secrets. */
function environment(): Record<string, string> {
  const { PATH = "", LANG = "C.UTF-8", TMPDIR } = process.env;
  return { PATH, LANG, ...(TMPDIR === undefined ? {} : { TMPDIR }), BUN_GC_TIMER_INTERVAL: "1000" };
}

/** `onClosed` is called once, when the process has ended for whatever reason. */
export function startCompositor(
  log: Log,
  onMessage: (message: FromCompositor) => void,
  onClosed: (error: string) => void,
): CompositorProcess {
  const command = [...ownCommandLine(), COMPOSITOR_COMMAND];
  const child = spawn("nice", ["-n", NICENESS, ...command], { stdio: ["pipe", "pipe", "pipe"], env: environment() });
  let stderr = "";
  child.stderr.on("data", (bytes: Buffer) => {
    stderr = (stderr + bytes.toString()).slice(-MAX_STDERR_CHARACTERS);
  });
  child.stdin.on("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => {
    try {
      onMessage(JSON.parse(line) as FromCompositor);
    } catch (err) {
      log.error({ err }, "egress: message of a compositor not handled");
    }
  });
  let isClosed = false;
  const closed = (error: string) => {
    if (!isClosed) onClosed(error);
    isClosed = true;
  };
  child.on("error", (error) => closed(error.message));
  child.on("close", (code, signal) => closed(stderr.trim() || `ended with ${signal ?? `exit code ${code}`}`));
  return {
    send(message) {
      if (child.stdin.writable) child.stdin.write(`${JSON.stringify(message)}\n`);
    },
    kill: () => void child.kill("SIGKILL"),
  };
}
