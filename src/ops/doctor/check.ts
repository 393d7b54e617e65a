import type { Config } from "../../kernel/config/index.ts";
import type { ServerNote, StandbyNote } from "../../kernel/data-directory/data-lock.ts";

/** The checks in the order of the manual, which explains each one. */
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

/** The result of one check. The remedy is one line, and empty for a pass. */
export type Check = { name: CheckName; status: "pass" | "warn" | "fail"; detail: string; remedy: string };

export type CheckContext = {
  config: Config;
  /** The server that runs on this data, if any. */
  running: ServerNote | null;
  /** The standby that runs on this data, if any. */
  standby?: StandbyNote | null;
  now: number;
};

/** Checks that need a server that serves clients are skipped on a standby. */
export function withoutServer(name: CheckName, { standby }: CheckContext): Check {
  if (standby) return pass(name, "not checked: this server is a standby");
  return warn(name, "no server is running", "Start it and run `stoa doctor` again.");
}

export type CheckGroup = (context: CheckContext) => Promise<Check[]>;

type Problem = (name: CheckName, detail: string, remedy: string) => Check;
export const pass = (name: CheckName, detail: string): Check => ({ name, status: "pass", detail, remedy: "" });
export const warn: Problem = (name, detail, remedy) => ({ name, status: "warn", detail, remedy });
export const fail: Problem = (name, detail, remedy) => ({ name, status: "fail", detail, remedy });

/** The maximum wait for any response from the network. */
export const TIMEOUT_MS = 5_000;
