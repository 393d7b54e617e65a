import type { Config } from "../kernel/config/index.ts";
import type { ServerNote } from "../kernel/data-lock.ts";

export type Status = "pass" | "warn" | "fail";

/** One thing that was looked at. The remedy is one line, and empty when all is well. */
export type Check = { name: string; status: Status; detail: string; remedy: string };

export type Patient = {
  config: Config;
  /** The server that is running on this data, if one is. */
  running: ServerNote | null;
  now: number;
};

/** A group of checks; each file beside this one is one. */
export type Examination = (patient: Patient) => Promise<Check[]>;

export const pass = (name: string, detail: string): Check => ({ name, status: "pass", detail, remedy: "" });
export const warn = (name: string, detail: string, remedy: string): Check => ({ name, status: "warn", detail, remedy });
export const fail = (name: string, detail: string, remedy: string): Check => ({ name, status: "fail", detail, remedy });

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Nothing that is asked of the network may keep the doctor waiting for longer. */
export const PATIENCE_MS = 5_000;
