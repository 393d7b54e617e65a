import type { Config } from "../../kernel/config/index.ts";
import type { ServerNote } from "../../kernel/data-directory/data-lock.ts";

export type Status = "pass" | "warn" | "fail";

/** In the order of the manual, which explains each of them. */
export const CHECK_NAMES = [
  "data-directory",
  "database",
  "disk-space",
  "backups",
  "commit-log",
  "clock",
  "udp-buffers",
  "file-descriptors",
  "ffmpeg",
  "http-port",
  "media-ports",
  "media-addresses",
  "media-probe",
  "domain",
  "port-80",
  "turn",
  "turn-closed",
  "certificate",
  "websocket",
  "livekit-clients",
  "proxy-headers",
  "mail",
  "sign-in",
  "webhooks",
  "doctor",
] as const;
type CheckName = (typeof CHECK_NAMES)[number];

/** One thing that was looked at. The remedy is one line, and empty when all is well. */
export type Check = { name: CheckName; status: Status; detail: string; remedy: string };

export type CheckContext = {
  config: Config;
  /** The server that is running on this data, if one is. */
  running: ServerNote | null;
  now: number;
};

/** A group of checks; each file beside this one is one. */
export type CheckGroup = (context: CheckContext) => Promise<Check[]>;

type Trouble = (name: CheckName, detail: string, remedy: string) => Check;
export const pass = (name: CheckName, detail: string): Check => ({ name, status: "pass", detail, remedy: "" });
export const warn: Trouble = (name, detail, remedy) => ({ name, status: "warn", detail, remedy });
export const fail: Trouble = (name, detail, remedy) => ({ name, status: "fail", detail, remedy });

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Nothing that is asked of the network may keep the doctor waiting for longer. */
export const TIMEOUT_MS = 5_000;
